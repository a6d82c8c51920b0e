package policy

import (
	"math"
	"slices"
	"testing"
	"time"
)

// FuzzOperations plays a list of operations, and checks that nothing panics, that only available
// replicas are picked while there are others, and that nothing stays in flight in the end.
func FuzzOperations(f *testing.F) {
	f.Add([]byte{0, 0, 0, 10, 10, 40, 70, 3, 200, 10, 41, 90, 91, 250, 17, 33})
	f.Add([]byte("a list of operations that is longer than the other one, and has other bytes in it"))
	seed := NewSplitMix64(7)
	long := make([]byte, 600)
	for i := range long {
		long[i] = byte(seed.Draw())
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, operations []byte) {
		for _, name := range Names() {
			fuzzed := newFuzzed(t, name, operations)
			for len(fuzzed.bytes) > 0 {
				fuzzed.step(t)
			}
			fuzzed.finish(t)
		}
	})
}

// fuzzed is a policy that is driven by bytes.
type fuzzed struct {
	*driver
	bytes       []byte
	tickets     []Ticket
	probes      []Probe
	explanation *Explanation
}

func newFuzzed(t *testing.T, name string, operations []byte) *fuzzed {
	fuzz := &fuzzed{bytes: operations, explanation: NewExplanation()}
	settings := DefaultSettings()
	first := fuzz.next()
	settings.Prequal.LocalOnly = first&7 == 7
	settings.Prequal.PoolCapacity = uint16(2 + first>>3)
	settings.Prequal.ProbesOutstandingMax = uint16(1 + first>>5)
	settings.Prequal.ReuseMax = 1 + uint16(first)
	settings.Prequal.RIFLimitQuantile = Millionths(first>>4) * One / 15
	fuzz.driver = newDriver(t, name, settings, 1+int(first&3))
	return fuzz
}

func (f *fuzzed) next() byte {
	if len(f.bytes) == 0 {
		return 0
	}
	next := f.bytes[0]
	f.bytes = f.bytes[1:]
	return next
}

// any returns one of the replicas, or one that is not known.
func (f *fuzzed) any() ReplicaID {
	index := int(f.next())
	if len(f.replicas) == 0 || index == 255 {
		return newReplicaID(uint32(index), 3)
	}
	return f.replicas[index%len(f.replicas)]
}

// load returns a report, of which some are extreme.
func (f *fuzzed) load() *LoadReport {
	kind, value := f.next(), f.next()
	load := &LoadReport{
		RIF:       uint32(value),
		Latency:   time.Duration(value) * time.Millisecond,
		LoadScale: uint16(kind) << 8,
		Draining:  kind&15 == 15,
	}
	if kind&1 == 1 {
		load.QueryRateMillis = Some(uint32(value) * 1_000)
	}
	if kind&2 == 2 {
		load.CapacityMilliRIF, load.Cost = Some(uint32(value)*100), Some(load.Latency)
	}
	if kind > 240 {
		load.RIF, load.Latency = math.MaxUint32, time.Duration(math.MaxInt64)
		load.QueryRateMillis, load.Cost = Some(uint32(math.MaxUint32)), Some(time.Duration(math.MinInt64))
	}
	return load
}

