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

// What the latest picks of a target were made from. The configuration has to keep them.
func ExampleExplain() {
	for _, pick := range slackwatergrpc.Explain("dns:///search.example:50051") {
		fmt.Println(pick)
	}
	// Output:
}

// The state of all channels, as JSON.
func ExampleChannels() {
	for _, channel := range slackwatergrpc.Channels() {
		fmt.Println(channel.Snapshot())
	}
	// Output:
}
