package probe

import "net/http"

// HeaderShed is the reason for which a response does not come from the application, in one word.
const HeaderShed = "X-Slackwater-Error"

// Shed is the reason for which a replica rejects a request that it has not started. That is load,
// and no failure: the client may try another replica at once.
type Shed uint8

// The reasons.
const (
	// ShedFull: the queue is full.
	ShedFull Shed = iota + 1
	// ShedDeadline: the request's deadline would pass, or has passed, before its turn.
	ShedDeadline
	// ShedWaitOver: it has waited as long as a request may.
	ShedWaitOver
	// ShedOverloaded: the replica is overloaded, and the request is not urgent enough.
	ShedOverloaded
	// ShedCopyStarted: the request's tied copy has started at another replica.
	ShedCopyStarted
)

var shedNames = [...]string{
	ShedFull:        "shed_full",
	ShedDeadline:    "shed_deadline",
	ShedWaitOver:    "shed_wait_over",
	ShedOverloaded:  "shed_overloaded",
	ShedCopyStarted: "shed_twin_started",
}

// String returns the reason's word in [HeaderShed].
func (s Shed) String() string {
	if s > 0 && int(s) < len(shedNames) {
		return shedNames[s]
	}
	return "shed"
}

// ReadShed returns the reason in a response's header, and whether it is one.
func ReadShed(header http.Header) (Shed, bool) {
	values := header[HeaderShed]
	for i, name := range shedNames {
		if len(values) > 0 && name != "" && values[0] == name {
			return Shed(i), true
		}
	}
	return 0, false
}

// WriteShed writes the answer to a request that is rejected: status 503 with retry-after, or for a
// gRPC call its status UNAVAILABLE (DEADLINE_EXCEEDED if its deadline has passed) with
// grpc-retry-pushback-ms.
func WriteShed(w http.ResponseWriter, r *http.Request, reason Shed) {
	header := w.Header()
	header[HeaderShed] = []string{reason.String()}
	header["Retry-After"] = []string{"1"}
	if !IsGRPC(r.Header) {
		header["Content-Type"] = []string{"text/plain; charset=utf-8"}
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	status := "14"
	if reason == ShedDeadline {
		status = "4"
	}
	header["Content-Type"] = []string{"application/grpc"}
	header["Grpc-Status"] = []string{status}
	header["Grpc-Retry-Pushback-Ms"] = []string{"1000"}
	w.WriteHeader(http.StatusOK)
}