func (f *fuzzed) step(t *testing.T) {
	switch operation := f.next(); operation % 20 {
	case 0:
		if len(f.replicas) < 40 {
			f.join(t)
		}
	case 1:
		if replica := f.any(); slices.Contains(f.replicas, replica) {
			f.handle(Event{Kind: EventRemoved, Replica: replica})
			f.ids.Release(replica)
			f.replicas = slices.DeleteFunc(f.replicas, func(r ReplicaID) bool { return r == replica })
		}
	case 2:
		f.handle(Event{Kind: EventAvailable, Replica: f.any(), Flag: operation >= 80})
	case 3:
		f.handle(Event{Kind: EventSiblingReport, Replica: f.any(), Load: f.load()})
	case 4:
		f.handle(Event{Kind: EventCarriedReport, Replica: f.any(), Load: f.load()})
	case 5:
		f.handle(Event{Kind: EventSiblingQueries, Replica: f.any(), Count: uint32(f.next())})
	case 6, 7:
		f.handle(Event{Kind: EventTimeout})
	case 8, 9, 10, 11:
		if len(f.probes) > 0 {
			kind := EventReport + EventKind(number(operation > 200))*(EventProbeLost-EventReport+EventKind(operation&1))
			f.handle(Event{Kind: kind, Probe: f.probes[0].ID, Load: f.load()})
			f.probes = f.probes[1:]
		}
	case 12:
		if len(f.tickets) > 0 {
			f.policy.HandleHead(f.now, &f.tickets[0], Outcome(operation>>4)%(OutcomeDropped+1))
		}
	case 13, 14, 15:
		if len(f.tickets) > 0 {
			f.policy.HandleDone(f.now, f.tickets[0], Outcome(operation>>4)%(OutcomeDropped+1))
			f.tickets = f.tickets[1:]
		}
	default:
		f.choose(t, operation)
	}
	f.now += Instant(uint64(f.next())*uint64(f.next())) * ms / 100
	if operation := f.next(); operation == 255 {
		f.now = 0
	} else if operation == 254 {
		f.now = math.MaxUint64
	}
	for {
		probe, due := f.policy.NextProbe(f.now, f.draw)
		if !due {
			break
		}
		f.probes = append(f.probes, probe)
	}
	f.policy.NextTimeout()
}

func (f *fuzzed) choose(t *testing.T, operation byte) {
	query := Query{Attempt: Attempt(operation>>6) % AttemptTrial}
	for range operation >> 4 & 3 {
		query.Avoid = append(query.Avoid, f.any())
	}
	if operation&8 == 8 {
		query.Pinned = Some(f.any())
	}
	explanation := f.explanation
	if operation&1 == 1 {
		explanation = nil
	}
	decision := f.policy.Choose(f.now, &query, f.draw, explanation)
	if decision.Kind == ProbeFirst {
		for replica := range decision.Round.Targets() {
			if f.next()&1 == 1 {
				decision.Round.HandleReport(replica, f.load())
			} else {
				decision.Round.HandleLost(replica)
			}
		}
		query.Round = decision.Round
		decision = f.policy.Choose(f.now, &query, f.draw, explanation)
	}
	fleet := f.policy.Fleet()
	isUsable := func(replica ReplicaID) bool { return query.Allows(replica) }
	anyLeft := slices.ContainsFunc(fleet.Available(), isUsable)
	if decision.Kind == NoReplica {
		if anyLeft {
			t.Fatalf("%s: no replica, and %v are available", f.policy.Name(), fleet.Available())
		}
		return
	}
	chosen := decision.Pick.Ticket.Replica()
	switch {
	case !slices.Contains(f.replicas, chosen):
		t.Fatalf("%s: picked %v, which is not known", f.policy.Name(), chosen)
	case !query.Allows(chosen):
		t.Fatalf("%s: picked %v, which the query avoids", f.policy.Name(), chosen)
	case anyLeft && !fleet.IsAvailable(chosen):
		t.Fatalf("%s: picked %v, and %v are available", f.policy.Name(), chosen, fleet.Available())
	}
	if explained, known := f.explanation.Chosen(); explanation != nil && (!known || explained != chosen) {
		t.Fatalf("%s: picked %v, explained %v", f.policy.Name(), chosen, explained)
	}
	f.tickets = append(f.tickets, decision.Pick.Ticket)
}

// finish ends all queries, and checks that none is in flight.
func (f *fuzzed) finish(t *testing.T) {
	for _, ticket := range f.tickets {
		f.policy.HandleDone(f.now, ticket, OutcomeSuccess)
	}
	for _, view := range f.policy.Snapshot(f.now).Replicas {
		if view.InFlight != 0 {
			t.Fatalf("%s: %d stay in flight at %v", f.policy.Name(), view.InFlight, view.Replica)
		}
	}
	counters := f.policy.Counters()
	ended := counters.ProbesAnswered + counters.ProbesLost + counters.ProbesUnsent
	if counters.ProbesSent < counters.ProbesUnsent || ended > counters.ProbesSent+counters.Rounds*MaxRoundProbes {
		t.Fatalf("%s: more probes ended than were sent: %+v", f.policy.Name(), counters)
	}
}
