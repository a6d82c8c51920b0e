package slackwatergrpc

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/slackwater/slackwater/go/internal/grpcstatus"
)

const (
	// hedgeBudget is the default of [HedgeOptions.Budget], in millionths.
	hedgeBudget = 50_000
	// hedgesSavedMax is how many hedges an unused budget accumulates for.
	hedgesSavedMax = 10
	// millionths is one as a budget.
	millionths = 1_000_000
	// hedgeDelayMin is the shortest delay that is learned.
	hedgeDelayMin = time.Millisecond
	// latenciesMax is the number of latest latencies of a method that count, and latenciesMin the
	// fewest from which a delay is learned. It is updated after each of latenciesMin/4.
	latenciesMax, latenciesMin = 512, 64
)

// HedgeOptions are the settings of a [Hedger].
type HedgeOptions struct {
	// Methods are the full names of the methods that are hedged, such as "/search.Search/Query":
	// only those whose calls may be executed twice without harm. At least one.
	Methods []string
	// Delay is how long a call may be without an answer before it is late, and its hedge is sent.
	// Default 0: the 95th percentile of the method's latest 512 latencies, or a higher one if the
	// budget pays for fewer hedges, and at least 1 ms. A method of which fewer than 64 calls have
	// been answered is not hedged then.
	Delay time.Duration
	// Budget is the most hedges for each call of these methods: from 0 to 1. Default 0: 0.05.
	Budget float64
}

// HedgeCounts counts what a [Hedger] has done since its start.
type HedgeCounts struct {
	// Calls were those of the methods.
	Calls uint64
	// Sent were the hedges, and Won those of them whose answer was used.
	Sent, Won uint64
	// WithheldBudget and WithheldSlow count how often a late call got no hedge because the budget
	// was spent, and because more than half of the method's last 64 calls were late.
	WithheldBudget, WithheldSlow uint64
}

// Hedger sends late unary calls once more, to another endpoint, and uses the first good answer: a
// response, or a status that does not blame the server. gRPC-Go implements no hedging itself. If
// one of the two fails, the other goes on. The loser is cancelled, and counts neither as an answer
// of its endpoint nor as a failure. The caller gets the header, the trailer and the peer of the
// answer that is used. A Hedger is safe for concurrent use by all channels to one service.
//
// Only calls with protobuf messages are hedged, and only where the policy of this package picks: a
// hedge goes to an endpoint that is available, and that the call has not tried. Retries by gRPC
// apply to each of the two by itself.
type Hedger struct {
	delay time.Duration
	// budget is in millionths.
	budget int
	// methods are those that are hedged. The map does not change.
	methods map[string]*hedgedMethod

	mu sync.Mutex
	// saved is what is left of the budget, in millionths of a hedge.
	saved  int
	counts HedgeCounts
}

// NewHedger returns a hedger. The error says which option is wrong.
func NewHedger(options HedgeOptions) (*Hedger, error) {
	h := &Hedger{
		delay: options.Delay, budget: hedgeBudget, methods: make(map[string]*hedgedMethod),
	}
	if options.Budget != 0 {
		h.budget = int(options.Budget * millionths)
	}
	switch {
	case len(options.Methods) == 0:
		return nil, fmt.Errorf("slackwater: a hedger needs a method")
	case options.Delay < 0:
		return nil, fmt.Errorf("slackwater: the delay of hedges %v is negative", options.Delay)
	case !(options.Budget >= 0 && options.Budget <= 1):
		return nil, fmt.Errorf("slackwater: the budget of hedges is %v, not from 0 to 1", options.Budget)
	}
	for _, method := range options.Methods {
		if !strings.HasPrefix(method, "/") || strings.Count(method, "/") != 2 {
			return nil, fmt.Errorf(`slackwater: %q is not the full name of a method, such as "/search.Search/Query"`,
				method)
		}
		h.methods[method] = &hedgedMethod{}
	}
	return h, nil
}

// Counts returns what has happened so far.
func (h *Hedger) Counts() HedgeCounts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts
}

