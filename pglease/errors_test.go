package pglease_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

// leaky is an error of a driver that carries its configuration, as pgconn.ConnectError does.
type leaky struct {
	Password string
	cause    error
}

func (e *leaky) Error() string { return "cannot connect with password=" + e.Password + " host=db" }
func (e *leaky) Unwrap() error { return e.cause }

// failure returns the error of an attempt that failed with cause.
func failure(t *testing.T, cause error) error {
	t.Helper()
	var err error
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		server.Before(only("attempt", fail(cause)))
		_, err = open(t, db).TryAcquire(t.Context(), t.Name())
	})
	return err
}

func TestBackendErrorHidesItsCause_X1(t *testing.T) {
	const secret = "s3cr3tpassword"
	cause := &leaky{secret, fmt.Errorf("%w: %w", fakedb.Error("28P01"), context.DeadlineExceeded)}
	err := failure(t, cause)
	var b *pglease.BackendError
	if !errors.As(err, &b) || b.Op != "acquire" || b.SQLState != "28P01" {
		t.Fatalf("error %#v", err)
	}
	asJSON, _ := json.Marshal(err)
	for _, text := range []string{
		err.Error(), fmt.Sprintf("%v", err), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err), fmt.Sprintf("%s %q", err, err), string(asJSON),
		fmt.Sprintf("%+v", *b), fmt.Sprintf("%#v", *b), fmt.Sprintf("%+v", fmt.Errorf("wrapped: %w", err)),
	} {
		if strings.Contains(text, secret) {
			t.Errorf("the password is in %s", text)
		}
	}
	if !strings.Contains(err.Error(), "28P01") || !strings.Contains(err.Error(), "host=db") {
		t.Errorf("the text says too little: %v", err)
	}
	if errors.Unwrap(err) != nil {
		t.Error("it can be unwrapped")
	}
	var l *leaky
	if errors.As(err, &l) {
		t.Error("As hands out the driver's connect error")
	}
	if errors.Is(err, cause) {
		t.Error("Is finds what it should not know")
	}
	var server fakedb.Error
	if !errors.As(err, &server) || server != "28P01" {
		t.Errorf("As does not hand out the server's error: %q", server)
	}
	var state interface{ SQLState() string }
	if !errors.As(err, &state) || state.SQLState() != "28P01" {
		t.Error("As does not hand out the server's error as an interface")
	}
	for _, target := range []error{pglease.ErrHeld, pglease.ErrLost, pglease.ErrNoSchema, pglease.ErrClosed, context.Canceled, driver.ErrBadConn, nil} {
		if errors.Is(err, target) {
			t.Errorf("it is %v", target)
		}
	}
	mustBe(t, "a timeout", err, context.DeadlineExceeded)
}

func TestBackendErrorTellsWhatItIs(t *testing.T) {
	for _, target := range []error{context.Canceled, context.DeadlineExceeded} {
		mustBe(t, "the error", failure(t, fmt.Errorf("wrapped: %w", target)), target)
	}
	mustBe(t, "the error", failure(t, driver.ErrBadConn), driver.ErrBadConn)
	var state interface{ SQLState() string }
	if err := failure(t, errors.New("connection reset")); errors.As(err, &state) {
		t.Errorf("an error that is not the server's has a state: %v", err)
	}
	var zero pglease.BackendError // of a foreign backend
	if zero.Error() == "" || errors.Is(&zero, context.Canceled) || errors.As(&zero, &state) {
		t.Error("the zero value")
	}
	for sqlState, remedy := range map[fakedb.Error]string{
		"25006": "primary", "42501": "grants.sql", "26000": "pooler", "42P05": "pooler", "53300": "connection",
	} {
		if err := failure(t, sqlState); !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s: %v; want a text that says %q", sqlState, err, remedy)
		}
	}
}

func TestNoSchemaSaysWhereItLooked_D7(t *testing.T) {
	for _, state := range []fakedb.Error{"42P01", "3F000", "42703"} {
		err := failure(t, state)
		mustBe(t, string(state), err, pglease.ErrNoSchema)
		for _, part := range []string{"EnsureSchema", `"$user", public`} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v; want a text that says %s", state, err, part)
			}
		}
	}
}

