package xdstest

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	localityv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/wrr_locality/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	controlplane "github.com/envoyproxy/go-control-plane/pkg/server/v3"

	xdstype "github.com/cncf/xds/go/xds/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	slackwatergrpc "github.com/slackwater/slackwater/go/grpc"
	"github.com/slackwater/slackwater/go/grpc/load"
	"github.com/slackwater/slackwater/go/internal/await"
	replica "github.com/slackwater/slackwater/go/load"
)

const (
	node = "client"
	name = "svc"
)

// TestMain fails if a goroutine is left after all tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := len(slackwatergrpc.Channels()); left > 0 {
			fmt.Fprintf(os.Stderr, "%d balancers left after the tests\n", left)
			code = 1
		}
		if left := await.GoroutinesLeft(); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines left after the tests:\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

// plane is a control plane of go-control-plane.
type plane struct {
	cache   cache.SnapshotCache
	address string
	version int
	cluster *clusterv3.Cluster
}

func startPlane(t *testing.T, cluster *clusterv3.Cluster) *plane {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &plane{cache: cache.NewSnapshotCache(true, cache.IDHash{}, nil), cluster: cluster}
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, controlplane.NewServer(ctx, p.cache, nil))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address = listener.Addr().String()
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		cancel()
		<-done
	})
	return p
}

func (p *plane) bootstrap() []byte {
	return fmt.Appendf(nil, `{
		"xds_servers": [{"server_uri": %q, "channel_creds": [{"type": "insecure"}],
			"server_features": ["xds_v3"]}],
		"node": {"id": %q}
	}`, p.address, node)
}

// set publishes the servers as the cluster's endpoints.
func (p *plane) set(t *testing.T, servers ...*server) {
	t.Helper()
	p.version++
	var endpoints []*endpointv3.LbEndpoint
	for _, s := range servers {
		endpoints = append(endpoints, &endpointv3.LbEndpoint{
			HealthStatus: corev3.HealthStatus_HEALTHY,
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
				Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
					SocketAddress: &corev3.SocketAddress{
						Address:       "127.0.0.1",
						PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(s.port)},
					},
				}},
			}},
		})
	}
	assignment := &endpointv3.ClusterLoadAssignment{
		ClusterName: name,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{
			Locality:            &corev3.Locality{Region: "region", Zone: "zone"},
			LbEndpoints:         endpoints,
			LoadBalancingWeight: wrapperspb.UInt32(1),
		}},
	}
	manager := &hcmv3.HttpConnectionManager{
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			RouteConfigName: name, ConfigSource: ads(),
		}},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name:       "router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(t, &routerv3.Router{})},
		}},
	}
	snapshot, err := cache.NewSnapshot(fmt.Sprint(p.version), map[resource.Type][]types.Resource{
		resource.ListenerType: {&listenerv3.Listener{
			Name: name, ApiListener: &listenerv3.ApiListener{ApiListener: packed(t, manager)},
		}},
		resource.RouteType: {&routev3.RouteConfiguration{
			Name: name,
			VirtualHosts: []*routev3.VirtualHost{{
				Name: name, Domains: []string{"*"},
				Routes: []*routev3.Route{{
					Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: ""}},
					Action: &routev3.Route_Route{Route: &routev3.RouteAction{
						ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: name},
					}},
				}},
			}},
		}},
		resource.ClusterType:  {p.cluster},
		resource.EndpointType: {assignment},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cache.SetSnapshot(t.Context(), node, snapshot); err != nil {
		t.Fatal(err)
	}
}

func ads() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}

func packed(t *testing.T, message proto.Message) *anypb.Any {
	t.Helper()
	packed, err := anypb.New(message)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// typedStruct is the configuration of a policy that gRPC has no message for.
func typedStruct(t *testing.T, policy string, config map[string]any) *clusterv3.LoadBalancingPolicy_Policy {
	t.Helper()
	fields, err := structpb.NewStruct(config)
	if err != nil {
		t.Fatal(err)
	}
	return extension(t, policy, &xdstype.TypedStruct{
		TypeUrl: "type.googleapis.com/" + policy, Value: fields,
	})
}

func extension(t *testing.T, name string, config proto.Message) *clusterv3.LoadBalancingPolicy_Policy {
	t.Helper()
	return &clusterv3.LoadBalancingPolicy_Policy{TypedExtensionConfig: &corev3.TypedExtensionConfig{
		Name: name, TypedConfig: packed(t, config),
	}}
}

func clusterWith(policies ...*clusterv3.LoadBalancingPolicy_Policy) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads(), ServiceName: name},
		LoadBalancingPolicy:  &clusterv3.LoadBalancingPolicy{Policies: policies},
	}
}