// Intercept is an interceptor of unary calls, for [grpc.WithChainUnaryInterceptor]. Interceptors
// after it see both calls.
func (h *Hedger) Intercept(
	ctx context.Context, method string, request, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	hedged := h.methods[method]
	message, isMessage := reply.(proto.Message)
	if hedged == nil || !isMessage {
		return invoke(ctx, method, request, reply, cc, opts...)
	}
	p := &hedgedPair{
		hedger: h, method: hedged, target: cc.CanonicalTarget(), began: time.Now(), tried: &triedReplicas{},
	}
	opts, finish := withoutFinish(opts)
	firstOptions, first := redirect(opts)
	firstCtx, cancelFirst := context.WithCancel(ctx)
	defer cancelFirst()
	hedgeCtx, cancelHedge := context.WithCancel(ctx)
	defer cancelHedge()
	// The first call may be writing to its message when the hedge makes its own.
	kind := message.ProtoReflect().Type()
	var second outputs
	p.send = func() {
		var hedgeOptions []grpc.CallOption
		hedgeOptions, second = redirect(opts)
		second.reply = kind.New().Interface()
		second.err = invoke(p.context(hedgeCtx, true), method, request, second.reply, cc, hedgeOptions...)
		if isAnswer(second.err) {
			cancelFirst()
		}
	}
	p.begin()
	// Also if an interceptor panics.
	defer p.endFirst()
	first.err = invoke(p.context(firstCtx, false), method, request, reply, cc, firstOptions...)
	used := &first
	if done := p.endFirst(); done != nil {
		if isAnswer(first.err) {
			cancelHedge()
		}
		// It is over soon after it is cancelled. No goroutine is left, and none writes any more.
		<-done
		if !isAnswer(first.err) && isAnswer(second.err) {
			used = &second
			proto.Reset(message)
			proto.Merge(message, second.reply)
		}
	}
	p.end(used == &second, isAnswer(first.err))
	used.copyOut()
	for _, f := range finish {
		f(used.err)
	}
	return used.err
}

// isAnswer reports whether a call got an answer from its server: a response, or a status that is
// about the call. The status of a call that was cancelled is that of the loser, or of a caller that
// gave both up.
func isAnswer(err error) bool {
	code := status.Code(err)
	return code != codes.Canceled && !grpcstatus.Code(code).BlamesServer()
}

// hedgedPair is a call and its hedge.
type hedgedPair struct {
	hedger *Hedger
	method *hedgedMethod
	target string
	began  time.Time
	// tried are the replicas of both.
	tried *triedReplicas
	// send sends the hedge, and waits for its end.
	send func()

	// The hedger's mutex guards the rest.
	timer *time.Timer
	delay time.Duration
	// isLate says that the delay is over, and isOver that the first call is.
	isLate, isOver bool
	// done is nil unless the hedge is sent, and closed at its end.
	done chan struct{}
}

// hedgeKey is the key of a context's *hedgeMark.
type hedgeKey struct{}

// hedgeMark says that a call is one of a pair, on the channel with this target.
type hedgeMark struct {
	target  string
	tried   *triedReplicas
	isHedge bool
}

// context returns the context of the first call, or of the hedge.
func (p *hedgedPair) context(ctx context.Context, isHedge bool) context.Context {
	ctx = context.WithValue(ctx, hedgeKey{}, &hedgeMark{p.target, p.tried, isHedge})
	return withCall(ctx, p.target, false)
}

// begin starts the delay of the hedge, if it is known.
func (p *hedgedPair) begin() {
	h := p.hedger
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.Calls++
	h.saved = min(h.saved+h.budget, hedgesSavedMax*millionths)
	if p.delay = h.delay; p.delay == 0 {
		p.delay = p.method.delay
	}
	if p.delay > 0 {
		// The callback locks mu, so it cannot run before the timer is set.
		p.timer = time.AfterFunc(p.delay, p.fire)
	}
}

// fire sends the hedge, if there is to be one.
func (p *hedgedPair) fire() {
	if !p.mayHedge() {
		return
	}
	p.send()
	h := p.hedger
	h.mu.Lock()
	defer h.mu.Unlock()
	close(p.done)
	if p.tried.hasHedge() {
		return
	}
	// There was no other endpoint. There may be one later.
	h.saved += millionths
	h.counts.Sent--
	if p.done = nil; !p.isOver {
		p.againLocked()
	}
}

// againLocked sets the timer for twice the time in flight. So the calls that are in flight for
// longest get the hedges that can be paid for.
func (p *hedgedPair) againLocked() { p.timer.Reset(max(time.Since(p.began), hedgeDelayMin)) }

