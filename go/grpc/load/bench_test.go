package load

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
)

// BenchmarkCall compares a call of a server that is not counted with those that are.
func BenchmarkCall(b *testing.B) {
	for name, options := range map[string][]grpc.ServerOption{
		"plain":   nil,
		"empty":   {grpc.StatsHandler(emptyHandler{})},
		"counted": New().ServerOptions(),
		"orca":    New(WithORCA()).ServerOptions(),
	} {
		b.Run(name, func(b *testing.B) {
			server := grpc.NewServer(options...)
			testpb.RegisterTestServiceServer(server, &backend{})
			client := testpb.NewTestServiceClient(connect(b, server))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := client.EmptyCall(context.Background(), &testpb.Empty{}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// emptyHandler is the price of any stats handler: gRPC makes events only if there is one.
type emptyHandler struct{}

func (emptyHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (emptyHandler) HandleRPC(context.Context, stats.RPCStats)                         {}
func (emptyHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (emptyHandler) HandleConn(context.Context, stats.ConnStats)                       {}

// BenchmarkEvents is what the stats handler itself takes for a call.
func BenchmarkEvents(b *testing.B) {
	handler := New().StatsHandler()
	info := &stats.RPCTagInfo{FullMethodName: "/a.B/C"}
	events := []stats.RPCStats{
		&stats.InHeader{}, &stats.Begin{}, &stats.InPayload{}, &stats.OutHeader{}, &stats.OutPayload{},
		&stats.OutTrailer{}, &stats.End{},
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ctx := handler.TagRPC(context.Background(), info)
			for _, event := range events {
				handler.HandleRPC(ctx, event)
			}
		}
	})
}
