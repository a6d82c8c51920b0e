package xdstest

import (
	"fmt"
	"slices"
	"testing"

	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// leadingTo is a cluster with its endpoints in a resource.
func leadingTo(resource string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 "web",
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads(), ServiceName: resource},
	}
}

// withEndpoints is a cluster with its endpoints inside.
func withEndpoints(places ...place) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 "web",
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment:       assignment("web", places),
	}
}

// broken is a cluster whose endpoints serve would have to look up.
func broken() *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 "web",
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS},
	}
}

// One life of a fleet by its cluster, in both variants of the protocol: what the control plane
// sends, what serve answers, and which fleet it has.
func TestServeFollowsCluster(t *testing.T) {
	for _, delta := range []bool{false, true} {
		t.Run(fmt.Sprintf("delta=%v", delta), func(t *testing.T) { runClusterLife(t, delta) })
	}
}

func runClusterLife(t *testing.T, delta bool) {
	const (
		clusters  = true
		endpoints = false
	)
	// An incremental ACK has neither a version nor names.
	answer := func(prefix, version, names string) string {
		if delta {
			return prefix
		}
		return fmt.Sprintf("%s%s %s", prefix, version, names)
	}
	ack := func(version string) string { return answer("cds ACK ", version, "web") }
	c := startControl(t, nil, "")
	one := []place{{port: 7001}, {port: 7002, weight: 3}}
	c.set(t, "1", map[string][]place{"one": one, "web": {{port: 1}}}, leadingTo("one"))
	p := startServe(t, "xds_cluster", "web", fmt.Sprintf("server = \"http://%s\"\ndelta = %v\nnode.id = %q\nnode.zone = \"a\"", c.address, delta, node))
	p.reaches(t, "", "7001 t0 w1", "7002 t0 w3")
	c.expects(t, clusters, "cds first web from client/a", ack("1"))
	// The node is in the first request of a stream alone.
	first := "first one"
	if !delta {
		first += " from client/a"
	}
	c.expects(t, endpoints, first, answer("ACK ", "1", "one"))

	// The cluster leads to other endpoints, and the ones before are let go.
	c.set(t, "2", map[string][]place{"one": one, "two": {{port: 7003}}}, leadingTo("two"))
	p.reaches(t, "", "7003 t0 w1")
	if delta {
		c.forget(t, endpoints, "not one")
	} else {
		c.forget(t, endpoints, "ACK 2 two")
	}

	// A broken cluster is rejected with its field. Its endpoints are followed further.
	const flaw = "type is STRICT_DNS, expected EDS or STATIC"
	c.set(t, "3", map[string][]place{"two": {{port: 7004}}}, broken())
	p.reaches(t, "cluster rejected: "+flaw, "7004 t0 w1")
	nack := "cds NACK web: " + flaw
	if !delta {
		nack += " web"
	}
	c.expects(t, clusters, nack)

	// A cluster that is gone leaves the fleet as it was, too.
	c.set(t, "4", map[string][]place{"two": {{port: 7004}}}, leadingTo("two"))
	p.reaches(t, "", "7004 t0 w1")
	c.forget(t, clusters, ack("4"))
	c.set(t, "5", map[string][]place{"two": {{port: 7004}}})
	p.reaches(t, "the control plane has removed the cluster", "7004 t0 w1")
	c.expects(t, clusters, ack("5"))

	// It comes back with its endpoints inside.
	c.set(t, "6", nil, withEndpoints(place{port: 7005, priority: 1}, place{port: 7006}))
	last := []string{"7005 t1 w1", "7006 t0 w1"}
	p.reaches(t, "", last...)
	c.forget(t, clusters, ack("6"))

	// A lost stream changes nothing, and the next one begins with what is known.
	c.drop()
	if delta {
		c.expects(t, clusters, "cds first web knows web from client/a")
	} else {
		c.expects(t, clusters, "cds first with 6 web from client/a", ack("6"))
	}
	if state, replicas := p.status(t); !slices.Equal(replicas, last) {
		t.Errorf("replicas %q, failure %s", replicas, text(state.Failure))
	}

	// A control plane that is away changes nothing; when it is back, it is followed.
	c.end()
	p.reaches(t, "the control plane cannot be reached", last...)
	c.set(t, "7", map[string][]place{"web": {{port: 7007}}}, leadingTo(""))
	c.start(t)
	p.reaches(t, "", "7007 t0 w1")
}

// What a cluster has that serve does not do is in the log, and nothing is rejected for it.
func TestServeRemarksOnCluster(t *testing.T) {
	c := startControl(t, nil, "")
	cluster := withEndpoints(place{port: 7001})
	cluster.LbPolicy = clusterv3.Cluster_RING_HASH
	cluster.LoadBalancingPolicy = &clusterv3.LoadBalancingPolicy{}
	cluster.LbSubsetConfig = &clusterv3.Cluster_LbSubsetConfig{}
	cluster.HealthChecks = []*corev3.HealthCheck{{}}
	cluster.OutlierDetection = &clusterv3.OutlierDetection{}
	cluster.CircuitBreakers = &clusterv3.CircuitBreakers{}
	//lint:ignore SA1019 control planes set it
	cluster.MaxRequestsPerConnection = wrapperspb.UInt32(7)
	cluster.TransportSocket = &corev3.TransportSocket{}
	cluster.TransportSocketMatches = []*clusterv3.Cluster_TransportSocketMatch{{}}
	cluster.TransportSocketMatcher = &matcherv3.Matcher{}
	//lint:ignore SA1019 control planes set it
	cluster.Http2ProtocolOptions = &corev3.Http2ProtocolOptions{}
	cluster.TypedExtensionProtocolOptions = map[string]*anypb.Any{"http": {}}
	cluster.UpstreamBindConfig = &corev3.BindConfig{}
	cluster.LrsServer = ads()
	c.set(t, "1", nil, cluster)
	p := startServe(t, "xds_cluster", "web", fmt.Sprintf("server = \"http://%s\"\nnode.id = %q", c.address, node))
	p.reaches(t, "", "7001 t0 w1")
	for _, field := range []string{
		"lb_policy RING_HASH", "lb_subset_config", "health_checks", "outlier_detection",
		"circuit_breakers", "max_requests_per_connection", "transport_socket", "transport_socket_matches",
		"transport_socket_matcher", "http2_protocol_options", "typed_extension_protocol_options",
		"upstream_bind_config", "lrs_server",
	} {
		p.Logs(t, " "+field+" is not supported and ignored")
	}
	p.Logs(t, `load_balancing_policy has no policy "slackwater" and is ignored`)
	c.expects(t, true, "cds first web from client/", "cds ACK 1 web")
}