// mayHedge pays for the hedge, or sets the timer again.
func (p *hedgedPair) mayHedge() bool {
	h := p.hedger
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.isOver {
		return false
	}
	if !p.isLate {
		p.isLate = true
		p.method.seen(true)
	}
	switch {
	case p.tried.isEmpty():
		// The call itself waits for a connection.
	case p.method.isSlow():
		h.counts.WithheldSlow++
	case h.saved < millionths:
		h.counts.WithheldBudget++
	default:
		h.saved -= millionths
		h.counts.Sent++
		p.done = make(chan struct{})
		return true
	}
	p.againLocked()
	return false
}

// endFirst notes the end of the first call, after which no hedge is sent. It returns nil, or what
// is closed at the end of the hedge.
func (p *hedgedPair) endFirst() <-chan struct{} {
	h := p.hedger
	h.mu.Lock()
	defer h.mu.Unlock()
	p.isOver = true
	if p.timer != nil {
		p.timer.Stop()
	}
	return p.done
}

// end notes the end of both.
func (p *hedgedPair) end(won, isAnswered bool) {
	took := time.Since(p.began)
	h := p.hedger
	h.mu.Lock()
	defer h.mu.Unlock()
	if won {
		h.counts.Won++
	}
	if p.delay > 0 && !p.isLate {
		p.method.seen(false)
	}
	// If the hedge won, the call would have taken longer. It is beyond the delay anyway. A fast
	// failure shows nothing about the latency of an answer.
	if h.delay == 0 && (won || isAnswered || p.isLate) {
		p.method.record(took, max(0.95, 1-float64(h.budget)/millionths))
	}
}

// hedgedMethod is a method that is hedged. The hedger's mutex guards it.
type hedgedMethod struct {
	// latencies are the latest ones, wrapping at next.
	latencies []time.Duration
	next      int
	// delay is the learned one; 0 if it is not known yet.
	delay time.Duration
	// late has a bit for each of the last 64 calls: whether it was late.
	late uint64
}

func (m *hedgedMethod) seen(isLate bool) {
	m.late <<= 1
	if isLate {
		m.late |= 1
	}
}

// isSlow reports whether a hedge would only be load, because most calls are late.
func (m *hedgedMethod) isSlow() bool { return bits.OnesCount64(m.late) > 32 }

// record notes a latency, and learns the delay from time to time.
func (m *hedgedMethod) record(latency time.Duration, quantile float64) {
	if len(m.latencies) < latenciesMax {
		m.latencies = append(m.latencies, latency)
	} else {
		m.latencies[m.next] = latency
	}
	m.next = (m.next + 1) % latenciesMax
	if len(m.latencies) < latenciesMin || m.next%(latenciesMin/4) != 0 {
		return
	}
	sorted := slices.Sorted(slices.Values(m.latencies))
	place := min(int(quantile*float64(len(sorted))), len(sorted)-1)
	m.delay = max(sorted[place], hedgeDelayMin)
}

// outputs is what one of the calls has given. What call options want of it is copied out only if it
// is used.
type outputs struct {
	reply   proto.Message
	err     error
	header  *metadata.MD
	trailer *metadata.MD
	peer    *peer.Peer
	copies  []func()
}

// redirect returns options that write to outputs of their own.
func redirect(opts []grpc.CallOption) ([]grpc.CallOption, outputs) {
	o := outputs{header: new(metadata.MD), trailer: new(metadata.MD), peer: new(peer.Peer)}
	redirected := slices.Clone(opts)
	for i, option := range opts {
		switch to := option.(type) {
		case grpc.HeaderCallOption:
			redirected[i] = grpc.Header(o.header)
			o.copies = append(o.copies, func() { *to.HeaderAddr = *o.header })
		case grpc.TrailerCallOption:
			redirected[i] = grpc.Trailer(o.trailer)
			o.copies = append(o.copies, func() { *to.TrailerAddr = *o.trailer })
		case grpc.PeerCallOption:
			redirected[i] = grpc.Peer(o.peer)
			o.copies = append(o.copies, func() { *to.PeerAddr = *o.peer })
		}
	}
	return redirected, o
}

func (o *outputs) copyOut() {
	for _, copy := range o.copies {
		copy()
	}
}

// withoutFinish takes out the callbacks for the end of the call, which come once for both.
func withoutFinish(opts []grpc.CallOption) (rest []grpc.CallOption, finish []func(error)) {
	for _, option := range opts {
		if f, isFinish := option.(grpc.OnFinishCallOption); isFinish {
			finish = append(finish, f.OnFinish)
			continue
		}
		rest = append(rest, option)
	}
	return rest, finish
}
