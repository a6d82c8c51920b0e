package xdstest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	controlplane "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slackwater/slackwater/go/internal/await"
)

// control is a control plane of endpoints and clusters, which records the requests of its clients,
// and misbehaves when it is told to.
type control struct {
	cache cache.SnapshotCache
	// address is held until the end of the test, also while the plane is away.
	address string
	// tls is nil for a plane without TLS.
	tls *tls.Config
	// token, if there is one, is what the field authorization must be.
	token string
	end   func()

	mutex    sync.Mutex
	requests []string
	// dropped is closed to end all streams.
	dropped chan struct{}
	// nonce, if there is one, is that of the next response in place of its own.
	nonce string
}

func startControl(t *testing.T, secured *tls.Config, token string) *control {
	t.Helper()
	c := &control{
		cache:   cache.NewSnapshotCache(false, cache.IDHash{}, nil),
		address: holdPort(t),
		tls:     secured,
		token:   token,
		dropped: make(chan struct{}),
	}
	c.start(t)
	t.Cleanup(func() { c.end() })
	return c
}

// holdPort binds a port of loopback until the end of the test without listening at it, so that a
// plane can leave and come back, and no other process gets the port meanwhile.
func holdPort(t *testing.T) string {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(socket) })
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", bound.(*unix.SockaddrInet4).Port)
}

// sharing lets a listener have the port that holdPort holds.
var sharing = net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
	var failed error
	err := socket.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, failed)
}}

// start listens, at the same address as before.
func (c *control) start(t *testing.T) {
	t.Helper()
	options := []grpc.ServerOption{grpc.StreamInterceptor(c.intercept)}
	if c.tls != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(c.tls)))
	}
	listener, err := sharing.Listen(t.Context(), "tcp", c.address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := grpc.NewServer(options...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, controlplane.NewServer(ctx, c.cache, c.callbacks()))
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	c.end = sync.OnceFunc(func() {
		server.Stop()
		cancel()
		<-done
	})
}

// drop ends all streams.
func (c *control) drop() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	close(c.dropped)
	c.dropped = make(chan struct{})
}

// answerWith sets the nonce of the next response.
func (c *control) answerWith(nonce string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.nonce = nonce
}

func (c *control) intercept(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if c.token != "" {
		fields, _ := metadata.FromIncomingContext(stream.Context())
		if !slices.Equal(fields.Get("authorization"), []string{c.token}) {
			return status.Error(codes.Unauthenticated, "no token")
		}
	}
	c.mutex.Lock()
	dropped := c.dropped
	c.mutex.Unlock()
	done := make(chan error, 1)
	go func() { done <- handle(server, &altered{stream, c}) }()
	select {
	case err := <-done:
		return err
	case <-dropped:
		return status.Error(codes.Unavailable, "dropped")
	}
}

// altered is a stream whose responses may have another nonce.
type altered struct {
	grpc.ServerStream
	control *control
}

func (a *altered) SendMsg(message any) error {
	a.control.mutex.Lock()
	nonce := a.control.nonce
	a.control.nonce = ""
	a.control.mutex.Unlock()
	if nonce != "" {
		switch response := message.(type) {
		case *discoveryv3.DiscoveryResponse:
			response.Nonce = nonce
		case *discoveryv3.DeltaDiscoveryResponse:
			response.Nonce = nonce
		}
	}
	return a.ServerStream.SendMsg(message)
}

func (c *control) record(parts ...string) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	c.requests = append(c.requests, strings.Join(parts, " "))
	return nil
}

// expects waits until the requests about clusters, or those about endpoints, since the last call
// are as expected. Equal ones in a row count once: a rejected response is sent again.
func (c *control) expects(t *testing.T, aboutClusters bool, want ...string) {
	t.Helper()
	var found []string
	defer func() {
		if t.Failed() {
			t.Logf("requests %q", found)
		}
	}()
	await.Until(t, fmt.Sprintf("the requests %q", want), func() bool {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		found = nil
		var others []string
		for _, request := range c.requests {
			if strings.HasPrefix(request, "cds ") == aboutClusters {
				found = append(found, request)
			} else {
				others = append(others, request)
			}
		}
		if !slices.Equal(slices.Compact(slices.Clone(found)), want) {
			return false
		}
		c.requests = others
		return true
	})
}

