package pgleaseprometheus

import "slices"

// An Option configures a Collector.
type Option func(*options)

type options struct {
	nameLabel func(string) string
	buckets   []float64
}

// WithNameLabel gives every series a label "name" with what label returns for the name of a lease: the name itself, or what
// a group of names has in common, such as "partition" for "partition-1" to "partition-999". Each value costs some 60 series. nil
// stands for the name itself.
func WithNameLabel(label func(name string) string) Option {
	return func(o *options) {
		if label == nil {
			label = func(name string) string { return name }
		}
		o.nameLabel = label
	}
}

// WithBuckets sets the upper bounds of the histograms of attempts and waits, in seconds, in rising order. Default 1 ms to 60 s. The
// histogram of how long leases were held has bounds of its own, from 0.1 s to a week.
func WithBuckets(seconds ...float64) Option {
	seconds = slices.Sorted(slices.Values(seconds))
	return func(o *options) { o.buckets = slices.Compact(seconds) }
}
