package pglease

import (
	"context"
	"errors"
	"testing"
)

// A forgetful backend has nothing to do when a lease is lost.
type forgetful struct{ Backend }

func (forgetful) Forget(Term)                 {}
func (forgetful) Close(context.Context) error { return nil }

// A session can end between the grant and the adoption: nobody would drop such a lease again, and Close would wait for it.
func TestALeaseThatIsLostAlreadyIsNotAdopted(t *testing.T) {
	c, err := New(nil, WithBackend(forgetful{}))
	if err != nil {
		t.Fatal(err)
	}
	config, err := c.leaseConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	session, end := context.WithCancelCause(t.Context())
	end(errors.New("the session has ended"))
	l := c.newLease(t.Context(), Grant{Term: Term{Name: t.Name(), Token: 1}, Session: session}, config)
	<-l.Done()
	if !c.adopt(l) {
		t.Error("the client is not closing")
	}
	c.mu.Lock()
	n := len(c.leases)
	c.mu.Unlock()
	if n != 0 {
		t.Errorf("%d leases to renew", n)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
