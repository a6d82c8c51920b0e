package load_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/slackwater/slackwater/go/grpc/load"
	"github.com/slackwater/slackwater/go/grpc/probepb"
)

// A server that counts its calls, reports its load, and drains before it stops.
func Example() {
	reporter := load.New(load.WithDrainDelay(10 * time.Millisecond))
	server := grpc.NewServer(reporter.ServerOptions()...)
	reporter.Register(server)
	healthpb.RegisterHealthServer(server, health.NewServer()) // in place of your own services

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()

	// This is what a client's probe gets.
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := probepb.NewLoadClient(conn).Probe(context.Background(), &probepb.ProbeRequest{})
	fmt.Println(report.GetRif(), report.GetDraining(), err)
	_ = conn.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(reporter.GracefulStop(ctx, server), <-served)
	// Output:
	// 0 false <nil>
	// <nil> <nil>
}

// Probes over UDP answer on a port of their own, and cost less than those by gRPC.
func ExampleReporter_ServeUDP() {
	reporter := load.New()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- reporter.ServeUDP(ctx, conn) }()

	stop()
	fmt.Println(<-served, conn.Close())
	// Output: context canceled <nil>
}
