package policy

import (
	"slices"
	"testing"
	"time"
)

// explained returns a policy with three replicas that have reported 2, 0 and 1 requests in flight,
// of 10 ms each.
func explained(t *testing.T, name string) *driver {
	settings := DefaultSettings()
	settings.Prequal.ProbeIntervalMin = 0
	d := newDriver(t, name, settings, 3)
	d.answer = func(place int, report *LoadReport) {
		*report = LoadReport{RIF: []uint32{2, 0, 1}[place], Latency: 10 * time.Millisecond}
	}
	for range 3 {
		d.handle(Event{Kind: EventTimeout})
		d.probe()
		d.now += 100 * ms
	}
	for range 4 {
		d.serve(t)
	}
	return d
}

func TestExplanationOrdersCandidatesAsTheChoiceDid(t *testing.T) {
	for _, name := range []string{Default, "prequal", "prequal_sync", "least_loaded"} {
		d := explained(t, name)
		explanation := NewExplanation()
		for range 50 {
			pick := d.pick(t, Query{}, explanation)
			chosen, _ := explanation.Chosen()
			rule, known := explanation.Rule()
			if chosen != pick.Ticket.Replica() || !known || rule != pick.Reason {
				t.Fatalf("%s: chose %v by %v, explained %v by %v", name, pick.Ticket.Replica(), pick.Reason, chosen, rule)
			}
			candidates := explanation.Candidates()
			if !rule.isComparison() {
				continue
			}
			if len(candidates) == 0 || candidates[0].Replica != chosen {
				t.Fatalf("%s: the chosen one is not first: %+v", name, candidates)
			}
			checkOrder(t, explanation)
			runnerUp, known := explanation.RunnerUp()
			if len(candidates) > 1 && (!known || runnerUp == chosen) {
				t.Fatalf("%s: the runner-up is %v", name, runnerUp)
			}
			if pick.RunnerUp.Known && pick.RunnerUp.Value != runnerUp {
				t.Fatalf("%s: the runner-up is %v, explained %v", name, pick.RunnerUp.Value, runnerUp)
			}
			if int(explanation.Considered()) != len(candidates) || explanation.Available() != 3 {
				t.Fatalf("%s: %d of %d are considered", name, explanation.Considered(), explanation.Available())
			}
			d.probe()
			d.now += ms
			d.policy.HandleDone(d.now, pick.Ticket, OutcomeSuccess)
		}
		if d.policy.Counters().Picks.Total() < 50 {
			t.Fatalf("%s: %+v", name, d.policy.Counters())
		}
	}
}

// checkOrder recomputes the order from what the comparison describes, as a reader would.
func checkOrder(t *testing.T, explanation *Explanation) {
	t.Helper()
	comparison := explanation.Comparison()
	value := func(of *Candidate, key string) uint64 {
		place := slices.IndexFunc(comparison.Factors, func(factor Factor) bool { return factor.Key == key })
		if place < 0 {
			t.Fatalf("%s has no factor %s", comparison.Name, key)
		}
		found, _ := of.Values.At(place)
		return found
	}
	all := explanation.Candidates()
	for i := 1; i < len(all); i++ {
		better, other := &all[i-1], &all[i]
		for _, step := range comparison.Order {
			if step.Unless != "" && value(better, step.Unless) == 1 {
				continue
			}
			a, b := value(better, step.By), value(other, step.By)
			if a > b {
				t.Fatalf("%s: %s is %d before %d", comparison.Name, step.By, a, b)
			}
			if a < b {
				break
			}
		}
	}
}

func TestExplanationDoesNotAffectTheChoice(t *testing.T) {
	for _, name := range Names() {
		plain, other := explained(t, name), explained(t, name)
		explanation := NewExplanation()
		for range 200 {
			pick, same := plain.pick(t, Query{}, nil), other.pick(t, Query{}, explanation)
			if pick != same {
				t.Fatalf("%s: %+v, explained %+v", name, pick, same)
			}
			for _, d := range []*driver{plain, other} {
				d.probe()
				d.now += ms
				d.policy.HandleDone(d.now, pick.Ticket, OutcomeSuccess)
			}
		}
		if *plain.draw != *other.draw {
			t.Errorf("%s: explaining takes draws", name)
		}
	}
}

