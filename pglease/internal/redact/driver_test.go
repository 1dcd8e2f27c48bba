package redact

import (
	"encoding/json"
	"os"
	"testing"
)

// The texts are real errors and configs of lib/pq v1.12.3 and pgx v5.13.0,
// gathered by giving both the DSN forms named in the file, on PostgreSQL 15.
func TestDriverTextsShowNoPassword_X1(t *testing.T) {
	const password = "Tr0ub4dor&3x"
	raw, err := os.ReadFile("testdata/driver_texts.json")
	if err != nil {
		t.Fatal(err)
	}
	var texts []struct{ Driver, Form, Verb, Text string }
	if err := json.Unmarshal(raw, &texts); err != nil {
		t.Fatal(err)
	}
	var r *Redactor
	for _, text := range texts {
		t.Run(text.Driver+"/"+text.Form+"/"+text.Verb, func(t *testing.T) {
			got := r.String(text.Text)
			if part := survivor(got, password); part != "" {
				t.Errorf("%q survives\n in %s\nfrom %s", part, got, text.Text)
			}
			if again := r.String(got); again != got {
				t.Errorf("not idempotent:\n%s\n%s", got, again)
			}
			t.Log(got)
		})
	}
}
