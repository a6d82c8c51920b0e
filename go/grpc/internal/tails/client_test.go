package main

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A latency is from the time when its own call was due, so it is at least what a call takes.
func TestLatencyIsFromWhenTheCallWasDue(t *testing.T) {
	const takes = 5 * time.Millisecond
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "slackwater.tails.v1.Work",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Do", Handler: func(
			_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
		) (any, error) {
			in := new(wrapperspb.BytesValue)
			time.Sleep(takes)
			return in, decode(in)
		}}},
	}, struct{}{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	servers := []string{listener.Addr().String()}
	c := &caller{conn: conn, order: order{Servers: servers}, shares: make([]int, 1)}
	c.atTimes(order{Plan: plan{Rate: 300, Length: 300 * time.Millisecond, Seed: 1}})
	if len(c.latencies) < 50 || c.errors > 0 {
		t.Fatalf("%d calls and %d errors", len(c.latencies), c.errors)
	}
	for _, latency := range c.latencies {
		if latency < takes {
			t.Fatalf("a call took %s, less than %s", latency, takes)
		}
	}
}
