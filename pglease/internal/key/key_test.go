package key

import "testing"

// The vectors are published (README, schema): another implementation must come to the same keys. They were computed with
// python3: int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") & (2**63 - 1)
func TestLeaseKeysAreThePublishedOnes(t *testing.T) {
	for name, want := range vectors {
		if got := Lease(name); got != want {
			t.Errorf("Lease(%q) = %d, want %d", name, got, want)
		}
		if got := Transaction(name); got >= 0 || uint64(got)&^(1<<63) != uint64(want) {
			t.Errorf("Transaction(%q) = %d, want %d with the top bit set", name, got, want)
		}
	}
}
