package pglease

import "fmt"

// A ListOption narrows or widens what Client.List returns.
type ListOption interface{ applyList(*listOptions) }

type listOptions struct {
	prefix  string
	limit   int
	expired bool
	err     error
}

type listOption func(*listOptions)

func (f listOption) applyList(o *listOptions) { f(o) }

// WithExpired has List return expired and released rows too.
func WithExpired() ListOption { return listOption(func(o *listOptions) { o.expired = true }) }

// WithPrefix has List return only rows whose names begin with prefix, byte for byte.
func WithPrefix(prefix string) ListOption {
	return listOption(func(o *listOptions) {
		o.prefix = prefix
		if why := unfit(prefix, maxName); prefix != "" && why != "" {
			o.err = fmt.Errorf("%w: WithPrefix: %s", ErrInvalidName, why)
		}
	})
}

// WithLimit has List return the first n rows at the most. n must be positive.
func WithLimit(n int) ListOption {
	return listOption(func(o *listOptions) {
		o.limit = n
		if n < 1 {
			o.err = fmt.Errorf("pglease: WithLimit(%d): at least 1 is needed", n)
		}
	})
}

// A ForceOption restricts Client.ForceRelease.
type ForceOption interface{ applyForce(*forceOptions) }

type forceOptions struct{ ifToken *int64 }

type forceOption func(*forceOptions)

func (f forceOption) applyForce(o *forceOptions) { f(o) }

// IfToken has ForceRelease end the term with that token, and refuse any other.
func IfToken(token int64) ForceOption {
	return forceOption(func(o *forceOptions) { o.ifToken = &token })
}
