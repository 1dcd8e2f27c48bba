package pglease_test

import (
	"context"
	"database/sql"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

// wrongShared are wrong values and combinations of the options of a lease, and what an error about them must name.
var wrongShared = map[string]struct {
	opts  []pglease.SharedOption
	names string
}{
	"TTL 0":             {[]pglease.SharedOption{pglease.WithTTL(0)}, "WithTTL"},
	"TTL negative":      {[]pglease.SharedOption{pglease.WithTTL(-time.Second)}, "WithTTL"},
	"TTL truncated":     {[]pglease.SharedOption{pglease.WithTTL(time.Microsecond)}, "WithTTL"},
	"TTL endless":       {[]pglease.SharedOption{pglease.WithTTL(math.MaxInt64)}, "WithTTL"},
	"heartbeat 0":       {[]pglease.SharedOption{pglease.WithHeartbeatInterval(0)}, "WithHeartbeatInterval"},
	"heartbeat -1":      {[]pglease.SharedOption{pglease.WithHeartbeatInterval(-1)}, "WithHeartbeatInterval"},
	"heartbeat = TTL":   {[]pglease.SharedOption{pglease.WithTTL(time.Second), pglease.WithHeartbeatInterval(time.Second)}, "heartbeat interval"},
	"heartbeat > TTL":   {[]pglease.SharedOption{pglease.WithHeartbeatInterval(time.Minute)}, "heartbeat interval"},
	"heartbeat > trust": {[]pglease.SharedOption{pglease.WithTTL(10 * time.Second), pglease.WithHeartbeatInterval(9 * time.Second)}, "safety margin"},
	"margin 0":          {[]pglease.SharedOption{pglease.WithSafetyMargin(0)}, "WithSafetyMargin"},
	"margin -1":         {[]pglease.SharedOption{pglease.WithSafetyMargin(-1)}, "WithSafetyMargin"},
	"margin = TTL":      {[]pglease.SharedOption{pglease.WithSafetyMargin(30 * time.Second)}, "safety margin"},
	"margin > TTL":      {[]pglease.SharedOption{pglease.WithTTL(time.Second), pglease.WithSafetyMargin(time.Hour)}, "safety margin"},
	"poll 0":            {[]pglease.SharedOption{pglease.WithPollInterval(0)}, "WithPollInterval"},
	"poll -1":           {[]pglease.SharedOption{pglease.WithPollInterval(-1)}, "WithPollInterval"},
	"poll endless":      {[]pglease.SharedOption{pglease.WithPollInterval(math.MaxInt64)}, "WithPollInterval"},
	"min hold -1":       {[]pglease.SharedOption{pglease.WithMinHold(-1)}, "WithMinHold"},
	"min hold endless":  {[]pglease.SharedOption{pglease.WithMinHold(math.MaxInt64)}, "WithMinHold"},
	"metadata NUL":      {[]pglease.SharedOption{pglease.WithMetadata(map[string]string{"k": "a\x00b"})}, "WithMetadata"},
	"metadata UTF-8":    {[]pglease.SharedOption{pglease.WithMetadata(map[string]string{"\xff": "v"})}, "WithMetadata"},
	"metadata of ours":  {[]pglease.SharedOption{pglease.WithMetadata(map[string]string{"attempt": "1"})}, "WithMetadata"},
	"two at once":       {[]pglease.SharedOption{pglease.WithTTL(0), pglease.WithPollInterval(0)}, "WithPollInterval"},
}

func check(t *testing.T, what string, err error, names string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
	} else if !strings.Contains(err.Error(), names) {
		t.Errorf("%s: %v; want an error that names %q", what, err, names)
	}
}

