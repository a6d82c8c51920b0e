package vectors

import (
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"github.com/slackwater/slackwater/go/policy"
)

// snapshot compares the canonical text of the state, or its hash.
func (p *player) snapshot(line *line) error {
	text := CanonicalText(p.policy, policy.Instant(line.T))
	if line.Text != nil && *line.Text != text {
		return fmt.Errorf("state at %d: %s", line.T, difference(*line.Text, text))
	}
	hash := fnv.New64a()
	io.WriteString(hash, text)
	if found := fmt.Sprintf("%016x", hash.Sum64()); found != line.Hash {
		return fmt.Errorf("state at %d: expected the hash %s, found %s of\n%s", line.T, line.Hash, found, text)
	}
	return nil
}

// difference returns the lines in which two texts differ.
func difference(expected, found string) string {
	lines, others := strings.Split(expected, "\n"), strings.Split(found, "\n")
	var text strings.Builder
	for _, line := range lines {
		if !slices.Contains(others, line) {
			fmt.Fprintf(&text, "\n  expected %s", line)
		}
	}
	for _, line := range others {
		if !slices.Contains(lines, line) {
			fmt.Fprintf(&text, "\n  found    %s", line)
		}
	}
	return text.String()
}

// CanonicalText returns the state of a policy as text.
func CanonicalText(from policy.Policy, now policy.Instant) string {
	var text strings.Builder
	putCounters(&text, from.Counters())
	snapshot := from.Snapshot(now)
	for _, view := range snapshot.Replicas {
		fmt.Fprintf(&text, "replica %d in_flight=%d", uint64(view.Replica), view.InFlight)
		putWord(&text, view.Available, " available")
		putWord(&text, view.Draining, " draining")
		putWord(&text, view.Unprobed, " unprobed")
		putWord(&text, view.Lost, " lost")
		text.WriteByte('\n')
	}
	for _, view := range snapshot.Pool {
		fmt.Fprintf(&text, "report %d rif=%d age=%d uses=%d", uint64(view.Replica), view.RIF, view.Age, view.UsesLeft)
		if view.Latency > 0 {
			fmt.Fprintf(&text, " latency=%d", view.Latency)
		}
		putWord(&text, view.Local, " local")
		putWord(&text, view.Hot, " hot")
		text.WriteByte('\n')
	}
	if len(snapshot.Order) > 0 {
		text.WriteString("order")
		for _, ranked := range snapshot.Order {
			fmt.Fprintf(&text, " %d", uint64(ranked.Replica))
		}
		text.WriteByte('\n')
	}
	if next, known := snapshot.Next.Get(); known {
		fmt.Fprintf(&text, "next %d\n", uint64(next))
	}
	if limit, known := snapshot.RIFLimit.Get(); known {
		fmt.Fprintf(&text, "rif_limit %d\n", limit)
	}
	if rate, known := snapshot.ProbeRate.Get(); known {
		fmt.Fprintf(&text, "probe_rate %d\n", uint32(rate))
	}
	for _, view := range snapshot.Health {
		fmt.Fprintf(&text, "health %d %s share=%d success=%d",
			uint64(view.Replica), view.State, view.ShareMillionths, view.SuccessMillionths)
		if latency, known := view.Latency.Get(); known {
			fmt.Fprintf(&text, " latency=%d", latency)
		}
		putWord(&text, view.IsSlow, " slow")
		text.WriteByte('\n')
	}
	if view, known := snapshot.Keys.Get(); known {
		putKeys(&text, &view)
	}
	return text.String()
}

func putKeys(text *strings.Builder, view *policy.KeyView) {
	fmt.Fprintf(text, "keys replicated=%d", view.Replicated)
	if cap, known := view.Cap.Get(); known {
		fmt.Fprintf(text, " cap=%d", cap)
	}
	text.WriteByte('\n')
	for _, of := range view.Partitions {
		fmt.Fprintf(text, "partition %d homes=%d in_flight=%d mean=%d rate=%d servers",
			of.Partition, of.Homes, of.InFlight, of.InFlightMillis, of.QueryRateMillis)
		for _, server := range of.Servers {
			fmt.Fprintf(text, " %d", uint64(server))
		}
		text.WriteByte('\n')
	}
}

func putWord(text *strings.Builder, applies bool, word string) {
	if applies {
		text.WriteString(word)
	}
}

// putCounters writes the counters that are not 0, sorted by name.
func putCounters(text *strings.Builder, counters policy.Counters) {
	counts := map[string]uint64{
		"no_replica":                 counters.NoReplica,
		"probes_sent":                counters.ProbesSent,
		"probes_unsent":              counters.ProbesUnsent,
		"probes_answered":            counters.ProbesAnswered,
		"probes_lost":                counters.ProbesLost,
		"reports_late":               counters.ReportsLate,
		"reports_unknown":            counters.ReportsUnknown,
		"probes_skipped_interval":    counters.ProbesSkippedInterval,
		"probes_skipped_outstanding": counters.ProbesSkippedOutstanding,
		"probes_skipped_cap":         counters.ProbesSkippedCap,
		"probes_skipped_rate":        counters.ProbesSkippedRate,
		"probes_backed_off":          counters.ProbesBackedOff,
		"probes_idle":                counters.ProbesIdle,
		"probes_local":               counters.ProbesLocal,
		"removed_spent":              counters.RemovedSpent,
		"removed_expired":            counters.RemovedExpired,
		"removed_oldest":             counters.RemovedOldest,
		"removed_worst":              counters.RemovedWorst,
		"removals_withheld":          counters.RemovalsWithheld,
		"evicted":                    counters.Evicted,
		"replaced":                   counters.Replaced,
		"rounds":                     counters.Rounds,
		"probing_ns":                 counters.ProbingNS,
		"health.ejections":           counters.Health.Ejections,
		"health.probations":          counters.Health.Probations,
		"health.spared":              counters.Health.Spared,
		"health.readmissions":        counters.Health.Readmissions,
		"health.trials":              counters.Health.Trials,
		"health.trials_passed":       counters.Health.TrialsPassed,
		"health.warm_ups":            counters.Health.WarmUps,
	}
	for reason, picks := range counters.Picks.All() {
		counts["picks."+reason.String()] = picks
	}
	names := make([]string, 0, len(counts))
	for name, count := range counts {
		if count > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(text, "%s %d\n", name, counts[name])
	}
}
