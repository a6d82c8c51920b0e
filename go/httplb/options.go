package httplb

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/slackwater/slackwater/go/health"
	"github.com/slackwater/slackwater/go/keys"
	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// Option is a setting of a [Transport].
type Option func(*options)

type options struct {
	policy       string
	settings     policy.Settings
	health       health.Settings
	base         http.RoundTripper
	probes       probeKind
	probePath    string
	probeKey     *probe.Key
	localV4      netip.Addr
	localV6      netip.Addr
	hint         func(*http.Request) []byte
	key          keyOptions
	explanations int
	seed         policy.Optional[uint64]
	// ownsBase says that base is the transport's own.
	ownsBase bool
}

// probeKind is how replicas are probed.
type probeKind uint8

const (
	probesUDP probeKind = iota
	probesHTTP
	probesNone
)

// explanationsMax is the most picks that a transport keeps.
const explanationsMax = 1024

func newOptions(given []Option) (*options, error) {
	o := &options{
		policy:    policy.Default,
		settings:  policy.DefaultSettings(),
		health:    health.StandardSettings(),
		probePath: probe.Path,
		key:       keyOptions{hasher: keys.NewHasher()},
	}
	for _, option := range given {
		option(o)
	}
	switch {
	case !strings.HasPrefix(o.probePath, "/"):
		return nil, fmt.Errorf("the path of probes %q does not begin with a slash", o.probePath)
	case o.key.isSecretShort:
		return nil, fmt.Errorf("the secret of keys has fewer than %d bytes", keys.SecretBytesMin)
	case o.explanations < 0 || o.explanations > explanationsMax:
		return nil, fmt.Errorf("a transport can keep 0 to %d picks, not %d", explanationsMax, o.explanations)
	}
	if o.base == nil {
		o.base, o.ownsBase = NewBase(), true
	}
	if _, nested := o.base.(*Transport); nested {
		return nil, errors.New("a transport of this package cannot be the base of another one")
	}
	if o.probes == probesNone {
		o.settings.Prequal.LocalOnly = true
	}
	return o, nil
}

// WithPolicy sets the policy by its name, as in [policy.Names], and its settings. prequal_sync
// probes for each request and makes it wait for the answers, at most for its SyncDeadline. Default
// [policy.Default] with [policy.DefaultSettings].
func WithPolicy(name string, settings policy.Settings) Option {
	return func(o *options) { o.policy, o.settings = name, settings }
}

// WithHealth sets what happens to replicas that fail, push back, are slow or are new. With
// [health.OffSettings] nothing does. Default [health.StandardSettings], as in Slackwater's proxy.
func WithHealth(settings health.Settings) Option {
	return func(o *options) { o.health = settings }
}

// WithBase sets the transport that sends the requests. Default: one of [NewBase].
func WithBase(base http.RoundTripper) Option { return func(o *options) { o.base = base } }

// WithHTTPProbes probes replicas by GET requests to path instead of over UDP. An empty path is the
// default, [probe.Path]. Probes over HTTP cost several times as much, and pass everything that HTTP
// passes. If the base is an [http.Transport], they use a copy of it, with its TLS configuration.
func WithHTTPProbes(path string) Option {
	return func(o *options) {
		o.probes = probesHTTP
		if path != "" {
			o.probePath = path
		}
	}
}

// WithoutProbes sends no probes: replicas are balanced by what the transport measures and by
// reports in responses.
func WithoutProbes() Option { return func(o *options) { o.probes = probesNone } }

// WithProbeKey signs probes with key. Answers must be signed with it, too. Default: nothing is
// signed.
func WithProbeKey(key *probe.Key) Option { return func(o *options) { o.probeKey = key } }

// WithProbesFrom sends probes over UDP from these local addresses, each of which may be the zero
// value. Default: from any.
func WithProbesFrom(v4, v6 netip.Addr) Option {
	return func(o *options) { o.localV4, o.localV6 = v4, v6 }
}

// WithHint puts what hint returns into the probes for a request, at most [probe.HintBytesMax]
// bytes: a replica that has the request's data at hand then reports a lower load. A longer hint,
// and an empty one, is left out. Only prequal_sync probes for a request, so only there is hint
// called. It must not change the request. Default: no hints.
func WithHint(hint func(*http.Request) []byte) Option { return func(o *options) { o.hint = hint } }

// WithExplanations keeps the last picks for [Transport.Explain]: 0 to 1,024, default 0. Unless it
// is 0, each pick takes longer.
func WithExplanations(picks int) Option { return func(o *options) { o.explanations = picks } }

// WithSeed makes choices repeatable: the same seed and the same events give the same picks.
// Default: a random seed.
func WithSeed(seed uint64) Option { return func(o *options) { o.seed = policy.Some(seed) } }

// Settings of NewBase.
const (
	connectMax       = 2 * time.Second
	idlePerReplica   = 256
	idleConnMax      = 90 * time.Second
	headBytesMax     = 1 << 20
	handshakeTimeout = 5 * time.Second
	// Without a wait, the body would follow at once, whatever the replica says to the head.
	expectContinueMax = time.Second
	// With HTTP/1.1, a request that times out takes its connection with it. A connection of HTTP/2
	// that is dead without an end would get all later requests, too.
	silentMax = 2 * time.Second
	pingMax   = time.Second
)
