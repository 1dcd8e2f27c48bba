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
	rounds := 1_000
	if testing.Short() || raceEnabled {
		rounds = 100
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

// Of an ordinary password nothing but itself goes: the text reads as if it had been the mask.
func TestOrdinaryPasswordsHideNothingElse(t *testing.T) {
	for _, form := range forms {
		for _, password := range []string{"hunter2", "x", "S3cure_Passw0rd.1-", "0123456789"} {
			want := form.text(Mask)
			if form.name == "bare userinfo, %q" {
				want = `missing "=" after "xxxxx" in connection info string` // any of it may be the password
			}
			if got := (*Redactor)(nil).String(form.text(password)); got != want {
				t.Errorf("%s:\n got %s\nwant %s", form.name, got, want)
			}
		}
	}
}
