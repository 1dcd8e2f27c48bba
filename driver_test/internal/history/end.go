package history

// Left is what the director found when all clients had ended.
type Left struct {
	Names     int      // that were looked at
	Held      []string // names that nobody could acquire, or whose row had not expired after the longest TTL
	Sessions  []string // of the clients, on the server
	Locks     []string // advisory ones, on the server
	Processes []string // clients that did not end by themselves when told to, or ended with an error
}

// End checks that nothing is left of the clients: no lease, session, lock, process or goroutine.
func End(h *History) Verdict {
	v := Verdict{Rule: "nothing is left at the end", Checked: h.Left.Names}
	for _, name := range h.Left.Held {
		v.violate(name, nil, "the lease did not end free")
	}
	for what, all := range map[string][]string{"session": h.Left.Sessions, "lock": h.Left.Locks, "process": h.Left.Processes} {
		for _, text := range all {
			v.violate("", nil, "a %s is left: %s", what, text)
		}
	}
	for _, o := range h.Ops {
		if o.Action != Bye {
			continue
		}
		v.Checked++
		if o.Goroutines > 0 {
			v.violate("", nil, "client %d has %d goroutines left: %s", o.Client, o.Goroutines, o.Error)
		}
	}
	return v
}
