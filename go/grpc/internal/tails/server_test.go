package main

import (
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/orca"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Without a report in the trailers, weighted_round_robin has no weights, and is round_robin.
func TestCallsCarryWhatWeightsNeed(t *testing.T) {
	metrics := orca.NewServerMetricsRecorder()
	metrics.SetQPS(100)
	metrics.SetApplicationUtilization(0.5)
	w := &worker{kind: instant, metrics: metrics}
	server := grpc.NewServer(orca.CallMetricsServerOption(metrics))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "slackwater.tails.v1.Work",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Do", Handler: w.handle}},
	}, w)
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
	var trailer metadata.MD
	out := new(wrapperspb.BytesValue)
	if err := conn.Invoke(t.Context(), method, wrapperspb.Bytes(nil), out, grpc.Trailer(&trailer)); err != nil {
		t.Fatal(err)
	}
	if len(trailer["endpoint-load-metrics-bin"]) != 1 {
		t.Errorf("trailers %v have no report", trailer)
	}
}
