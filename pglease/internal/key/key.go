// Package key derives PostgreSQL's 64-bit advisory lock keys from names.
package key

import (
	"crypto/sha256"
	"encoding/binary"
)

// Lease returns the key of a lease's name: the first 8 bytes of the SHA-256 of its UTF-8, big-endian, with the top bit
// cleared. The Python package derives it in the same way. Two names with one key only delay each other: the lease is the
// row, which has the whole name (N2).
func Lease(name string) int64 { return derive(name, 0) }

// Transaction returns the key of a name for transaction-level locks. They have a space of their own, the negative keys, so
// that they never meet a lease's.
func Transaction(name string) int64 { return derive(name, 1<<63) }

func derive(name string, top uint64) int64 {
	sum := sha256.Sum256([]byte(name))
	return int64(binary.BigEndian.Uint64(sum[:8])&^(1<<63) | top)
}
