package vectors

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/slackwater/slackwater/go/policy"
)

// player plays one scenario.
type player struct {
	name    string
	policy  policy.Policy
	draws   countedDraws
	tickets map[uint64]policy.Ticket
	rounds  map[uint64]waitingRound
	// explanation is nil without keys. With them, what a choice was made from is a result, too.
	explanation *policy.Explanation
}

// waitingRound is a round that waits for answers, with its query.
type waitingRound struct {
	round *policy.ProbeRound
	query policy.Query
}

type countedDraws struct {
	draws *policy.SplitMix64
	count uint64
}

func (d *countedDraws) Draw() uint64 {
	d.count++
	return d.draws.Draw()
}

func newPlayer(scenario *Scenario, build Build) (*player, error) {
	built, err := build(scenario)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", scenario.Name, err)
	}
	p := &player{
		name:    scenario.Name,
		policy:  built,
		draws:   countedDraws{draws: policy.NewSplitMix64(scenario.Seed)},
		tickets: map[uint64]policy.Ticket{},
		rounds:  map[uint64]waitingRound{},
	}
	if scenario.Key != nil {
		p.explanation = policy.NewExplanation()
	}
	return p, nil
}

// play plays the input of a line, and compares the results.
func (p *player) play(line *line) error {
	var found result
	now := policy.Instant(line.T)
	switch line.Op {
	case "choose":
		query, err := line.query()
		if err != nil {
			return err
		}
		p.choose(now, line.Query, query, &found)
	case "round":
		waiting, known := p.rounds[line.Query]
		if !known {
			return fmt.Errorf("no round of query %d", line.Query)
		}
		delete(p.rounds, line.Query)
		if err := waiting.reply(line.Replies); err != nil {
			return err
		}
		p.choose(now, line.Query, waiting.query, &found)
	case "head", "done":
		ticket, known := p.tickets[line.Query]
		if !known {
			return fmt.Errorf("no query %d in flight", line.Query)
		}
		outcome, err := outcomeOf(line.Outcome)
		if err != nil {
			return err
		}
		if line.Op == "head" {
			p.policy.HandleHead(now, &ticket, outcome)
			p.tickets[line.Query] = ticket
		} else {
			delete(p.tickets, line.Query)
			p.policy.HandleDone(now, ticket, outcome)
		}
	default:
		event, err := line.event()
		if err != nil {
			return err
		}
		p.policy.Handle(now, event, &p.draws)
	}
	p.poll(now, &found)
	if !reflect.DeepEqual(found, line.result) {
		return fmt.Errorf("%s at %d: expected %s, found %s", line.Op, line.T, text(line.result), text(found))
	}
	return nil
}

