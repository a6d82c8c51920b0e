// Command server is a gRPC server that reports its load: the server of the tutorial "gRPC in Go in
// 15 minutes".
//
//	go run ./examples/search/server -listen 127.0.0.1:50051 -takes 2ms
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/slackwater/slackwater/go/grpc/examples/search/searchpb"
	"github.com/slackwater/slackwater/go/grpc/load"
)

// search answers each call after a time.
type search struct {
	searchpb.UnimplementedSearchServer
	takes time.Duration
}

func (s search) Find(ctx context.Context, request *searchpb.FindRequest) (*searchpb.FindResponse, error) {
	select {
	case <-time.After(s.takes):
		return &searchpb.FindResponse{Pages: []string{"pages with " + request.GetWords()}}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func main() {
	listen := flag.String("listen", "127.0.0.1:50051", "address of calls and probes")
	takes := flag.Duration("takes", 2*time.Millisecond, "how long a call takes")
	flag.Parse()
	if err := serve(*listen, *takes); err != nil {
		log.Fatal(err)
	}
}

func serve(address string, takes time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	// The reporter counts calls in flight and measures their latency.
	reporter := load.New()
	server := grpc.NewServer(reporter.ServerOptions()...)
	// Clients probe over the connections of their calls.
	reporter.Register(server)
	searchpb.RegisterSearchServer(server, search{takes: takes})

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// Clients learn that the server drains, and pick other ones, before it stops.
	bounded, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = reporter.GracefulStop(bounded, server)
	if served := <-served; !errors.Is(served, grpc.ErrServerStopped) {
		err = errors.Join(err, served)
	}
	return err
}
