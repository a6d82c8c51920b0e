package policy

// ProbeID names an asynchronous probe: the policy's slot in the lower half, the serial number in
// the upper half.
type ProbeID uint64

func newProbeID(slot, serial uint32) ProbeID { return ProbeID(uint64(serial)<<32 | uint64(slot)) }

func (p ProbeID) slot() int { return int(uint32(p)) }

func (p ProbeID) serial() uint32 { return uint32(p >> 32) }

// Probe is a probe to send. It ends as a report, or as lost at its deadline.
type Probe struct {
	// ID is returned with the answer.
	ID ProbeID
	// Replica is the replica to probe.
	Replica ReplicaID
	// Deadline is the time from which an answer is useless.
	Deadline Instant
}
