package probe

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// Handler answers probes over HTTP. Serve it at [Path], outside of everything that counts queries.
// Its fields do not change once it serves.
//
// A probe gets status 200 and the report in headers. A malformed hint gets 400, another method than
// GET 405 and, with a key, a probe without a valid signature 403.
type Handler struct {
	// Report returns the load. Hint says what the query is about; it is empty for none, and hostile
	// until proven otherwise.
	Report func(hint []byte) policy.LoadReport
	// Key signs reports, and probes must be signed with it. Default nil: nothing is signed.
	Key *Key

	answered, refused atomic.Uint64
}

// HandlerCounts counts what a [Handler] has done since its start.
type HandlerCounts struct {
	// Answered counts probes that were answered.
	Answered uint64
	// Refused counts probes that were refused.
	Refused uint64
}

// Counts returns what has happened so far.
func (h *Handler) Counts() HandlerCounts {
	return HandlerCounts{Answered: h.answered.Load(), Refused: h.refused.Load()}
}

// ServeHTTP answers a probe.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header["Cache-Control"] = []string{"no-store"}
	status := h.answer(header, r)
	if status == http.StatusOK {
		h.answered.Add(1)
	} else {
		h.refused.Add(1)
	}
	w.WriteHeader(status)
}

// answer writes the report, and returns the status.
func (h *Handler) answer(header http.Header, r *http.Request) int {
	if r.Method != http.MethodGet {
		header["Allow"] = []string{http.MethodGet}
		return http.StatusMethodNotAllowed
	}
	var challenge Challenge
	if h.Key != nil {
		var err error
		if challenge, err = CheckProbe(r.Header, h.Key, time.Now()); err != nil {
			return http.StatusForbidden
		}
	}
	hint, err := ReadHint(r.Header)
	if err != nil {
		return http.StatusBadRequest
	}
	report := h.Report(hint)
	WriteReport(header, &report)
	if h.Key != nil {
		SignReport(header, h.Key, challenge)
	}
	return http.StatusOK
}
