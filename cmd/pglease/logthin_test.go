package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// An outage is not one line for every heartbeat: the first and the last are, with how many there were, and all with -vv.
func TestFailedHeartbeatsAreThinned(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		for verbose, want := range []int{6, 6, 7} { // lines
			var b bytes.Buffer
			a := &app{console: &console{w: &b}, logFormat: format, verbose: verbose}
			log := a.logger().With("of", "the library")
			log.Warn(beatFailed, "error", "first")
			log.Warn(beatFailed, "error", "second")
			log.Warn(beatFailed, "error", "third")
			a.row.end(context.Background()) // a renewal
			log.Warn(beatFailed, "error", "alone")
			a.row.end(context.Background())
			log.Warn(beatFailed, "error", "again")
			log.Warn(beatFailed, "error", "and again")
			a.logger().Error("lost")
			text := b.String()
			if lines := strings.Count(text, "\n"); lines != want {
				t.Errorf("%s, verbose %d: %d lines, want %d:\n%s", format, verbose, lines, want, text)
			}
			if all := strings.Contains(text, "second"); all != (verbose == 2) || strings.Contains(text, "failures") == all {
				t.Errorf("%s, verbose %d:\n%s", format, verbose, text)
			}
			for _, part := range []string{"first", "third", "alone", "again", "and again", "lost", "the library"} {
				if !strings.Contains(text, part) {
					t.Errorf("%s, verbose %d: no %q in\n%s", format, verbose, part, text)
				}
			}
			if strings.Index(text, "and again") > strings.Index(text, "lost") {
				t.Errorf("%s, verbose %d: the last of the row comes after what ended it:\n%s", format, verbose, text)
			}
		}
	}
}