// forget drops the requests so far once the last one about clusters, or about endpoints, is as
// expected.
func (c *control) forget(t *testing.T, aboutClusters bool, last string) {
	t.Helper()
	await.Until(t, fmt.Sprintf("the request %q", last), func() bool {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		for _, request := range slices.Backward(c.requests) {
			if strings.HasPrefix(request, "cds ") == aboutClusters {
				if request != last {
					return false
				}
				c.requests = nil
				return true
			}
		}
		return false
	})
}

// taken returns the requests since it was last called, once the last of them is as expected.
func (c *control) taken(t *testing.T, last string) []string {
	t.Helper()
	var taken []string
	await.Until(t, fmt.Sprintf("the request %q", last), func() bool {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		taken = slices.Clone(c.requests)
		if len(taken) == 0 || !strings.Contains(taken[len(taken)-1], last) {
			return false
		}
		c.requests = nil
		return true
	})
	return taken
}

func (c *control) callbacks() controlplane.CallbackFuncs {
	answer := func(version, nonce, problem string) string {
		switch {
		case nonce == "" && version == "":
			return "first"
		case nonce == "":
			return "first with " + version
		case problem != "":
			return "NACK " + problem
		default:
			return "ACK " + version
		}
	}
	// go-control-plane adds the node of the first request to the others of the state of the world.
	from := func(node *corev3.Node, nonce string) string {
		if nonce != "" || node == nil {
			return ""
		}
		return "from " + node.GetId() + "/" + node.GetLocality().GetZone()
	}
	// Requests about clusters are told from those about endpoints.
	kind := func(typeURL string) string {
		if typeURL == resource.ClusterType {
			return "cds"
		}
		return ""
	}
	return controlplane.CallbackFuncs{
		StreamRequestFunc: func(_ int64, r *discoveryv3.DiscoveryRequest) error {
			return c.record(kind(r.TypeUrl), answer(r.VersionInfo, r.ResponseNonce, r.GetErrorDetail().GetMessage()),
				strings.Join(r.ResourceNames, ","), from(r.GetNode(), r.ResponseNonce))
		},
		StreamDeltaRequestFunc: func(_ int64, r *discoveryv3.DeltaDiscoveryRequest) error {
			known := ""
			for name := range r.InitialResourceVersions {
				known += "knows " + name
			}
			if unsubscribed := r.ResourceNamesUnsubscribe; len(unsubscribed) > 0 {
				return c.record(kind(r.TypeUrl), "not", strings.Join(unsubscribed, ","))
			}
			return c.record(kind(r.TypeUrl), answer("", r.ResponseNonce, r.GetErrorDetail().GetMessage()),
				strings.Join(r.ResourceNamesSubscribe, ","), known, from(r.GetNode(), r.ResponseNonce))
		},
	}
}

// place is an endpoint of a resource.
type place struct {
	port     int
	weight   uint32
	priority uint32
	health   corev3.HealthStatus
	probes   float64
}

// set publishes resources for the client, and clusters.
func (c *control) set(t *testing.T, version string, resources map[string][]place, clusters ...*clusterv3.Cluster) {
	t.Helper()
	var endpoints, all []types.Resource
	for name, places := range resources {
		endpoints = append(endpoints, assignment(name, places))
	}
	for _, cluster := range clusters {
		all = append(all, cluster)
	}
	snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{
		resource.EndpointType: endpoints, resource.ClusterType: all,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cache.SetSnapshot(t.Context(), node, snapshot); err != nil {
		t.Fatal(err)
	}
}

func assignment(name string, places []place) *endpointv3.ClusterLoadAssignment {
	message := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	for _, p := range places {
		endpoint := &endpointv3.LbEndpoint{
			HealthStatus: p.health,
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
				Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
					SocketAddress: &corev3.SocketAddress{
						Address:       "127.0.0.1",
						PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(p.port)},
					},
				}},
			}},
		}
		if p.weight > 0 {
			endpoint.LoadBalancingWeight = wrapperspb.UInt32(p.weight)
		}
		if p.probes > 0 {
			endpoint.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
				"slackwater": {Fields: map[string]*structpb.Value{"probe_port": structpb.NewNumberValue(p.probes)}},
			}}
		}
		message.Endpoints = append(message.Endpoints, &endpointv3.LocalityLbEndpoints{
			Locality:    &corev3.Locality{Zone: fmt.Sprint(p.port)},
			LbEndpoints: []*endpointv3.LbEndpoint{endpoint},
			Priority:    p.priority,
		})
	}
	return message
}