func TestExplanationSaysWhyReplicasAreOut(t *testing.T) {
	d := explained(t, Default)
	d.handle(Event{Kind: EventAvailable, Replica: d.replicas[0]})
	d.report = LoadReport{Draining: true}
	d.handle(Event{Kind: EventSiblingReport, Replica: d.replicas[2], Load: &d.report})
	explanation := NewExplanation()
	d.pick(t, Query{}, explanation)
	expected := []Out{
		{Replica: d.replicas[0], Why: OutTakenOut},
		{Replica: d.replicas[2], Why: OutDraining},
	}
	if !slices.Equal(explanation.Outs(), expected) || explanation.Out() != 2 || explanation.Available() != 1 {
		t.Errorf("%+v, %d out, %d available", explanation.Outs(), explanation.Out(), explanation.Available())
	}
	explanation.SayOfOthers("full")
	explanation.SayWhy(d.replicas[2], "old")
	explanation.PassOver(d.replicas[1], "busy")
	expected = []Out{
		{Replica: d.replicas[0], Why: "full"}, {Replica: d.replicas[2], Why: "old"}, {Replica: d.replicas[1], Why: "busy"},
	}
	if !slices.Equal(explanation.Outs(), expected) || explanation.Out() != 3 {
		t.Errorf("%+v, %d out", explanation.Outs(), explanation.Out())
	}
}

func TestPinnedQueryIsExplainedWithoutComparison(t *testing.T) {
	for _, name := range Names() {
		d := explained(t, name)
		explanation := NewExplanation()
		pick := d.pick(t, Query{Pinned: Some(d.replicas[2])}, explanation)
		_, hasRule := explanation.Rule()
		chosen, _ := explanation.Chosen()
		if chosen != d.replicas[2] || hasRule || explanation.Comparison() != nil || pick.Reason != ReasonPinned {
			t.Errorf("%s: %v by %v", name, chosen, pick.Reason)
		}
	}
}

func TestExplanationKeepsTheBestAndTheChosen(t *testing.T) {
	explanation := NewExplanation()
	explanation.begin(100, 100)
	explanation.compare(byInFlightInTurn, Values{})
	for i := range 100 {
		// The best come in the middle.
		first := uint64(max(i, 50) - min(i, 50))
		explanation.consider(Candidate{Replica: newReplicaID(uint32(i), 0), place: place{first: first}})
	}
	chosen := newReplicaID(99, 0)
	explanation.choose(Candidate{Replica: chosen}, ReasonTurn, Optional[ReplicaID]{})
	if len(explanation.Candidates()) != MaxCandidates || explanation.Considered() != 100 {
		t.Fatalf("%d of %d are kept", len(explanation.Candidates()), explanation.Considered())
	}
	for i, candidate := range explanation.Candidates() {
		if expected := uint64(i+1) / 2; candidate.place.first != expected {
			t.Errorf("number %d has the place %d, expected %d", i, candidate.place.first, expected)
		}
	}
	explanation.choose(Candidate{Replica: chosen}, ReasonLeastLoaded, Optional[ReplicaID]{})
	if explanation.Candidates()[0].Replica != chosen {
		t.Errorf("the chosen one is not first: %v", explanation.Candidates()[0].Replica)
	}
}

func TestValuesGiveTheExpectedDelayByTheFormula(t *testing.T) {
	d := explained(t, Default)
	explanation := NewExplanation()
	ahead := false
	for range 40 {
		pick := d.pick(t, Query{}, explanation)
		for _, candidate := range explanation.Candidates() {
			var values [5]float64
			for i, factor := range explanation.Comparison().Factors {
				value, _ := candidate.Values.At(i)
				values[i] = float64(value) / float64(factor.Parts)
			}
			inFlight, meanUS, surcharge, delayUS := values[0], values[1], values[2], values[3]
			ahead = ahead || surcharge > 0
			if expected := (inFlight + surcharge) * meanUS; delayUS < expected*0.999 || delayUS > expected*1.001 {
				t.Fatalf("%v: (%v + %v) × %v is not %v", candidate.Replica, inFlight, surcharge, meanUS, delayUS)
			}
			if meanUS < 9_000 || meanUS > 11_000 {
				t.Fatalf("%v: a mean of %v µs", candidate.Replica, meanUS)
			}
		}
		d.probe()
		d.now += ms
		d.policy.HandleDone(d.now, pick.Ticket, OutcomeSuccess)
	}
	if !ahead {
		t.Error("no replica was ahead")
	}
}

