package interop

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/testdata"

	"github.com/slackwater/slackwater/go/internal/await"
)

// caseMax bounds one interop case.
const caseMax = 30 * time.Second

// interopCase is one of gRPC's interop cases.
type interopCase struct {
	name string
	run  func(ctx context.Context, conn *grpc.ClientConn, client testgrpc.TestServiceClient)
}

// of makes a case of a function that needs only the client.
func of(name string, run func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)) interopCase {
	return interopCase{name, func(
		ctx context.Context, _ *grpc.ClientConn, client testgrpc.TestServiceClient,
	) {
		run(ctx, client)
	}}
}

// interopCases are all cases that the test service supports as it is. The others need cloud
// credentials, or a policy of their own: pick_first_unary expects one server for all calls, and the
// ORCA cases read reports in a balancer of the test.
var interopCases = []interopCase{
	of("empty_unary", interop.DoEmptyUnaryCall),
	of("large_unary", interop.DoLargeUnaryCall),
	of("client_streaming", interop.DoClientStreaming),
	of("server_streaming", interop.DoServerStreaming),
	of("ping_pong", interop.DoPingPong),
	of("empty_stream", interop.DoEmptyStream),
	of("timeout_on_sleeping_server", interop.DoTimeoutOnSleepingServer),
	of("cancel_after_begin", interop.DoCancelAfterBegin),
	of("cancel_after_first_response", interop.DoCancelAfterFirstResponse),
	of("status_code_and_message", interop.DoStatusCodeAndMessage),
	of("special_status_message", interop.DoSpecialStatusMessage),
	of("custom_metadata", interop.DoCustomMetadata),
	{"unimplemented_method", func(
		ctx context.Context, conn *grpc.ClientConn, _ testgrpc.TestServiceClient,
	) {
		interop.DoUnimplementedMethod(ctx, conn)
	}},
	{"unimplemented_service", func(
		ctx context.Context, conn *grpc.ClientConn, _ testgrpc.TestServiceClient,
	) {
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(conn))
	}},
	{"rpc_soak", func(ctx context.Context, conn *grpc.ClientConn, _ testgrpc.TestServiceClient) {
		interop.DoSoakTest(ctx, interop.SoakTestConfig{
			RequestSize:                      271828,
			ResponseSize:                     314159,
			PerIterationMaxAcceptableLatency: 5 * time.Second,
			OverallTimeout:                   caseMax,
			ServerAddr:                       conn.Target(),
			NumWorkers:                       2,
			Iterations:                       20,
			ChannelForTest:                   func() (*grpc.ClientConn, func()) { return conn, func() {} },
		})
	}},
}

// rounds is how often each case runs, so that it meets more than one server.
const rounds = 3

// TestInteropCases runs gRPC's interop cases over three servers through the policy.
func TestInteropCases(t *testing.T) {
	serverTLS, err := credentials.NewServerTLSFromFile(testdata.Path("server1.pem"), testdata.Path("server1.key"))
	if err != nil {
		t.Fatal(err)
	}
	clientTLS, err := credentials.NewClientTLSFromFile(testdata.Path("ca.pem"), "foo.test.google.fr")
	if err != nil {
		t.Fatal(err)
	}
	for _, setup := range []struct {
		name, transport string
		server, client  credentials.TransportCredentials
	}{
		{name: "probes by gRPC", transport: "grpc"},
		{name: "probes by gRPC over TLS", transport: "grpc", server: serverTLS, client: clientTLS},
		{name: "probes by UDP", transport: "udp"},
	} {
		t.Run(setup.name, func(t *testing.T) {
			var replicas []*replica
			var addresses []string
			for range 3 {
				r := startReplica(t, replicaOptions{tls: setup.server})
				replicas, addresses = append(replicas, r), append(addresses, r.address)
			}
			conn := dial(t, setup.transport, setup.client, addresses...)
			client := testgrpc.NewTestServiceClient(conn)
			available(t, client, len(replicas))
			for _, c := range interopCases {
				t.Run(c.name, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), caseMax)
					defer cancel()
					for range rounds {
						runCase(t, func() { c.run(ctx, conn, client) })
					}
				})
			}
			checkAfterCases(t, replicas)
		})
	}
}

// checkAfterCases checks that nothing of the cases is left in the counts on either side, whatever
// their ends.
func checkAfterCases(t *testing.T, replicas []*replica) {
	snapshot := snapshotOf(t)
	if snapshot.Probes.Answered == 0 {
		t.Errorf("no probe was answered: %+v", snapshot.Probes)
	}
	await.Until(t, "the channel has no call in flight", func() bool {
		for _, endpoint := range snapshotOf(t).Endpoints {
			if endpoint.InFlight > 0 {
				return false
			}
		}
		return true
	})
	for _, r := range replicas {
		await.Until(t, r.address+" has no call in flight", func() bool { return r.reporter.Load().RIF() == 0 })
		counts := r.reporter.Load().Counts()
		if counts.Succeeded == 0 {
			t.Errorf("%s has answered no call: %+v", r.address, counts)
		}
		t.Logf("%s: %+v", r.address, counts)
	}
	t.Logf("probes: %+v, picks: %v", snapshot.Probes, snapshot.Picks)
}
