package redact

import (
	"strings"
	"testing"
)

// X1: an unescaped / or @ in the password of a URL makes pgx take the rest for the database, or a part for the host.
func TestPasswordThatBecameTheDatabaseOrTheHostIsHidden_X1(t *testing.T) {
	for _, text := range []string{
		"failed to connect to `user=root database=SecretTail@127.0.0.1:1/postgres`: dial tcp 127.0.0.1:5432: connect: connection refused",
		"failed to connect to `user=root database=x@127.0.0.1:1/postgres`: hostname resolving error: lookup SecretTail on 10.255.255.53:53: no such host",
	} {
		got := (*Redactor)(nil).String(text)
		if strings.Contains(got, "SecretTail") || !strings.Contains(got, "user=root") {
			t.Errorf("%s", got)
		}
		if again := (*Redactor)(nil).String(got); again != got {
			t.Errorf("not idempotent: %s", again)
		}
	}
}
