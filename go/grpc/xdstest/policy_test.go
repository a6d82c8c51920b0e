package xdstest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	localityv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/wrr_locality/v3"
	"google.golang.org/grpc/interop/grpc_testing"

	slackwatergrpc "github.com/slackwater/slackwater/go/grpc"
	"github.com/slackwater/slackwater/go/internal/await"
)

// allFields is a configuration with every field that both gRPC-Go and serve know.
var allFields = map[string]any{
	"policy": "least_loaded",
	"probe":  map[string]any{"transport": "grpc", "path": "/load"},
	"prequal": map[string]any{
		"probeRate": 3, "probeRateMin": 0.5, "removeRate": 1.5, "poolCapacity": 20, "reportAgeMax": "1.5s",
		"rifLimitQuantile": 0.8, "poolDrift": 1, "reuseMax": 2, "probeIdleMax": "0.050s", "idleProbes": 1,
		"probeIntervalMin": "0s", "probeDeadline": "40ms", "probesOutstandingMax": 32, "probesPerSecondMax": 100,
		"syncProbes": 4, "syncDeadline": "3ms", "localOnly": false,
	},
	"shortestExpectedDelay": map[string]any{"probeRate": 1, "latencyBand": 0.5, "costBand": 0},
	"key": map[string]any{
		"metadata": "x-user", "balanceFactor": 1.25, "set": 3, "partitions": 16, "replicateMax": 2,
		"replicateAbove": 0.25, "replicateTime": "5s",
	},
	"health":  "standard",
	"explain": 16,
}

// policy returns the policy of serve's only service.
func (p *proxy) policy(t *testing.T) string {
	t.Helper()
	var status struct {
		Services []struct {
			Policy string `json:"policy"`
		} `json:"services"`
	}
	readJSON(t, p.admin, "/status", &status)
	if len(status.Services) == 0 {
		return ""
	}
	return status.Services[0].Policy
}

// chosen returns the keys that the cluster sets.
func (p *proxy) chosen(t *testing.T) map[string]string {
	t.Helper()
	var overrides struct {
		ControlPlane []struct {
			Key   string `json:"key"`
			Value string `json:"value"`
		} `json:"control_plane"`
	}
	readJSON(t, p.admin, "/overrides", &overrides)
	keys := map[string]string{}
	for _, it := range overrides.ControlPlane {
		keys[it.Key] = it.Value
	}
	return keys
}

// One cluster chooses the policy of gRPC-Go and of serve, and a wrong value is rejected by both.
func TestServeAndGRPCHaveThePolicyOfTheCluster(t *testing.T) {
	unknown := typedStruct(t, "policy.that.grpc.does.not.know", nil)
	withPolicy := func(config map[string]any) *clusterv3.Cluster {
		return clusterWith(unknown, typedStruct(t, slackwatergrpc.Name, config))
	}
	p := startPlane(t, clusterWith(extension(t, "wrr_locality", &localityv3.WrrLocality{
		EndpointPickingPolicy: &clusterv3.LoadBalancingPolicy{
			Policies: []*clusterv3.LoadBalancingPolicy_Policy{
				unknown, typedStruct(t, slackwatergrpc.Name, allFields),
			},
		},
	})))
	replica := serve(t, time.Millisecond)
	p.set(t, replica)
	file := filepath.Join(t.TempDir(), "bootstrap.json")
	if err := os.WriteFile(file, p.bootstrap(), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := startServe(t, "xds_cluster", name, fmt.Sprintf("bootstrap = %q", file))
	client := dial(t, p)
	has := func(policy string) {
		t.Helper()
		await.Until(t, "serve has the policy "+policy, func() bool { return proxy.policy(t) == policy })
		await.Until(t, "gRPC has the policy "+policy, func() bool {
			if _, err := client.UnaryCall(t.Context(), &grpc_testing.SimpleRequest{}); err != nil {
				t.Fatal(err)
			}
			return onlyChannel(t).Snapshot().Policy == policy
		})
	}
	has("least_loaded")
	chosen := proxy.chosen(t)
	for key, value := range map[string]string{
		"policy": `"least_loaded"`, "prequal.probe_rate": "3", "prequal.probe_deadline": `"40ms"`,
		"shortest_expected_delay.latency_band": "0.5", "key.by": `["grpc:x-user"]`, "key.balance_factor": "1.25",
		"error_aversion.enabled": "true",
	} {
		if chosen[key] != value {
			t.Errorf("%s is %s, want %s", key, chosen[key], value)
		}
	}
	// The fields of allFields, without probe and explain, and with key.by for key.metadata.
	if got, want := len(chosen), 1+17+3+7+1; got != want {
		t.Errorf("%d keys, want %d: %q", got, want, chosen)
	}

	p.cluster = withPolicy(map[string]any{"policy": "prequal"})
	p.set(t, replica)
	has("prequal")

	p.cluster = withPolicy(map[string]any{"prequal": map[string]any{"poolCapacity": 1}})
	p.set(t, replica)
	await.Until(t, "serve rejects the cluster", func() bool {
		state, _ := proxy.status(t)
		return strings.Contains(text(state.XDS.Rejection), name+": load_balancing_policy.policies[1]."+
			"typed_extension_config.typed_config.value.prequal.poolCapacity found 1")
	})
	has("prequal")

	// Without a policy that is known to it, serve has its own. gRPC would have none.
	p.cluster = clusterWith(unknown)
	p.set(t, replica)
	await.Until(t, "serve has its own policy", func() bool {
		return proxy.policy(t) == "shortest_expected_delay" && len(proxy.chosen(t)) == 0
	})
}