func text(found result) string {
	text, err := json.Marshal(found)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// poll polls the policy, as a driver does after each input.
func (p *player) poll(now policy.Instant, found *result) {
	for {
		probe, due := p.policy.NextProbe(now, &p.draws)
		if !due {
			break
		}
		found.Probes = append(found.Probes, [3]uint64{uint64(probe.ID), uint64(probe.Replica), uint64(probe.Deadline)})
	}
	if at, due := p.policy.NextTimeout(); due {
		found.Timeout = new(uint64)
		*found.Timeout = uint64(at)
	}
	found.Trial = p.policy.WantsTrial()
	found.Draws = p.draws.count
}

// choose lets the policy choose for a query.
func (p *player) choose(now policy.Instant, number uint64, query policy.Query, found *result) {
	decision := p.policy.Choose(now, &query, &p.draws, p.explanation)
	if query.Key.Known && p.explanation != nil {
		found.MadeFrom = madeFromOf(p.explanation)
	}
	switch decision.Kind {
	case policy.Picked:
		p.tickets[number] = decision.Pick.Ticket
		found.Pick = pickOf(&decision.Pick)
	case policy.ProbeFirst:
		for replica := range decision.Round.Targets() {
			found.Round = append(found.Round, uint64(replica))
		}
		found.RoundDeadline = uint64(decision.Round.Deadline())
		query.Round = decision.Round
		p.rounds[number] = waitingRound{round: decision.Round, query: query}
	}
}

func madeFromOf(explanation *policy.Explanation) *madeFrom {
	choice, known := explanation.Key()
	if !known {
		return nil
	}
	found := &madeFrom{Homes: choice.Homes, Set: make([][4]*uint64, 0, len(choice.Set))}
	if partition, known := choice.Partition.Get(); known {
		found.Partition = &partition
	}
	for _, server := range choice.Set {
		replica, avoided := uint64(server.Replica), uint64(0)
		if server.Avoided {
			avoided = 1
		}
		shown := [4]*uint64{&replica, &server.Load, nil, &avoided}
		if cap, bounded := server.Cap.Get(); bounded {
			shown[2] = &cap
		}
		found.Set = append(found.Set, shown)
	}
	return found
}

func pickOf(from *policy.Pick) *pick {
	found := &pick{
		Replica:    uint64(from.Ticket.Replica()),
		Reason:     from.Reason.String(),
		Candidates: from.Candidates,
		Probing:    uint64(from.Probing),
	}
	if limit, known := from.RIFLimit.Get(); known {
		found.RIFLimit = &limit
	}
	if replica, known := from.RunnerUp.Get(); known {
		runnerUp := uint64(replica)
		found.RunnerUp = &runnerUp
	}
	if view, known := from.Chosen.Get(); known {
		found.Chosen = &chosen{
			RIF:     view.RIF,
			Latency: uint64(view.Latency),
			Age:     uint64(view.Age),
			Uses:    view.UsesLeft,
			Local:   view.Local,
			Hot:     view.Hot,
		}
	}
	return found
}

func (w *waitingRound) reply(replies [][]json.RawMessage) error {
	for _, reply := range replies {
		if len(reply) != 2 {
			return fmt.Errorf("a reply is a replica and a report, not %d values", len(reply))
		}
		var replica uint64
		var report *report
		if err := json.Unmarshal(reply[0], &replica); err != nil {
			return fmt.Errorf("replica of a reply: %w", err)
		}
		if err := json.Unmarshal(reply[1], &report); err != nil {
			return fmt.Errorf("reply of %d: %w", replica, err)
		}
		if report == nil {
			w.round.HandleLost(policy.ReplicaID(replica))
			continue
		}
		load := report.load()
		w.round.HandleReport(policy.ReplicaID(replica), &load)
	}
	return nil
}

var attempts = map[string]policy.Attempt{
	"":      policy.AttemptFirst,
	"retry": policy.AttemptRetry,
	"hedge": policy.AttemptHedge,
	"trial": policy.AttemptTrial,
}

func (l *line) query() (policy.Query, error) {
	attempt, known := attempts[l.Attempt]
	if !known {
		return policy.Query{}, fmt.Errorf("unknown attempt %q", l.Attempt)
	}
	query := policy.Query{Attempt: attempt, HasRoom: l.Room}
	for _, replica := range l.Avoid {
		query.Avoid = append(query.Avoid, policy.ReplicaID(replica))
	}
	if l.Pinned != nil {
		query.Pinned = policy.Some(policy.ReplicaID(*l.Pinned))
	}
	if l.Key != nil {
		query.Key = policy.Some(policy.KeyHash(*l.Key))
	}
	return query, nil
}

var kinds = map[string]policy.EventKind{
	"added":           policy.EventAdded,
	"removed":         policy.EventRemoved,
	"identified":      policy.EventIdentified,
	"available":       policy.EventAvailable,
	"report":          policy.EventReport,
	"sibling_report":  policy.EventSiblingReport,
	"sibling_queries": policy.EventSiblingQueries,
	"carried_report":  policy.EventCarriedReport,
	"probe_lost":      policy.EventProbeLost,
	"probe_unsent":    policy.EventProbeUnsent,
	"timeout":         policy.EventTimeout,
}

func (l *line) event() (policy.Event, error) {
	kind, known := kinds[l.Op]
	if !known {
		return policy.Event{}, fmt.Errorf("unknown op %q", l.Op)
	}
	event := policy.Event{
		Kind:     kind,
		Replica:  policy.ReplicaID(l.Replica),
		Probe:    policy.ProbeID(l.Probe),
		Count:    l.Queries,
		Flag:     l.Available,
		Identity: policy.Identity{Name: l.Name, Part: l.Part},
	}
	if l.Report != nil {
		load := l.Report.load()
		event.Load = &load
	}
	return event, nil
}

func outcomeOf(name string) (policy.Outcome, error) {
	for outcome := policy.OutcomeSuccess; outcome <= policy.OutcomeDropped; outcome++ {
		if outcome.String() == name {
			return outcome, nil
		}
	}
	return 0, fmt.Errorf("unknown outcome %q", name)
}
