package slackwatergrpc

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// configure sets the endpoints together with a configuration.
func (c *client) configure(t *testing.T, config string, endpoints ...resolver.Endpoint) {
	t.Helper()
	parsed := c.resolver.CC().ParseServiceConfig(serviceConfig(config))
	if parsed.Err != nil {
		t.Fatal(parsed.Err)
	}
	c.resolver.UpdateState(resolver.State{Endpoints: endpoints, ServiceConfig: parsed})
}

// No call fails while the policy changes, and calls end in the policy that picked them.
func TestConfigurationChangesUnderLoad(t *testing.T) {
	servers := []*server{serve(t, after(time.Millisecond)), serve(t, after(time.Millisecond))}
	c := dial(t, `{}`, servers)
	c.connected(t, 2)
	endpoints := stateOfServers(servers).Endpoints
	_, failed := c.load(t, 4, 1000, func(call int) {
		if call%50 == 0 {
			c.configure(t, configs[call/50%len(configs)], endpoints...)
		}
	})
	if len(failed) > 0 {
		t.Errorf("failed calls: %v", failed)
	}
	c.configure(t, `{"policy": "prequal", "explain": 1}`, endpoints...)
	c.connected(t, 2)
	if got := c.channel(t).Snapshot().Policy; got != "prequal" {
		t.Errorf("policy %s", got)
	}
	c.noneInFlight(t, servers...)
}

// Who looks at picks changes none: the engine stays, with what it has learned.
func TestPicksAreExplainedByTheSameEngine(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, `{}`, []*server{s})
	c.connected(t, 1)
	c.mustCall(t)
	before := c.channel(t).current()
	for _, explain := range []int{2, 1, 0} {
		c.configure(t, fmt.Sprintf(`{"explain": %d}`, explain), stateOfServers([]*server{s}).Endpoints...)
		for range 3 {
			c.mustCall(t)
		}
		if got := len(c.channel(t).Picks()); got != explain {
			t.Errorf("%d picks, want %d", got, explain)
		}
	}
	if c.channel(t).current() != before {
		t.Error("another engine")
	}
}

// A wrong configuration is refused, and the previous one stays.
func TestWrongConfigurationIsRefused(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, `{"policy": "prequal"}`, []*server{s})
	c.connected(t, 1)
	parsed := c.resolver.CC().ParseServiceConfig(serviceConfig(`{"policy": "prequal_sync"}`))
	if parsed.Err == nil {
		t.Fatal("accepted")
	}
	c.resolver.UpdateState(resolver.State{
		Endpoints: stateOfServers([]*server{s}).Endpoints, ServiceConfig: parsed,
	})
	c.mustCall(t)
	if got := c.channel(t).Snapshot().Policy; got != "prequal" {
		t.Errorf("policy %s", got)
	}
}

// fakeConn is a channel that only notes the states of its balancer.
type fakeConn struct {
	balancer.ClientConn
	states []balancer.State
}

func (c *fakeConn) UpdateState(state balancer.State) { c.states = append(c.states, state) }

func (c *fakeConn) MetricsRecorder() estats.MetricsRecorder { return newCounts() }

type otherConfig struct {
	serviceconfig.LoadBalancingConfig
}

// A configuration that cannot be used fails calls instead of letting them wait.
func TestConfigurationThatCannotBeUsed(t *testing.T) {
	conn := &fakeConn{}
	b := builder{}.Build(conn, balancer.BuildOptions{})
	defer b.Close()
	if err := b.UpdateClientConnState(balancer.ClientConnState{BalancerConfig: otherConfig{}}); err == nil {
		t.Error("a configuration of another policy is used")
	}
	unusable := defaultConfig()
	unusable.policy = "none"
	if err := b.UpdateClientConnState(balancer.ClientConnState{BalancerConfig: unusable}); err == nil {
		t.Fatal("an unknown policy is used")
	}
	if len(conn.states) != 1 || conn.states[0].ConnectivityState != connectivity.TransientFailure {
		t.Fatalf("states %+v", conn.states)
	}
	if _, err := conn.states[0].Picker.Pick(balancer.PickInfo{}); err == nil ||
		!strings.Contains(err.Error(), `unknown policy "none"`) {
		t.Errorf("calls fail with %v", err)
	}
	// Without any configuration, the default is used. It stays when an unusable one follows.
	for _, config := range []serviceconfig.LoadBalancingConfig{nil, unusable} {
		_ = b.UpdateClientConnState(balancer.ClientConnState{BalancerConfig: config})
		if got := Channels(); len(got) != 1 || got[0].Snapshot().Policy != policyDefault {
			t.Errorf("after %v: %v", config, got)
		}
	}
}

