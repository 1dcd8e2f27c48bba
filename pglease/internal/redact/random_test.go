package redact

import (
	"math/rand/v2"
	"testing"
)

// Passwords made of the characters that end, escape or enclose things find in
// seconds what the fuzzer needs hours for.
func TestRandomPasswordsSurviveInNoForm_X2(t *testing.T) {
	pieces := []string{"'", `"`, "`", `\`, "@", ":", "/", "?", "#", "%", "&", "=", " ", "  ", "]", "}", ")", "[", "{", "(", ",", ";", ".", "-", "x", "a", "B", "7",
		"\n", "\t", "ü", "\xff", "%41", "%zz", `\n`, `\u0041`, "''", `","`, `":"`, ": ", "://", "host=", "pass", "password=", " Port:", "xxxxx", "word", "2345"}
	rounds := 400_000
	if testing.Short() || raceEnabled {
		rounds = 2_000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range rounds {
		password := ""
		for range 2 + rnd.IntN(8) {
			password += pieces[rnd.IntN(len(pieces))]
		}
		for _, form := range forms {
			checkForm(t, form, password)
		}
		if t.Failed() {
			return
		}
	}
}
