package policy

const (
	// believedLatencies is the age, in usual latencies, at which half of a report still counts: by
	// then the queries that were in flight have ended, and others have come.
	believedLatencies = 2
	// fadedBits: what has faded of a report is counted in parts of this many bits.
	fadedBits = 20
	// fadedAgeMaxNS is the age from which on a report fades no further: four hours.
	fadedAgeMaxNS = 1<<(64-fadedBits) - 1
	// usualShareMax counts for larger shares, so that nothing overflows.
	usualShareMax = 1<<(64-fadedBits) - 1
)

// usual is the usual share in use by reports, and how an old low report returns to it: the means of
// the newest 64 reports of all replicas.
//
// A report is a snapshot. A replica that had little to do has been found by other clients since, or
// will be: by more of them the older the report is. A replica that had more than others is
// different: a queue stays as long as its cause, and forgetting it early would feed it.
type usual struct {
	share     recentValues
	latencyNS recentValues
}

// learn takes in a report with this share in use, in any unit, and this latency; 0 is unknown.
func (u *usual) learn(share, latencyNS uint64) {
	u.share.record(min(share, usualShareMax))
	if latencyNS > 0 {
		u.latencyNS.record(latencyNS)
	}
}

// now returns the current means, for a pick that compares many reports.
func (u *usual) now() usualNow {
	// At most 2^58, since a mean is at most 2^57.
	return usualNow{share: u.share.mean(), halfNS: u.latencyNS.mean() * believedLatencies}
}

// usualNow are the means at one moment.
type usualNow struct {
	share uint64
	// halfNS is the age at which half of a report still counts. At 0 no latency is known, and all of
	// it counts forever.
	halfNS uint64
}

// aged returns the assumed share in use, from a share that was reported this long ago.
func (u *usualNow) aged(share, ageNS uint64) uint64 {
	if share >= u.share || u.halfNS == 0 {
		return share
	}
	ageNS = min(ageNS, fadedAgeMaxNS)
	faded := ageNS << fadedBits / (u.halfNS + ageNS)
	// At most the distance to the mean.
	return share + (u.share-share)*faded>>fadedBits
}
