package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglease/pglease-go/pglease"
)

func (a *app) doctorCommand() *cobra.Command {
	var asArray bool
	var age time.Duration
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps leases from working as promised",
		Long: `Looks at the server, the way to it and the lease table: version, primary or standby, a pooler in between and its mode, the lease
table and the role's rights on it, isolation, timeouts, keepalives, synchronous settings, the clocks, indexes that heartbeats would
have to change, bloat and what causes it, sessions against their limits, and leases whose heartbeat is silent. It changes nothing.

Each finding has a severity: notice (worth knowing), warning (works, and will not always), error (does not work, or not as
promised), and a way out. Exit code 0 if there is no warning and no error, 1 for a warning, 2 for an error, 69 if the database
cannot be reached. Run it as the role that the application uses: settings and rights are those of the session.`,
		Example: `  pglease doctor
  pglease doctor --json | jq -r '.[] | select(.severity == "error") | .finding'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if age < 0 {
				return usage("--transaction-age %v: it cannot be negative", age)
			}
			d, err := a.open()
			if err != nil {
				return err
			}
			defer d.db.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), doctorTimeout)
			defer cancel()
			findings, unreachable := examine(ctx, d, age)
			if unreachable == nil {
				findings = append(findings, a.silent(ctx)...)
			}
			for i := range findings {
				findings[i].Finding = printable(d.redact(findings[i].Finding))
				findings[i].Remedy = printable(d.redact(findings[i].Remedy))
			}
			if err := a.writeFindings(findings, asArray); err != nil {
				return err
			}
			if unreachable != nil {
				return exit(codeDatabase, "%v", unreachable)
			}
			return verdict(findings)
		},
	}
	cmd.Flags().BoolVar(&asArray, "json", false, "print a JSON array of findings, those that are ok too")
	cmd.Flags().DurationVar(&age, "transaction-age", time.Hour, "warn of transactions that have been open for longer")
	return cmd
}

const doctorTimeout = 30 * time.Second

// verdict is the exit code for scripts. It says nothing: the findings have.
func verdict(findings []finding) error {
	code := codeOK
	for _, f := range findings {
		switch f.Severity {
		case severityWarning:
			code = max(code, 1)
		case severityError:
			code = max(code, 2)
		}
	}
	if code == codeOK {
		return nil
	}
	return &exitError{code: code}
}

func (a *app) writeFindings(findings []finding, asArray bool) error {
	if asArray {
		return writeJSON(a.out, findings, true)
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(a.out, "%-8s %-13s %s\n", f.Severity, f.Check, f.Finding); err != nil {
			return err
		}
		if f.Remedy != "" {
			if _, err := fmt.Fprintf(a.out, "%22s way out: %s\n", "", f.Remedy); err != nil {
				return err
			}
		}
	}
	return nil
}

// silent finds the leases that are held, and whose heartbeat has been silent for two thirds of what it left them: two beats
// have been missed. It asks the library, and says nothing if that cannot answer: the other checks have said why.
func (a *app) silent(ctx context.Context) (findings []finding) {
	c, err := a.client()
	if err != nil {
		return nil
	}
	defer func() { _ = c.Close(ctx) }()
	infos, err := c.List(ctx)
	if err != nil {
		return nil
	}
	for _, i := range infos {
		ttl := i.ExpiresAt.Sub(i.HeartbeatAt)
		if ttl <= 0 || !i.Zombie(ttl*2/3) {
			continue
		}
		findings = append(findings, finding{"heartbeat", severityWarning,
			fmt.Sprintf("%q is held by %s, whose heartbeat has been silent for %s", i.Name, i.Owner, short(i.ObservedAt.Sub(i.HeartbeatAt))),
			fmt.Sprintf("it is free in %s; look after the holder: %s", short(i.Remaining()), who(i))})
	}
	if len(findings) == 0 {
		findings = append(findings, finding{Check: "heartbeat", Severity: severityOK, Finding: held(infos)})
	}
	return findings
}

func held(infos []pglease.Info) string {
	switch len(infos) {
	case 0:
		return "no lease is held"
	case 1:
		return "1 lease is held, and its heartbeat is heard"
	}
	return fmt.Sprintf("%d leases are held, and all of their heartbeats are heard", len(infos))
}
