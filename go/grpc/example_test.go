package slackwatergrpc_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	slackwatergrpc "github.com/slackwater/slackwater/go/grpc"
	"github.com/slackwater/slackwater/go/grpc/load"
)

// A channel that balances over all addresses of a name, and a server that reports its load.
func Example() {
	// The server: two more lines than without.
	reporter := load.New()
	server := grpc.NewServer(reporter.ServerOptions()...)
	reporter.Register(server)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(listener)
	defer server.Stop()

	// The client: a service config with the policy's name.
	cc, err := grpc.NewClient("dns:///"+listener.Addr().String(), append(
		slackwatergrpc.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"slackwater": {}}]}`),
	)...)
	if err != nil {
		log.Fatal(err)
	}
	defer cc.Close()
	reply, err := grpc_health_v1.NewHealthClient(cc).Check(
		context.Background(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.GetStatus())
	// Output: SERVING
}

// Calls of one user go to the same server while it is not busy, and find its cache warm. The user
// is in the metadata of the call.
func Example_key() {
	var state resolver.State
	for range 3 {
		server := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(server, health.NewServer())
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			log.Fatal(err)
		}
		go server.Serve(listener)
		defer server.Stop()
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{
			Addresses: []resolver.Address{{Addr: listener.Addr().String()}},
		})
	}
	servers := manual.NewBuilderWithScheme("servers")
	servers.InitialState(state)
	cc, err := grpc.NewClient("servers:///search", append(
		slackwatergrpc.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithResolvers(servers),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"slackwater": {
			"key": {"metadata": "x-user", "balanceFactor": 1.25, "set": 4}
		}}]}`),
	)...)
	if err != nil {
		log.Fatal(err)
	}
	defer cc.Close()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "x-user", "mary")
	reply, err := grpc_health_v1.NewHealthClient(cc).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.GetStatus())
	// Output: SERVING
}

// What the latest picks of a target were made from. The configuration has to keep them.
func ExampleExplain() {
	cc, closeBoth := callOnce(`{"explain": 64}`)
	defer closeBoth()
	for _, pick := range slackwatergrpc.Explain(cc.CanonicalTarget()) {
		fmt.Println(pick.Method, "had", pick.Considered, "endpoint to choose from")
	}
	// Output: /grpc.health.v1.Health/Check had 1 endpoint to choose from
}

// The state of all channels. Printed as a whole, a snapshot is JSON.
func ExampleChannels() {
	cc, closeBoth := callOnce(`{"policy": "least_loaded"}`)
	defer closeBoth()
	for _, channel := range slackwatergrpc.Channels() {
		if channel.Target() == cc.CanonicalTarget() {
			snapshot := channel.Snapshot()
			fmt.Println(snapshot.Policy, "chooses from", len(snapshot.Endpoints))
		}
	}
	// Output: least_loaded chooses from 1
}

// A call of Check that is late goes to a second server as well, and the first answer is used.
func ExampleHedger() {
	hedger, err := slackwatergrpc.NewHedger(slackwatergrpc.HedgeOptions{
		Methods: []string{grpc_health_v1.Health_Check_FullMethodName},
		Budget:  0.02,
	})
	if err != nil {
		log.Fatal(err)
	}
	_, closeBoth := callOnce(`{}`, grpc.WithChainUnaryInterceptor(hedger.Intercept))
	defer closeBoth()
	// The delay is learned from the first 64 calls.
	counts := hedger.Counts()
	fmt.Println(counts.Calls, counts.Sent)
	// Output: 1 0
}

// callOnce makes a call to a server, by this configuration.
func callOnce(config string, options ...grpc.DialOption) (cc *grpc.ClientConn, closeBoth func()) {
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(listener)
	cc, err = grpc.NewClient(listener.Addr().String(), append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"slackwater": `+config+`}]}`),
	)...)
	if err != nil {
		log.Fatal(err)
	}
	check := &grpc_health_v1.HealthCheckRequest{}
	if _, err := grpc_health_v1.NewHealthClient(cc).Check(context.Background(), check); err != nil {
		log.Fatal(err)
	}
	return cc, func() { _ = cc.Close(); server.Stop() }
}
