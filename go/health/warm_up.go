package health

import (
	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// warmUpAnswers is the number of good answers that a share needs to double.
const warmUpAnswers = 8

// warmUp is the share of a new replica: small at first, and doubled by answers that are as fast as
// the others'.
type warmUp struct {
	share  uint32
	good   uint32
	endsAt policy.Instant
}

// answered counts an answer. A bad one takes back two good ones.
func (w *warmUp) answered(isGood bool) {
	if isGood {
		w.good = ints.Add(w.good, 1)
	} else {
		w.good = ints.Sub(w.good, 2)
	}
}

// tick takes in the answers, and reports whether the warm-up is over.
func (w *warmUp) tick(now policy.Instant) bool {
	if w.good >= warmUpAnswers {
		w.good = 0
		w.share = min(2*w.share, whole)
	}
	return w.share >= whole || now >= w.endsAt
}