func TestCapacitiesAreExplained(t *testing.T) {
	d := newDriver(t, Default, DefaultSettings(), 3)
	d.answer = func(place int, report *LoadReport) {
		equalLoad(place, report)
		report.CapacityMilliRIF = Some(uint32(4_000))
		report.Cost = Some(5 * time.Millisecond)
	}
	for range 50 {
		d.serve(t)
	}
	explanation := NewExplanation()
	d.pick(t, Query{Avoid: d.replicas[:1], Attempt: AttemptRetry}, explanation)
	if explanation.Comparison() != byCapacity || explanation.Cold() != 2 || explanation.Hot() != 0 {
		t.Errorf("%v, %d cold, %d hot", explanation.Comparison(), explanation.Cold(), explanation.Hot())
	}
	for i, candidate := range explanation.Candidates() {
		capacity, _ := candidate.Values.At(1)
		aloneFine, _ := candidate.Values.At(3)
		if candidate.CapacityMilliRIF != Some(uint32(4_000)) || capacity != 4_000 ||
			candidate.Cost != Some(5*time.Millisecond) || aloneFine != uint64(5*time.Millisecond)*fine {
			t.Errorf("%+v", candidate)
		}
		if candidate.Avoided != (candidate.Replica == d.replicas[0]) || candidate.Avoided != (i == 2) {
			t.Errorf("number %d: %v avoided %v", i, candidate.Replica, candidate.Avoided)
		}
	}
}

func TestOutsWithAReasonAreKept(t *testing.T) {
	explanation := NewExplanation()
	for i := range MaxOuts + 3 {
		explanation.AddOut(Out{Replica: newReplicaID(uint32(i), 0), Why: OutTakenOut})
	}
	if len(explanation.Outs()) != MaxOuts || explanation.Out() != MaxOuts+3 {
		t.Fatalf("%d of %d", len(explanation.Outs()), explanation.Out())
	}
	known := newReplicaID(2, 0)
	explanation.NoteOut(Out{Replica: known, Why: OutDraining})
	explanation.NoteOut(Out{Replica: known, Why: OutLost})
	if found := explanation.Outs()[2]; found.Why != OutDraining {
		t.Errorf("a better reason stays: %v", found)
	}
	beyond := newReplicaID(99, 0)
	explanation.NoteOut(Out{Replica: beyond, Why: OutReason(HealthEjected.String())})
	last := explanation.Outs()[MaxOuts-1]
	if last.Replica != beyond || last.Why != "ejected" || HealthEjected.ReplicaState() != "ejected" {
		t.Errorf("it takes the place of one without a reason: %v", last)
	}
	explanation.Clear()
	if len(explanation.Outs()) != 0 || explanation.Out() != 0 {
		t.Errorf("cleared: %v", explanation.Outs())
	}
}

func TestDrawThatDecidesIsExplained(t *testing.T) {
	d := newDriver(t, "random", DefaultSettings(), 5)
	explanation := NewExplanation()
	for range 20 {
		pick := d.pick(t, Query{}, explanation)
		draw, known := explanation.Draw()
		index := Below(&fixedDraw{draw: draw}, 5)
		if !known || pick.Ticket.Replica() != d.replicas[index] || explanation.Considered() != 5 {
			t.Fatalf("drew %v, known %v, picked %v", index, known, pick.Ticket.Replica())
		}
	}
	d = newDriver(t, "least_loaded", DefaultSettings(), 5)
	d.pick(t, Query{}, explanation)
	if _, known := explanation.Draw(); known {
		t.Error("a draw that decides nothing is explained")
	}
}
