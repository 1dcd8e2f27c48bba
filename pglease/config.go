package pglease

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pglease/pglease-go/pglease/internal/trust"
)

// A leaseConfig is the outcome of leaseOptions: complete and consistent.
type leaseConfig struct {
	ttl, beat, margin, poll, minHold time.Duration
	metadata                         map[string]string
	encoded                          string // metadata as JSON
	onLost                           func(*Lease, error)
	reserved                         *reservation // of AcquireAll, or nil
}

// config completes o by the defaults, or says everything that is wrong with it.
func (o leaseOptions) config() (leaseConfig, error) {
	c := leaseConfig{ttl: DefaultTTL, poll: DefaultPollInterval, minHold: o.minHold, metadata: o.metadata, onLost: o.onLost}
	var errs []error
	set := func(option string, said *time.Duration, to *time.Duration) {
		if said == nil {
			return
		}
		if *said < minDuration || *said > maxDuration {
			errs = append(errs, fmt.Errorf("pglease: %s(%v): it must be between %v and %v", option, *said, minDuration, maxDuration))
		}
		*to = *said
	}
	set("WithTTL", o.ttl, &c.ttl)
	c.beat, c.margin = c.ttl/3, trust.Margin(c.ttl)
	set("WithHeartbeatInterval", o.beat, &c.beat)
	set("WithSafetyMargin", o.margin, &c.margin)
	set("WithPollInterval", o.poll, &c.poll)
	if o.minHold < 0 || o.minHold > maxDuration {
		errs = append(errs, fmt.Errorf("pglease: WithMinHold(%v): it must be between 0 and %v", o.minHold, maxDuration))
	}
	switch {
	case len(errs) > 0:
	case c.beat >= c.ttl:
		errs = append(errs, fmt.Errorf("pglease: the heartbeat interval (%v) must be shorter than the TTL (%v)", c.beat, c.ttl))
	case c.margin >= c.ttl:
		errs = append(errs, fmt.Errorf("pglease: the safety margin (%v) must be shorter than the TTL (%v)", c.margin, c.ttl))
	case c.beat >= c.ttl-c.margin:
		errs = append(errs, fmt.Errorf("pglease: the heartbeat interval (%v) must be shorter than the TTL less the safety margin (%v - %v)", c.beat, c.ttl, c.margin))
	}
	for k, v := range o.metadata {
		if k == attemptKey {
			errs = append(errs, fmt.Errorf("pglease: WithMetadata: the key %q is pglease's own", k))
		}
		if s := k + v; !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			errs = append(errs, fmt.Errorf("pglease: WithMetadata: %q is not UTF-8 without NUL", k))
		}
	}
	if c.encoded = o.encoded; c.encoded == "" {
		c.encoded = encodeMetadata(o.metadata)
	}
	return c, errors.Join(errs...)
}

func (c *Client) leaseConfig(opts []AcquireOption) (leaseConfig, error) {
	if len(opts) == 0 {
		return c.defaults, nil
	}
	o := c.options
	for _, opt := range opts {
		if opt == nil {
			return leaseConfig{}, errNilOption
		}
		opt.applyLease(&o)
	}
	return o.config()
}

var errNilOption = errors.New("pglease: an option is nil")