func TestWrongLeaseOptionsAreErrorsOfEveryCall_C6(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		never := func(context.Context, *pglease.Lease) error { t.Error("it ran"); return nil }
		for what, test := range wrongShared {
			var opts []pglease.Option
			var acquireOpts []pglease.AcquireOption
			var doOpts []pglease.DoOption
			for _, o := range test.opts {
				opts, acquireOpts, doOpts = append(opts, o), append(acquireOpts, o), append(doOpts, o)
			}
			_, err := pglease.New(db, opts...)
			check(t, "New, "+what, err, test.names)
			_, err = c.TryAcquire(t.Context(), "x", acquireOpts...)
			check(t, "TryAcquire, "+what, err, test.names)
			_, err = c.Acquire(t.Context(), "x", acquireOpts...)
			check(t, "Acquire, "+what, err, test.names)
			check(t, "Lead, "+what, c.Lead(t.Context(), "x", never, acquireOpts...), test.names)
			check(t, "Do, "+what, c.Do(t.Context(), "x", never, doOpts...), test.names)
		}
		if sent := server.Sent(""); len(sent) > 0 {
			t.Errorf("statements were sent: %v", sent)
		}
	})
}

func TestWrongClientOptionsAreErrorsOfNew(t *testing.T) {
	var (
		typedNilDB   *sql.DB
		typedNilConn *sql.Conn
		noBackend    *nilBackend
		noObserver   *events
	)
	db := fakedb.New().Open()
	defer func() { _ = db.Close() }()
	tests := map[string]struct {
		db    pglease.DB
		opts  []pglease.Option
		names string
	}{
		"nil db":              {nil, nil, "database is nil"},
		"typed nil db":        {typedNilDB, nil, "database is nil"},
		"typed nil conn":      {typedNilConn, nil, "database is nil"},
		"nil option":          {db, []pglease.Option{nil}, "nil"},
		"both loggers":        {db, []pglease.Option{pglease.WithLogger(zap.NewNop()), pglease.WithSlog(slog.Default())}, "WithSlog"},
		"nil logger":          {db, []pglease.Option{pglease.WithLogger(nil)}, "WithLogger"},
		"nil slog":            {db, []pglease.Option{pglease.WithSlog(nil)}, "WithSlog"},
		"nil observer":        {db, []pglease.Option{pglease.WithObserver(nil)}, "WithObserver"},
		"typed nil observer":  {db, []pglease.Option{pglease.WithObserver(noObserver)}, "WithObserver"},
		"nil backend":         {db, []pglease.Option{pglease.WithBackend(nil)}, "WithBackend"},
		"typed nil backend":   {db, []pglease.Option{pglease.WithBackend(noBackend)}, "WithBackend"},
		"empty owner":         {db, []pglease.Option{pglease.WithOwner("")}, "WithOwner"},
		"owner too long":      {db, []pglease.Option{pglease.WithOwner(strings.Repeat("x", 247))}, "WithOwner"},
		"owner with a NUL":    {db, []pglease.Option{pglease.WithOwner("a\x00b")}, "WithOwner"},
		"owner not UTF-8":     {db, []pglease.Option{pglease.WithOwner("\xff")}, "WithOwner"},
		"no attempts":         {db, []pglease.Option{pglease.WithRetry(0, time.Second)}, "WithRetry"},
		"negative attempts":   {db, []pglease.Option{pglease.WithRetry(-1, time.Second)}, "WithRetry"},
		"no pause":            {db, []pglease.Option{pglease.WithRetry(3, 0)}, "WithRetry"},
		"negative pause":      {db, []pglease.Option{pglease.WithRetry(3, -1)}, "WithRetry"},
		"short secret":        {db, []pglease.Option{pglease.WithSecrets("long enough", "abc")}, "WithSecrets"},
		"session check 0":     {db, []pglease.Option{pglease.WithHybrid(), pglease.WithSessionCheck(0)}, "WithSessionCheck"},
		"takeover delay -1":   {db, []pglease.Option{pglease.WithHybrid(), pglease.WithTakeoverDelay(-1)}, "WithTakeoverDelay"},
		"hybrid and backend":  {db, []pglease.Option{pglease.WithHybrid(), pglease.WithBackend(pglease.Backend(&nilBackend{}))}, "WithHybrid"},
		"hybrid, no database": {nil, []pglease.Option{pglease.WithHybrid()}, "database is nil"},
		"first of two":        {db, []pglease.Option{pglease.WithTTL(0), pglease.WithOwner("")}, "WithTTL"},
		"second of two":       {db, []pglease.Option{pglease.WithTTL(0), pglease.WithOwner("")}, "WithOwner"},
	}
	for what, test := range tests {
		c, err := pglease.New(test.db, test.opts...)
		if c != nil {
			t.Errorf("%s: a client", what)
		}
		check(t, what, err, test.names)
		if err != nil && strings.Contains(err.Error(), "abc") {
			t.Errorf("%s: the secret is in the error: %v", what, err)
		}
	}
}

