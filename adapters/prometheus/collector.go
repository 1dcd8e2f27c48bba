package pgleaseprometheus

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pglease/pglease-go/pglease"
)

var (
	defaultBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	holdBuckets    = []float64{.1, 1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}
)

// A Collector observes the leases of one client or several, and is collected by Prometheus. It may be used by several goroutines
// at once.
type Collector struct {
	nameLabel func(string) string // nil: there is no such label
	terms     terms

	acquires, renewals, releases, losses, withdrawals, zombies *prometheus.CounterVec
	acquireDuration, waitDuration, holdDuration                *prometheus.HistogramVec
	held                                                       *prometheus.GaugeVec
	all                                                        []prometheus.Collector
}

var (
	_ prometheus.Collector = (*Collector)(nil)
	_ pglease.Observer     = (*Collector)(nil)
)

// NewCollector returns a Collector that has seen nothing. Give it to pglease.New by pglease.WithObserver, and to the Register of
// a registry. For clients that must be told apart, make one for each and register it with prometheus.WrapRegistererWith.
//
// Defaults: no label with the name of a lease; see WithNameLabel, WithBuckets.
func NewCollector(opts ...Option) *Collector {
	o := options{buckets: defaultBuckets}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	c := &Collector{nameLabel: o.nameLabel}
	labels := func(own ...string) []string {
		if c.nameLabel != nil {
			own = append(own, "name")
		}
		return own
	}
	counter := func(name, help string, own ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "pglease", Name: name, Help: help}, labels(own...))
		c.all = append(c.all, v)
		return v
	}
	histogram := func(name, help string, buckets []float64, own ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(
			prometheus.HistogramOpts{Namespace: "pglease", Name: name, Help: help, Buckets: buckets}, labels(own...))
		c.all = append(c.all, v)
		return v
	}
	c.acquires = counter("acquires_total", "Attempts to acquire a lease.", "outcome")
	c.acquireDuration = histogram("acquire_duration_seconds", "How long attempts to acquire a lease took.", o.buckets, "outcome")
	c.waitDuration = histogram("wait_duration_seconds", "How long calls waited for a lease.", o.buckets, "outcome")
	c.renewals = counter("renewals_total", "Attempts to renew a lease.", "outcome")
	c.releases = counter("releases_total", "Releases of a lease.", "outcome")
	c.losses = counter("losses_total", "Leases lost before their release.", "reason")
	c.holdDuration = histogram("hold_duration_seconds", "For how long leases had been held when they ended.", holdBuckets, "end")
	c.held = prometheus.NewGaugeVec(
		prometheus.GaugeOpts{Namespace: "pglease", Name: "leases_held", Help: "Leases held now."}, labels())
	c.all = append(c.all, c.held)
	c.withdrawals = counter("withdrawals_total", "Grants taken back because nobody waited for them any more.", "outcome")
	c.zombies = counter("zombies_total", "Things that should have ended and had not for 30 s.", "kind")
	if c.nameLabel == nil {
		c.held.WithLabelValues() // 0 is an answer
		for _, reason := range lossReasons {
			c.losses.WithLabelValues(reason) // an alert on an increase needs the 0 before it
		}
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, v := range c.all {
		v.Describe(descriptions)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	for _, v := range c.all {
		v.Collect(metrics)
	}
}

// Observe implements pglease.Observer.
func (c *Collector) Observe(_ context.Context, e pglease.Event) {
	var name []string
	if c.nameLabel != nil {
		name = []string{c.nameLabel(e.Name)}
	}
	with := func(value string) []string { return append([]string{value}, name...) }
	switch e.Kind {
	case pglease.EventAcquire:
		outcome := with(outcomeOf(e.Err, "granted"))
		c.acquires.WithLabelValues(outcome...).Inc()
		c.acquireDuration.WithLabelValues(outcome...).Observe(e.Duration.Seconds())
		if e.Err == nil && c.terms.begin(e) {
			c.held.WithLabelValues(name...).Inc()
		}
	case pglease.EventWait:
		c.waitDuration.WithLabelValues(with(outcomeOf(e.Err, "granted"))...).Observe(e.Duration.Seconds())
	case pglease.EventRenew:
		c.renewals.WithLabelValues(with(outcomeOf(e.Err, "renewed"))...).Inc()
	case pglease.EventLost:
		c.losses.WithLabelValues(with(reasonOf(e.Err))...).Inc()
		if c.terms.end(e) {
			c.held.WithLabelValues(name...).Dec()
			c.holdDuration.WithLabelValues(with("lost")...).Observe(e.Held.Seconds())
		}
	case pglease.EventRelease:
		c.releases.WithLabelValues(with(outcomeOf(e.Err, "released"))...).Inc()
		if c.terms.end(e) {
			c.held.WithLabelValues(name...).Dec()
			c.holdDuration.WithLabelValues(with("released")...).Observe(e.Held.Seconds())
		}
	case pglease.EventWithdraw:
		c.terms.withdraw(e)
		c.withdrawals.WithLabelValues(with(outcomeOf(e.Err, "withdrawn"))...).Inc()
	case pglease.EventZombie:
		c.zombies.WithLabelValues(with(string(e.Zombie))...).Inc()
	}
}

func outcomeOf(err error, good string) string {
	switch {
	case err == nil:
		return good
	case errors.Is(err, pglease.ErrHeld):
		return "held"
	case errors.Is(err, pglease.ErrLost):
		return "lost"
	}
	return "error"
}

var lossReasons = map[pglease.LossReason]string{
	pglease.LossExpired: "expired",
	pglease.LossGone:    "gone",
	pglease.LossSession: "session",
}

func reasonOf(err error) string {
	var lost *pglease.LostError
	if errors.As(err, &lost) && lossReasons[lost.Reason] != "" {
		return lossReasons[lost.Reason]
	}
	return "unknown"
}
