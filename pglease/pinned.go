package pglease

import (
	"context"
	"database/sql"
	"reflect"
	"sync/atomic"
	"time"
)

// A pinned connection is the session of one hybrid lease, or of one attempt to get it. The advisory lock lives in it. While
// nobody sends a statement, a watch sits on it, so that its end is heard of within milliseconds.
type pinned struct {
	conn     *sql.Conn
	given    DB            // the caller's connection, if it is that
	turn     chan struct{} // holds a token while nobody uses the connection
	watching *watch        // guarded by turn
	check    time.Duration // between two pings, where the driver cannot wait for the server

	reserved *reservation // it was pinned from, or nil
	prepares bool         // its statements stay prepared
	pid      int32
	key      int64
	locked   bool   // this session has, or may have, the advisory lock
	settings string // as they were, for the statement that restores them; "" if they were not changed
	term     Term

	ended context.Context // ends, with a cause, when the session has
	end   context.CancelCauseFunc
	left  atomic.Bool // somebody gives it back, or destroys it: nobody else begins to use it
}

func newPinned(conn *sql.Conn, given DB, turn chan struct{}, check time.Duration) *pinned {
	p := &pinned{conn: conn, given: given, turn: turn, check: check}
	if p.turn == nil {
		p.turn = make(chan struct{}, 1)
		p.turn <- struct{}{}
	}
	p.ended, p.end = context.WithCancelCause(context.Background())
	return p
}

func (p *pinned) statements() statements {
	switch {
	case p.given != nil:
		return statements{p.given}
	case p.prepares:
		return statements{preparing{p.conn, nil}}
	default:
		return statements{p.conn}
	}
}

// use sends the statements of f, which have d for all of them, and leaves a watch behind if keepWatching says so afterwards. If it
// does not come to f, the error is an *unsentError, and the connection is as it was.
func (p *pinned) use(ctx context.Context, d time.Duration, f func(context.Context, statements) error, keepWatching bool) error {
	ctx, cancel := limit(ctx, d)
	defer cancel()
	select {
	case <-p.turn:
	case <-ctx.Done():
		return &unsentError{ctx.Err()}
	}
	defer func() { p.turn <- struct{}{} }()
	if p.left.Load() {
		return sql.ErrConnDone
	}
	if err := p.stopWatching(ctx); err != nil {
		go p.watchAgain(p.watching)
		return &unsentError{err}
	}
	err := f(ctx, p.statements())
	if err == nil && keepWatching && p.ended.Err() == nil && !p.left.Load() {
		p.startWatching()
	}
	return err
}

// soundly returns a context for one statement on a session that has the lock, or the error of ctx. A driver may answer a context
// that has ended with driver.ErrBadConn, although the session lives: then database/sql closes the connection, and what is
// behind it may give the session back to a pool of its own, with the lock (P12). So a statement begins with a context that
// has not ended, and does not end in that moment.
func soundly(ctx context.Context) (context.Context, context.CancelFunc, error) {
	const moment = 5 * time.Millisecond
	sound, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(moment, cancel) })
	if err := ctx.Err(); err != nil {
		stop()
		cancel()
		return nil, nil, err
	}
	return sound, func() { stop(); cancel() }, nil
}

// notificationWait finds, by its name and without importing a driver, the method WaitForNotification(context.Context) of the
// driver's connection, or of one that it wraps. It returns nil if there is none.
func notificationWait(driverConn any) (wait func(context.Context) error) {
	eachLayer(driverConn, func(v reflect.Value) (found bool) {
		m := v.MethodByName("WaitForNotification")
		if !m.IsValid() || !takesContext(m.Type()) {
			return false
		}
		wait = func(ctx context.Context) error {
			out := m.Call([]reflect.Value{reflect.ValueOf(ctx)})
			err, _ := out[len(out)-1].Interface().(error)
			return err
		}
		return true
	})
	return wait
}

// endSession closes the driver's own connection, if it has a method Close(context.Context): what wraps it may give it back to
// a pool of its own instead, alive and with its locks (P12: pgx's OpenDBFromPool).
func endSession(driverConn any) {
	eachLayer(driverConn, func(v reflect.Value) (found bool) {
		m := v.MethodByName("Close")
		if !m.IsValid() || !takesContext(m.Type()) {
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		m.Call([]reflect.Value{reflect.ValueOf(ctx)})
		return true
	})
}

// eachLayer calls f with a driver's connection, then with those that it wraps, until f returns true: pgx's stdlib offers its
// own through Conn, and wrappers of drivers theirs through Raw or Unwrap (P10).
func eachLayer(driverConn any, f func(reflect.Value) (found bool)) {
	v := reflect.ValueOf(driverConn)
	for depth := 0; depth < 8 && v.IsValid(); depth++ {
		if v.Kind() == reflect.Interface {
			v = v.Elem()
			continue
		}
		if f(v) {
			return
		}
		inner := v.MethodByName("Conn")
		if !unwraps(inner) {
			inner = v.MethodByName("Raw")
		}
		if !unwraps(inner) {
			inner = v.MethodByName("Unwrap")
		}
		if !unwraps(inner) {
			return
		}
		v = inner.Call(nil)[0]
	}
}

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
)

func takesContext(t reflect.Type) bool {
	return t.NumIn() == 1 && t.In(0) == contextType && t.NumOut() >= 1 && t.Out(t.NumOut()-1) == errorType && !t.IsVariadic()
}

func unwraps(m reflect.Value) bool {
	return m.IsValid() && m.Type().NumIn() == 0 && m.Type().NumOut() == 1
}