type nilBackend struct{ pglease.Backend }

func TestWrongArgumentsOfCallsAreErrors(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		ctx := t.Context()
		never := func(context.Context, *pglease.Lease) error { t.Error("it ran"); return nil }
		l := acquire(t, c, t.Name())
		server.Forget()
		_, tryErr := c.TryAcquire(ctx, "x", nil)
		_, acquireErr := c.Acquire(ctx, "x", nil)
		_, listErr := c.List(ctx, nil)
		_, limitErr := c.List(ctx, pglease.WithLimit(0))
		_, prefixErr := c.List(ctx, pglease.WithPrefix("\xff"))
		_, forceErr := c.ForceRelease(ctx, "x", nil)
		_, deleteErr := c.DeleteExpired(ctx, -1)
		_, anyErr := c.TryAcquireAny(ctx, nil)
		_, allErr := c.AcquireAll(ctx, []string{"x", ""})
		for what, test := range map[string]struct {
			err   error
			names string
		}{
			"TryAcquire, nil option":          {tryErr, "nil"},
			"Acquire, nil option":             {acquireErr, "nil"},
			"List, nil option":                {listErr, "nil"},
			"List, limit 0":                   {limitErr, "WithLimit"},
			"List, prefix":                    {prefixErr, "WithPrefix"},
			"ForceRelease, nil option":        {forceErr, "nil"},
			"DeleteExpired, negative":         {deleteErr, "DeleteExpired"},
			"TryAcquireAny, no names":         {anyErr, "names"},
			"AcquireAll, an empty name":       {allErr, "invalid name"},
			"Do, nil function":                {c.Do(ctx, "x", nil), "nil"},
			"Do, nil option":                  {c.Do(ctx, "x", never, nil), "nil"},
			"Do, skip and wait":               {c.Do(ctx, "x", never, pglease.SkipIfHeld(), pglease.Wait()), "Wait"},
			"Do, wait and skip":               {c.Do(ctx, "x", never, pglease.WaitFor(time.Second), pglease.SkipIfHeld()), "SkipIfHeld"},
			"Do, wait for 0":                  {c.Do(ctx, "x", never, pglease.WaitFor(0)), "WaitFor"},
			"Do, wait for -1":                 {c.Do(ctx, "x", never, pglease.WaitFor(-1)), "WaitFor"},
			"Lead, nil function":              {c.Lead(ctx, "x", nil), "nil"},
			"Lead, nil option":                {c.Lead(ctx, "x", never, nil), "nil"},
			"Singleton, nil function":         {c.Singleton("x", nil)(ctx), "nil"},
			"Go, nil function":                {c.Go(ctx, "x", nil).Wait(), "nil"},
			"Go, nil option":                  {c.Go(ctx, "x", never, nil).Wait(), "nil"},
			"Go, campaign and skip":           {c.Go(ctx, "x", never, pglease.Campaign(), pglease.SkipIfHeld()).Wait(), "Campaign"},
			"Lease.Do, nil function":          {l.Do(ctx, nil), "nil"},
			"CheckTx, nil transaction":        {l.CheckTx(ctx, nil), "nil"},
			"TryLockTx, nil transaction":      {second(pglease.TryLockTx(ctx, nil, "x")), "nil"},
			"LockTx, nil transaction":         {pglease.LockTx(ctx, nil, "x"), "nil"},
			"LockTx, invalid name":            {pglease.LockTx(ctx, new(sql.Tx), ""), "invalid name"},
			"Do, invalid name and bad option": {c.Do(ctx, "", never), "invalid name"},
		} {
			check(t, what, test.err, test.names)
		}
		if sent := server.Sent(""); len(sent) > 0 {
			t.Errorf("statements were sent: %v", sent)
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestOptionsOfACallAreLaidOverThoseOfTheClient(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db, pglease.WithTTL(time.Minute), pglease.WithMetadata(map[string]string{"a": "1", "b": "1"}))
		l := acquire(t, c, t.Name()+"/1", pglease.WithMetadata(map[string]string{"b": "2", "c": "2"}))
		start := time.Now()
		if got := l.Deadline().Sub(start); got != 59*time.Second {
			t.Errorf("the client's TTL: deadline after %v", got)
		}
		info, err := c.Get(t.Context(), l.Name())
		if err != nil || info.Metadata["a"] != "1" || info.Metadata["b"] != "2" || info.Metadata["c"] != "2" || info.Metadata["attempt"] != "" {
			t.Errorf("metadata %v, %v", info.Metadata, err)
		}
		// A call's TTL changes the defaults that depend on it.
		l = acquire(t, c, t.Name()+"/2", pglease.WithTTL(6*time.Second))
		if got := l.Deadline().Sub(start); got != 5400*time.Millisecond {
			t.Errorf("the call's TTL: deadline after %v", got)
		}
		if info, err = c.Get(t.Context(), l.Name()); err != nil || info.Metadata["c"] != "" || info.Metadata["b"] != "1" {
			t.Errorf("metadata of another call: %v, %v", info.Metadata, err)
		}
		server.Forget()
		time.Sleep(2*time.Second + time.Millisecond)
		if n := len(server.Sent("RenewLeases")); n != 1 {
			t.Errorf("%d heartbeats in a third of the call's TTL", n)
		}
		// What an error hands out is the caller's own.
		var held *pglease.HeldError
		_, err = c.TryAcquire(t.Context(), l.Name())
		if mustBe(t, "TryAcquire", err, pglease.ErrHeld); asHeld(err, &held) {
			held.Metadata["a"] = "changed"
		}
		l = acquire(t, c, t.Name()+"/3")
		if info, err = c.Get(t.Context(), l.Name()); err != nil || info.Metadata["a"] != "1" {
			t.Errorf("the client's metadata were changed: %v, %v", info.Metadata, err)
		}
	})
}

func TestOptionsFitTheCallsTheyAreFor(t *testing.T) {
	if _, ok := any(pglease.Wait()).(pglease.AcquireOption); ok {
		t.Error("Wait may be given to TryAcquire")
	}
	if _, ok := any(pglease.WithOwner("x")).(pglease.GoOption); ok {
		t.Error("WithOwner may be given to Do")
	}
	if _, ok := any(pglease.Campaign()).(pglease.DoOption); ok {
		t.Error("Campaign may be given to Do")
	}
	if _, ok := any(pglease.SkipIfHeld()).(pglease.Option); ok {
		t.Error("SkipIfHeld may be given to New")
	}
	var _ []pglease.GoOption = []pglease.GoOption{pglease.Wait(), pglease.WithTTL(1), pglease.Campaign()}
	var _ pglease.Option = pglease.WithTTL(1)
	var _ pglease.AcquireOption = pglease.WithTTL(1)
	var _ pglease.DoOption = pglease.AcquireOption(nil)
}
