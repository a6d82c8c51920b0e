package policy

import "time"

// HealthState is the health state of a replica. Package health determines it.
type HealthState uint8

// The states.
const (
	// HealthSound: it has its whole share.
	HealthSound HealthState = iota
	// HealthWarmingUp: it is new, or has restarted, and has not yet shown that it is as fast as the
	// others.
	HealthWarmingUp
	// HealthPushingBack: it pushes queries back, and gets fewer for a moment.
	HealthPushingBack
	// HealthHeldBack: it fails more often than the others or is slower, and gets only what they have
	// no capacity for.
	HealthHeldBack
	// HealthReturning: it was readmitted, and its share grows again.
	HealthReturning
	// HealthEjected: it is ejected for its failures.
	HealthEjected
	// HealthOnProbation: it is ejected because it is slow or has stopped.
	HealthOnProbation
)

var healthNames = [...]string{
	"sound", "warming_up", "pushing_back", "held_back", "returning", "ejected", "on_probation",
}

// String returns the state's name, such as warming_up.
func (s HealthState) String() string { return nameOf(healthNames[:], int(s)) }

// ReplicaState returns the replica state that operators see: ejected, limited or warming_up. It is
// empty if health does not limit the replica.
func (s HealthState) ReplicaState() string {
	switch s {
	case HealthWarmingUp, HealthReturning:
		return "warming_up"
	case HealthPushingBack, HealthHeldBack:
		return "limited"
	case HealthEjected, HealthOnProbation:
		return "ejected"
	}
	return ""
}

// HealthView is a replica's health.
type HealthView struct {
	Replica ReplicaID
	State   HealthState
	// IsSlow says, if it has less than its whole share, that slowness is the reason, and not
	// failures.
	IsSlow bool
	// ShareMillionths is the part of the queries that it may get, in millionths. 0 if it is out.
	ShareMillionths uint32
	// SuccessMillionths is its success rate in millionths, as of the last estimate: its answers or
	// its report, whichever is worse.
	SuccessMillionths uint32
	// Latency is the recent latency of its good answers. It is absent if there were none.
	Latency Optional[time.Duration]
}

// HealthCounters are counts of events of health. They only rise.
type HealthCounters struct {
	// Ejections counts replicas that were taken out for their failures.
	Ejections uint64
	// Probations counts replicas that were taken out for being slow or having stopped.
	Probations uint64
	// Spared counts replicas that were not taken out, although they should have been, because too
	// many were out.
	Spared uint64
	// Readmissions counts replicas that came back from being out.
	Readmissions uint64
	// Trials counts queries sent as trials.
	Trials uint64
	// TrialsPassed counts trials that passed.
	TrialsPassed uint64
	// WarmUps counts warm-ups started: replicas that joined or restarted.
	WarmUps uint64
}