// probeServer answers probes by UDP and by HTTP on the same port number.
type probeServer struct {
	udp  probe.Responder
	http probe.Handler
	port int
}

func serveProbes(t *testing.T, key *probe.Key, rif uint32) *probeServer {
	t.Helper()
	s := &probeServer{}
	report := func([]byte) policy.LoadReport {
		return policy.LoadReport{RIF: rif, Latency: time.Millisecond}
	}
	s.udp.Report, s.udp.Key = report, key
	s.http.Report, s.http.Key = report, key
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = listener.Addr().(*net.TCPAddr).Port
	conn, err := net.ListenPacket("udp", listener.Addr().String())
	if err != nil {
		t.Skipf("the port of TCP is not free for UDP: %v", err)
	}
	server := &http.Server{Handler: &s.http, ReadHeaderTimeout: await.Patience}
	done := make(chan error, 2)
	go func() { done <- server.Serve(listener) }()
	go func() { done <- s.udp.Serve(t.Context(), conn) }()
	t.Cleanup(func() {
		server.Close()
		conn.Close()
		<-done
		<-done
	})
	return s
}

func TestProbesByUDPAndHTTP(t *testing.T) {
	key, err := probe.NewKey([]byte("sixteen bytes or"))
	if err != nil {
		t.Fatal(err)
	}
	RegisterKey("probes", key)
	t.Cleanup(func() { RegisterKey("probes", nil) })
	for _, transport := range []string{"udp", "http"} {
		for _, signed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s signed %v", transport, signed), func(t *testing.T) {
				used, named := (*probe.Key)(nil), ""
				if signed {
					used, named = key, `, "key": "probes"`
				}
				idle, busy := serve(t, nil), serve(t, nil)
				idleProbes, busyProbes := serveProbes(t, used, 0), serveProbes(t, used, 500)
				c := dial(t, `{}`, nil)
				c.cc.Connect()
				await.Until(t, "the resolver is there", func() bool { return c.resolverReady() })
				endpoints := stateOfServers([]*server{idle, busy}).Endpoints
				// One endpoint by the port of the configuration, the other by its attribute.
				endpoints[1] = WithProbeAddress(endpoints[1], fmt.Sprintf("127.0.0.1:%d", busyProbes.port))
				c.configure(t, fmt.Sprintf(`{"probe": {"transport": %q, "port": %d%s}}`,
					transport, idleProbes.port, named), endpoints...)
				c.connected(t, 2)
				await.Until(t, "both report", func() bool {
					reports := c.channel(t).Snapshot().Reports
					return len(reports) == 2 && !reports[0].Local && !reports[1].Local
				})
				before := busy.calls.Load()
				c.load(t, 2, 100, nil)
				if got := busy.calls.Load() - before; got > 5 {
					t.Errorf("the busy server got %d of 100 calls", got)
				}
				// One request for reports with responses on each connection.
				if idle.probes.Load() > 1 || busy.probes.Load() > 1 {
					t.Error("probes by gRPC were sent, too")
				}
				// The sockets of the previous configuration are closed: TestMain looks for them.
				c.configure(t, `{"probe": {"transport": "none"}}`, endpoints...)
				c.mustCall(t)
			})
		}
	}
}

// resolverReady reports whether gRPC has built the resolver.
func (c *client) resolverReady() (ready bool) {
	// The resolver panics before that.
	defer func() { ready = recover() == nil }()
	return c.resolver.CC() != nil
}

// A key without a name signs nothing: a configuration without probe.key does not mean it.
func TestKeyWithoutAName(t *testing.T) {
	key, err := probe.NewKey([]byte("sixteen bytes or"))
	if err != nil {
		t.Fatal(err)
	}
	RegisterKey("", key)
	t.Cleanup(func() { RegisterKey("", nil) })
	e := newTrial(t, `{"probe": {"transport": "http"}}`).engine
	if e.transport.(*httpTransport).client.Key != nil {
		t.Error("probes are signed")
	}
}

// A channel whose key is gone does not go on with probes that are not signed.
func TestKeyThatIsRemoved(t *testing.T) {
	key, err := probe.NewKey([]byte("a secret of at least thirty-two bytes"))
	if err != nil {
		t.Fatal(err)
	}
	RegisterKey("short-lived", key)
	parsed, err := parseConfig([]byte(`{"probe": {"transport": "udp", "key": "short-lived"}}`))
	RegisterKey("short-lived", nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEngine(parsed, newMetrics(newCounts(), ""), true)
	if err == nil {
		e.close()
		t.Error("an engine without its key")
	}
}