// server reports its load by package load.
type server struct {
	grpc_testing.UnimplementedTestServiceServer
	reporter *load.Reporter
	grpc     *grpc.Server
	port     int
	latency  time.Duration
	// fails says that calls fail. Set it before the first call.
	fails bool
	calls atomic.Int64
}

func serve(t *testing.T, latency time.Duration) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// Several servers in one process, which sleep, cannot learn the CPU time of their own calls.
	reporter := load.New(load.WithLoad(replica.New(replica.Options{NoCapacity: true})))
	s := &server{reporter: reporter, latency: latency, port: listener.Addr().(*net.TCPAddr).Port}
	s.grpc = grpc.NewServer(s.reporter.ServerOptions()...)
	s.reporter.Register(s.grpc)
	grpc_testing.RegisterTestServiceServer(s.grpc, s)
	done := make(chan error, 1)
	go func() { done <- s.grpc.Serve(listener) }()
	t.Cleanup(func() {
		s.grpc.Stop()
		<-done
	})
	return s
}

func (s *server) UnaryCall(ctx context.Context, _ *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	s.calls.Add(1)
	if s.fails {
		return nil, status.Error(codes.Internal, "broken")
	}
	select {
	case <-time.After(s.latency):
		return &grpc_testing.SimpleResponse{}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// An endpoint is replaced, a server is killed, an endpoint is replaced, all under load. Only calls
// that are in flight at the killed server fail.
func TestEndpointsComeAndGoUnderLoad(t *testing.T) {
	config := map[string]any{
		"policy":  "shortest_expected_delay",
		"probe":   map[string]any{"transport": "grpc"},
		"prequal": map[string]any{"probeRate": 3, "probeDeadline": "0.050s"},
		"explain": 16,
	}
	unknown := typedStruct(t, "policy.that.grpc.does.not.know", nil)
	slackwater := typedStruct(t, slackwatergrpc.Name, config)
	inLocality := extension(t, "wrr_locality", &localityv3.WrrLocality{
		EndpointPickingPolicy: &clusterv3.LoadBalancingPolicy{
			Policies: []*clusterv3.LoadBalancingPolicy_Policy{unknown, slackwater},
		},
	})
	for _, test := range []struct {
		name     string
		cluster  *clusterv3.Cluster
		locality bool
	}{
		{"for each locality", clusterWith(inLocality), true},
		{"for the whole cluster", clusterWith(unknown, slackwater), false},
	} {
		t.Run(test.name, func(t *testing.T) { runUnderLoad(t, test.cluster, test.locality) })
	}
}

func runUnderLoad(t *testing.T, cluster *clusterv3.Cluster, locality bool) {
	const (
		workers = 16
		calls   = 10_000
	)
	servers := make([]*server, 5)
	for i := range servers {
		servers[i] = serve(t, 2*time.Millisecond)
	}
	killed := servers[0]
	p := startPlane(t, cluster)
	p.set(t, servers[0], servers[1], servers[2])

	client := dial(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 2*await.Patience)
	defer cancel()
	call := func() error {
		_, err := client.UnaryCall(ctx, &grpc_testing.SimpleRequest{})
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	channel := onlyChannel(t)
	if got := channel.Locality() != ""; got != locality {
		t.Errorf("locality %q", channel.Locality())
	}
	await.Until(t, "3 endpoints", func() bool { return len(channel.Snapshot().Endpoints) == 3 })

	var killing atomic.Bool
	steps := map[int64]func(){
		calls * 1 / 4: func() { p.set(t, servers[0], servers[1], servers[3]) },
		calls * 2 / 4: func() {
			killing.Store(true)
			killed.grpc.Stop()
		},
		calls * 3 / 4: func() { p.set(t, servers[0], servers[4], servers[3]) },
	}
	var (
		next     atomic.Int64
		failures [workers]int
		all      sync.WaitGroup
	)
	for worker := range workers {
		all.Go(func() {
			for {
				number := next.Add(1)
				// The last server needs time to get a call, on a busy machine.
				if number > calls && (servers[4].calls.Load() > 0 || ctx.Err() != nil) {
					return
				}
				if step := steps[number]; step != nil {
					step()
				}
				err := call()
				if err == nil {
					continue
				}
				failures[worker]++
				if status.Code(err) != codes.Unavailable || !killing.Load() {
					t.Errorf("call %d: %v", number, err)
				}
			}
		})
	}
	all.Wait()
	failed := 0
	for worker, count := range failures {
		failed += count
		// A worker has one call in flight at a time, and one server was killed.
		if count > 1 {
			t.Errorf("%d calls of worker %d failed", count, worker)
		}
	}
	t.Logf("%d of %d calls failed", failed, next.Load()-workers)
	for i, s := range servers {
		t.Logf("server %d: %d calls", i, s.calls.Load())
		if s.calls.Load() == 0 {
			t.Errorf("server %d got no call", i)
		}
	}
	await.Until(t, "nothing is in flight", func() bool {
		for _, endpoint := range channel.Snapshot().Endpoints {
			if endpoint.InFlight != 0 {
				return false
			}
		}
		for _, s := range servers {
			if s.reporter.Load().RIF() != 0 {
				return false
			}
		}
		return true
	})
	await.Until(t, "2 endpoints", func() bool { return len(channel.Snapshot().Endpoints) == 2 })
	// The configuration has come through all layers of xDS.
	if got := len(channel.Picks()); got != 16 {
		t.Errorf("%d picks kept, want 16", got)
	}
	snapshot := channel.Snapshot()
	if snapshot.Policy != "shortest_expected_delay" || snapshot.Probes.Answered == 0 {
		t.Errorf("snapshot %v", snapshot)
	}
	t.Logf("probes %+v, picks %v", snapshot.Probes, snapshot.Picks)
}

// A slow server gets few calls: the policy of the TypedStruct is in use, and not gRPC's default.
func TestSlowServerGetsFewCalls(t *testing.T) {
	p := startPlane(t, clusterWith(typedStruct(t, slackwatergrpc.Name, map[string]any{})))
	fast, slow := serve(t, 2*time.Millisecond), serve(t, 200*time.Millisecond)
	p.set(t, fast, slow)
	client := dial(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				if _, err := client.UnaryCall(ctx, &grpc_testing.SimpleRequest{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("fast %d, slow %d", fast.calls.Load(), slow.calls.Load())
	if slow.calls.Load() > 80 {
		t.Errorf("the slow server got %d of 800 calls", slow.calls.Load())
	}
}

// gRPC's outlier detection works above the policy, and ejects a server that fails.
func TestOutlierDetection(t *testing.T) {
	cluster := clusterWith(typedStruct(t, slackwatergrpc.Name, map[string]any{"health": "off"}))
	cluster.OutlierDetection = &clusterv3.OutlierDetection{
		Interval:                       durationpb.New(100 * time.Millisecond),
		BaseEjectionTime:               durationpb.New(time.Hour),
		MaxEjectionPercent:             wrapperspb.UInt32(50),
		FailurePercentageThreshold:     wrapperspb.UInt32(50),
		EnforcingFailurePercentage:     wrapperspb.UInt32(100),
		FailurePercentageMinimumHosts:  wrapperspb.UInt32(1),
		FailurePercentageRequestVolume: wrapperspb.UInt32(1),
		EnforcingSuccessRate:           wrapperspb.UInt32(0),
	}
	p := startPlane(t, cluster)
	good, bad := serve(t, 2*time.Millisecond), serve(t, 2*time.Millisecond)
	bad.fails = true
	p.set(t, good, bad)
	client := dial(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	_, _ = client.UnaryCall(ctx, &grpc_testing.SimpleRequest{})
	channel := onlyChannel(t)
	await.Until(t, "2 endpoints", func() bool { return len(channel.Snapshot().Endpoints) == 2 })
	await.Until(t, "one is ejected", func() bool {
		_, _ = client.UnaryCall(ctx, &grpc_testing.SimpleRequest{})
		return len(channel.Snapshot().Endpoints) == 1
	})
	for range 100 {
		if _, err := client.UnaryCall(ctx, &grpc_testing.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
	}
}

func dial(t *testing.T, p *plane) grpc_testing.TestServiceClient {
	t.Helper()
	resolver, err := xds.NewXDSResolverWithConfigForTesting(p.bootstrap())
	if err != nil {
		t.Fatal(err)
	}
	cc, err := grpc.NewClient("xds:///"+name, append(slackwatergrpc.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithResolvers(resolver))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return grpc_testing.NewTestServiceClient(cc)
}

func onlyChannel(t *testing.T) *slackwatergrpc.Channel {
	t.Helper()
	channels := slackwatergrpc.Channels()
	if len(channels) != 1 {
		t.Fatalf("%d balancers", len(channels))
	}
	return channels[0]
}
