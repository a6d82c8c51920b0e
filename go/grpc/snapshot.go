package slackwatergrpc

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// Snapshot is the state of a balancer at one moment, for display. It can be written as JSON.
type Snapshot struct {
	// Target and Locality are those of the [Channel].
	Target   string `json:"target"`
	Locality string `json:"locality,omitempty"`
	// Policy is the rule in use, and Transport is how probes are sent.
	Policy    string `json:"policy"`
	Transport string `json:"transport"`
	// Endpoints are those with a READY connection.
	Endpoints []Endpoint `json:"endpoints"`
	// Reports are the reports of load that are kept, the oldest first.
	Reports []Report `json:"reports,omitempty"`
	// RIFLimit is the number of requests in flight from which a report is hot, or nil if none is.
	RIFLimit *uint32 `json:"rifLimit,omitempty"`
	// Picks are the numbers of picks by the rule that decided, since the same time as Probes.
	Picks map[string]uint64 `json:"picks"`
	// Probes are the numbers of probes.
	Probes ProbeCounts `json:"probes"`
}

// Endpoint is an endpoint with a READY connection.
type Endpoint struct {
	// Address is its first address.
	Address string `json:"address"`
	// InFlight is the number of this channel's calls in flight there.
	InFlight uint32 `json:"inFlight"`
	// State is "available", "draining" (it reports that it takes no new calls), "unreachable" (it has
	// stopped answering probes), "unprobed" (it has answered none yet, so it is balanced by what this
	// channel measures), or by its health "ejected", "limited" or "warming_up".
	State string `json:"state"`
}

// Report is a report of load as it counts now.
type Report struct {
	// Endpoint is the address of the endpoint that it is from.
	Endpoint string `json:"endpoint"`
	// RIF is the number of requests in flight.
	RIF uint32 `json:"rif"`
	// Latency is the estimated latency; 0 if it is unknown.
	Latency time.Duration `json:"latencyNs"`
	// Age is the time since it was received.
	Age time.Duration `json:"ageNs"`
	// Local says that it was made from what this channel measures, because the endpoint answers no
	// probes.
	Local bool `json:"local,omitempty"`
	// Hot says that its RIF has reached the limit.
	Hot bool `json:"hot,omitempty"`
}

// ProbeCounts are numbers of probes since the configuration last changed, or since the first
// connections were made. They are without those that a report with a response made unnecessary.
type ProbeCounts struct {
	// Sent were due, Answered were answered in time, and Lost failed or were not.
	Sent     uint64 `json:"sent"`
	Answered uint64 `json:"answered"`
	Lost     uint64 `json:"lost"`
	// Unsent could not be sent, through no fault of the endpoint.
	Unsent uint64 `json:"unsent"`
}

// String returns the snapshot as indented JSON.
func (s Snapshot) String() string {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Snapshot returns the state of the balancer. It takes time in proportion to the endpoints, in
// which no call is picked.
func (c *Channel) Snapshot() Snapshot {
	snapshot := Snapshot{Target: c.target, Locality: c.Locality(), Picks: map[string]uint64{}}
	if e := c.current(); e != nil {
		e.describe(&snapshot)
	}
	return snapshot
}

func (e *engine) describe(into *Snapshot) {
	e.mu.Lock()
	defer e.mu.Unlock()
	state := e.policy.Snapshot(e.now())
	into.Policy, into.Transport = e.policy.Name(), e.config.probe.transport
	health := make(map[policy.ReplicaID]string, len(state.Health))
	for _, view := range state.Health {
		health[view.Replica] = view.State.ReplicaState()
	}
	for _, replica := range state.Replicas {
		if !e.isReadyLocked(replica.Replica) {
			continue
		}
		into.Endpoints = append(into.Endpoints, Endpoint{
			Address:  e.describeLocked(replica.Replica),
			InFlight: replica.InFlight,
			State:    cmp.Or(health[replica.Replica], stateOf(&replica)),
		})
	}
	for i := range state.Pool {
		into.Reports = append(into.Reports, *e.describeReportLocked(&state.Pool[i]))
	}
	if limit, ok := state.RIFLimit.Get(); ok {
		into.RIFLimit = &limit
	}
	counters := e.countersLocked()
	for reason, picks := range counters.Picks.All() {
		if picks > 0 {
			into.Picks[reason.String()] = picks
		}
	}
	into.Probes = ProbeCounts{
		Sent: counters.ProbesSent, Answered: counters.ProbesAnswered,
		Lost: counters.ProbesLost, Unsent: counters.ProbesUnsent,
	}
}

// stateOf returns the state of a replica that health does not limit.
func stateOf(replica *policy.ReplicaView) string {
	switch {
	case replica.Draining:
		return "draining"
	case replica.Lost:
		return "unreachable"
	case replica.Unprobed:
		return "unprobed"
	}
	return "available"
}

func (e *engine) describeReportLocked(report *policy.PooledView) *Report {
	return &Report{
		Endpoint: e.describeLocked(report.Replica),
		RIF:      report.RIF,
		Latency:  report.Latency,
		Age:      report.Age,
		Local:    report.Local,
		Hot:      report.Hot,
	}
}
