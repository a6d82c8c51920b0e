package slackwatergrpc

import (
	"fmt"
	"strings"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// Pick is what one pick was made from.
type Pick struct {
	// Time is when it was made.
	Time time.Time `json:"time"`
	// Method is the full name of the method, such as "/search.Search/Query".
	Method string `json:"method"`
	// Retry says that gRPC had tried the call elsewhere. It is known only with [DialOptions].
	Retry bool `json:"retry,omitempty"`
	// Hedge says that it was the hedge of a call: see [Hedger].
	Hedge bool `json:"hedge,omitempty"`
	// Endpoint is the address of the endpoint that was picked.
	Endpoint string `json:"endpoint"`
	// Reason is the rule that decided, such as "lowest_score".
	Reason string `json:"reason"`
	// Formula says how the candidates were compared.
	Formula string `json:"formula,omitempty"`
	// Candidates are the endpoints that were compared, best first: at most 32.
	Candidates []Candidate `json:"candidates,omitempty"`
	// Considered is how many endpoints were compared.
	Considered uint32 `json:"considered"`
	// Out are endpoints that could not be chosen, with the reasons: at most 16.
	Out []Out `json:"out,omitempty"`
}

// Candidate is an endpoint that was compared.
type Candidate struct {
	// Endpoint is its address; if it has left since, the name of its replica.
	Endpoint string `json:"endpoint"`
	// InFlight is the number of this channel's calls in flight there.
	InFlight uint32 `json:"inFlight"`
	// Report is its report as it counted, or nil.
	Report *Report `json:"report,omitempty"`
	// Values are the values of the formula, by name. Values that are not known are absent.
	Values map[string]float64 `json:"values,omitempty"`
	// Avoided says that the call must not go there, because it has tried it.
	Avoided bool `json:"avoided,omitempty"`
}

// Out is an endpoint that could not be chosen.
type Out struct {
	// Endpoint is its address; if it has left since, the name of its replica.
	Endpoint string `json:"endpoint"`
	// Reason is "disconnected" (it has no READY connection), "draining", "unreachable", or a state
	// of its health, such as "ejected".
	Reason string `json:"reason"`
}

// outDisconnected is the reason of endpoints that have lost their connection.
const outDisconnected policy.OutReason = "disconnected"

// String returns the pick in one line.
func (p Pick) String() string {
	var line strings.Builder
	fmt.Fprintf(&line, "%s %s -> %s (%s", p.Time.Format(time.RFC3339Nano), p.Method, p.Endpoint, p.Reason)
	if p.Retry {
		line.WriteString(", retry")
	}
	if p.Hedge {
		line.WriteString(", hedge")
	}
	line.WriteString(")")
	for _, c := range p.Candidates {
		fmt.Fprintf(&line, " %s[in flight %d", c.Endpoint, c.InFlight)
		if c.Report != nil {
			fmt.Fprintf(&line, ", rif %d, latency %v", c.Report.RIF, c.Report.Latency)
		}
		line.WriteString("]")
	}
	for _, o := range p.Out {
		fmt.Fprintf(&line, " %s[%s]", o.Endpoint, o.Reason)
	}
	return line.String()
}

// Picks returns the latest picks, the oldest first. There are as many as the configuration has
// under explain.
func (c *Channel) Picks() []Pick {
	e := c.current()
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	picks := make([]Pick, 0, e.records.count)
	for made := range e.records.all {
		picks = append(picks, e.describePickLocked(made))
	}
	return picks
}

// pickMade is a pick as it is kept.
type pickMade struct {
	at       time.Time
	method   string
	attempt  policy.Attempt
	reason   policy.PickReason
	endpoint *endpoint
	// explanation has all its memory from the start.
	explanation *policy.Explanation
}

// recorder keeps the latest picks. The zero value keeps none, and costs a pick nothing.
type recorder struct {
	picks []pickMade
	// next is the place of the next pick, and count is how many there are.
	next, count int
}

// newRecorder makes a recorder with one place more than picks: that of the pick that is being made.
func newRecorder(picks int) recorder {
	if picks == 0 {
		return recorder{}
	}
	r := recorder{picks: make([]pickMade, picks+1)}
	for i := range r.picks {
		r.picks[i].explanation = policy.NewExplanation()
	}
	return r
}

// keepPicks keeps this many of the picks from now on, and none of those before.
func (e *engine) keepPicks(picks int) {
	records := newRecorder(picks)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.records = records
}

// explanation returns what the policy fills in for the next pick, or nil.
func (r *recorder) explanation() *policy.Explanation {
	if len(r.picks) == 0 {
		return nil
	}
	return r.picks[r.next].explanation
}

// record keeps the pick whose explanation was filled in last.
func (r *recorder) record(made pickMade) {
	if len(r.picks) == 0 {
		return
	}
	made.at = time.Now()
	made.explanation = r.picks[r.next].explanation
	r.picks[r.next] = made
	r.next = (r.next + 1) % len(r.picks)
	r.count = min(r.count+1, len(r.picks)-1)
}

// all yields the picks, the oldest first.
func (r *recorder) all(yield func(*pickMade) bool) {
	for i := range r.count {
		if !yield(&r.picks[(r.next-r.count+i+len(r.picks))%len(r.picks)]) {
			return
		}
	}
}

func (e *engine) describePickLocked(made *pickMade) Pick {
	explained := made.explanation
	pick := Pick{
		Time:       made.at,
		Method:     made.method,
		Retry:      made.attempt == policy.AttemptRetry,
		Hedge:      made.attempt == policy.AttemptHedge,
		Endpoint:   made.endpoint.describe(),
		Reason:     made.reason.String(),
		Considered: explained.Considered(),
	}
	comparison := explained.Comparison()
	if comparison != nil {
		pick.Formula = comparison.Formula
	}
	for _, candidate := range explained.Candidates() {
		described := Candidate{
			Endpoint: e.describeLocked(candidate.Replica),
			InFlight: candidate.InFlight,
			Values:   describeValues(comparison, candidate.Values),
			Avoided:  candidate.Avoided,
		}
		if report, ok := candidate.Report.Get(); ok {
			described.Report = e.describeReportLocked(&report)
		}
		pick.Candidates = append(pick.Candidates, described)
	}
	for _, out := range explained.Outs() {
		pick.Out = append(pick.Out, Out{
			Endpoint: e.describeLocked(out.Replica), Reason: string(out.Why),
		})
	}
	return pick
}

func describeValues(comparison *policy.Comparison, values policy.Values) map[string]float64 {
	if comparison == nil {
		return nil
	}
	described := make(map[string]float64, len(comparison.Factors))
	for i, factor := range comparison.Factors {
		if value, ok := values.At(i); ok {
			described[factor.Key] = float64(value) / float64(max(factor.Parts, 1))
		}
	}
	return described
}

// describeLocked returns a replica's address, or its name if it has left the fleet.
func (e *engine) describeLocked(replica policy.ReplicaID) string {
	if m := e.memberLocked(replica); m != nil {
		return m.picker.endpoint.describe()
	}
	return replica.String()
}