func TestALossWithASecretCauseIsRedacted_X1(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		seen := new(events)
		c := open(t, db, pglease.WithSecrets("the-own-secret"), pglease.WithObserver(seen))
		l := acquire(t, c, t.Name())
		server.Before(only("RenewLeases", fail(&leaky{"hunter22", errors.New("the-own-secret")})))
		<-l.Done()
		texts := []string{l.Err().Error(), fmt.Sprintf("%+v", l.Err()), fmt.Sprintf("%#v", l.Err()), fmt.Sprint(context.Cause(l.Context()))}
		synctest.Wait()
		for _, e := range seen.of(0) {
			texts = append(texts, fmt.Sprintf("%+v", e), fmt.Sprintf("%#v", e))
		}
		for _, text := range texts {
			if strings.Contains(text, "hunter22") || strings.Contains(text, "the-own-secret") {
				t.Errorf("a secret in %s", text)
			}
		}
		if !strings.Contains(l.Err().Error(), "cannot connect") {
			t.Errorf("the loss does not say why: %v", l.Err())
		}
	})
}

// A backend that is not this package's may return any error: it becomes a *BackendError, redacted.
func TestAForeignErrorBecomesABackendError_X1(t *testing.T) {
	m := pgleasetest.NewMemory()
	c, err := pglease.New(nil, pglease.WithBackend(m))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	l, err := c.TryAcquire(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	m.Fail(&leaky{"hunter22", context.DeadlineExceeded})
	for op, call := range map[string]func() error{
		"acquire":        func() error { return second(c.TryAcquire(t.Context(), "x")) },
		"get":            func() error { return second(c.Get(t.Context(), "x")) },
		"list":           func() error { return second(c.List(t.Context())) },
		"force release":  func() error { return second(c.ForceRelease(t.Context(), "x")) },
		"delete expired": func() error { return second(c.DeleteExpired(t.Context(), 0)) },
		"ensure schema":  func() error { return c.EnsureSchema(t.Context()) },
		"renew":          func() error { return l.Renew(t.Context()) },
		"check":          func() error { return l.CheckTx(t.Context(), new(sql.Tx)) },
		"release":        func() error { return l.Release(t.Context()) },
	} {
		if op == "release" {
			continue // the last
		}
		err := call()
		var b *pglease.BackendError
		if !errors.As(err, &b) || b.Op != op || !errors.Is(err, context.DeadlineExceeded) || strings.Contains(fmt.Sprintf("%+v", err), "hunter22") {
			t.Errorf("%s: %#v", op, err)
		}
	}
	if l.Err() != nil {
		t.Errorf("a failure was taken for a loss: %v", l.Err())
	}
	for _, own := range []error{pglease.ErrNoSchema, pglease.ErrNotFound, &pglease.UnsupportedError{Finding: "f", Remedy: "r"}} {
		m.Fail(own)
		if err := second(c.Get(t.Context(), "x")); err != own { //nolint:errorlint // untouched
			t.Errorf("%v became %v", own, err)
		}
	}
	m.Fail(nil)
}

// Nobody can renew what is released and kept by its minimum hold.
func TestHeldErrorOfAMinimumHold(t *testing.T) {
	now := time.Now()
	info := pglease.Info{Name: "x", Owner: "web-1", ObservedAt: now, HeartbeatAt: now, ExpiresAt: now.Add(20 * time.Second)}
	if text := (&pglease.HeldError{Info: info}).Error(); !strings.Contains(text, "for another 20s unless it is renewed") {
		t.Errorf("held: %s", text)
	}
	info.HeartbeatAt = info.ExpiresAt
	if text := (&pglease.HeldError{Info: info}).Error(); !strings.Contains(text, "released by web-1, and kept for another 20s (minimum hold)") {
		t.Errorf("released: %s", text)
	}
}

func TestErrorTexts(t *testing.T) {
	info := pglease.Info{Name: "a\nb", Owner: "web-12345678"}
	for _, err := range []error{
		&pglease.HeldError{Info: info},
		&pglease.LostError{Name: "a\nb", Token: 7, Reason: pglease.LossGone},
		&pglease.LostError{Name: "a\nb", Token: 7, Reason: pglease.LossExpired, Cause: errors.New("why")},
		&pglease.UnsupportedError{Finding: "found", Remedy: "do this"},
		pglease.ErrHeld, pglease.ErrLost, pglease.ErrReleased, pglease.ErrNotFound, pglease.ErrClosed, pglease.ErrInvalidName, pglease.ErrNoSchema,
	} {
		text := err.Error()
		if !strings.HasPrefix(text, "pglease: ") || strings.Contains(text, "\n") || strings.HasSuffix(text, ": ") {
			t.Errorf("text %q", text)
		}
	}
	if lost := (&pglease.LostError{Cause: errTest}); !errors.Is(lost, errTest) || !errors.Is(lost, pglease.ErrLost) || errors.Is(lost, pglease.ErrHeld) {
		t.Error("LostError.Is")
	}
}

var errTest = errors.New("the test's own error")

func asHeld(err error, held **pglease.HeldError) bool { return errors.As(err, held) }
