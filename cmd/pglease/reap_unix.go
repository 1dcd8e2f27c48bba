//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// watch reaps whenever the kernel says that a child has changed, and once at the start.
func (fam *family) watch() {
	ended := make(chan os.Signal, 1) // signals that come together are one: reap looks until nobody is left
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for {
			fam.reap()
			<-ended
		}
	}()
}
