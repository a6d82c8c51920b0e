package policy

// lastProbe is what is kept of the last probe of a replica, and of how earlier ones ended.
type lastProbe struct {
	sentAt     maybeInstant
	answeredAt maybeInstant
	// lostSince is when the first of the lost probes that count was lost.
	lostSince maybeInstant
	ends      probeEnds
	// lostInARow counts lost probes since the last answer.
	lostInARow  uint8
	outstanding bool
}

// probeEnds is how a replica's probes ended, in the window of the back-off in which one last did.
type probeEnds struct {
	window uint32
	// balance is bad ends minus good ends.
	balance int32
}

// lostProbes are lost probes of a replica in a row.
type lostProbes struct {
	// answeredAt is when the replica last answered a probe before, if ever.
	answeredAt maybeInstant
	// since is when the first of them was lost.
	since  Instant
	inARow uint8
}

// answered notes that the replica has answered a probe. It returns how many the replica lost in a
// row before.
func (p *lastProbe) answered(now Instant) uint8 {
	lost := p.lostInARow
	p.answeredAt = maybe(now)
	p.lostInARow = 0
	return lost
}

// lost notes that a probe is lost. It returns the probe with those lost before it.
func (p *lastProbe) lost(now Instant) lostProbes {
	if p.lostInARow == 0 {
		p.lostSince = maybe(now)
	}
	if p.lostInARow < 255 {
		p.lostInARow++
	}
	since, known := p.lostSince.get()
	if !known {
		since = now
	}
	return lostProbes{answeredAt: p.answeredAt, since: since, inARow: p.lostInARow}
}
