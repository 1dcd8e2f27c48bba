package pglease

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// The longest name and owner, in characters: the width of the columns that the Python package uses.
const (
	maxName  = 255
	maxOwner = 255 - len("-12345678")
)

func checkName(name string) error {
	if why := unfit(name, maxName); why != "" {
		return fmt.Errorf("%w: %s (1 to %d characters of UTF-8 are needed, and no NUL)", ErrInvalidName, why, maxName)
	}
	return nil
}

// unfit says why s cannot be stored in a column of that many characters, or "".
func unfit(s string, limit int) string {
	switch {
	case s == "":
		return "it is empty"
	case !utf8.ValidString(s):
		return "it is not valid UTF-8"
	case strings.ContainsRune(s, 0):
		return "it contains a NUL"
	case utf8.RuneCountInString(s) > limit:
		return fmt.Sprintf("it has %d characters", utf8.RuneCountInString(s))
	}
	return ""
}

// newOwner returns the owner of a new client: who, or the name of this host if that is empty, and 8 random hex digits,
// so that two containers with the same host name and pid are still two (O2), and a restarted process is another owner.
func newOwner(who string) (string, error) {
	if who == "" {
		who = "unknown-host"
		if host, err := os.Hostname(); err == nil && unfit(host, maxOwner) == "" {
			who = host
		}
	}
	if why := unfit(who, maxOwner); why != "" {
		return "", fmt.Errorf("pglease: WithOwner: %s (1 to %d characters of UTF-8 are needed, and no NUL)", why, maxOwner)
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails since Go 1.24
	return who + "-" + hex.EncodeToString(id[:]), nil
}
