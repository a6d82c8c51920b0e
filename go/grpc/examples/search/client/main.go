// Command client makes calls over several servers, and prints how long they took: the client of the
// tutorial "gRPC in Go in 15 minutes".
//
//	go run ./examples/search/client -balance round_robin 127.0.0.1:50051 127.0.0.1:50052
//	go run ./examples/search/client -balance slackwater 127.0.0.1:50051 127.0.0.1:50052
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	// Registers the policy "slackwater".
	_ "github.com/slackwater/slackwater/go/grpc"
	"github.com/slackwater/slackwater/go/grpc/examples/search/searchpb"
)

func main() {
	balance := flag.String("balance", "slackwater", "policy of gRPC: slackwater, round_robin, …")
	calls := flag.Int64("calls", 1000, "number of calls")
	atOnce := flag.Int("at-once", 4, "calls at a time")
	flag.Parse()
	if err := call(flag.Args(), *balance, *calls, *atOnce); err != nil {
		log.Fatal(err)
	}
}

func call(servers []string, balance string, calls int64, atOnce int) error {
	if len(servers) == 0 {
		return fmt.Errorf("name the addresses of servers, such as 127.0.0.1:50051")
	}
	// In place of a list of addresses, a service has a name: "dns:///search.example:50051".
	addresses := manual.NewBuilderWithScheme("list")
	state := resolver.State{}
	for _, server := range servers {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: server}}})
	}
	addresses.InitialState(state)
	conn, err := grpc.NewClient("list:///search",
		grpc.WithResolvers(addresses),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(fmt.Sprintf(`{"loadBalancingConfig":[{%q:{}}]}`, balance)))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := searchpb.NewSearchClient(conn)

	var (
		made    atomic.Int64
		callers sync.WaitGroup
		mu      sync.Mutex
		took    []time.Duration
		at      = map[string]int{}
		failed  int
	)
	for range atOnce {
		callers.Go(func() {
			for made.Add(1) <= calls {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				var server peer.Peer
				begun := time.Now()
				_, err := client.Find(ctx, &searchpb.FindRequest{Words: "tides"},
					grpc.WaitForReady(true), grpc.Peer(&server))
				span := time.Since(begun)
				cancel()
				mu.Lock()
				if err != nil {
					failed++
				} else {
					took = append(took, span)
					at[server.Addr.String()]++
				}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	for _, server := range servers {
		fmt.Printf("%s  %d calls\n", server, at[server])
	}
	slices.Sort(took)
	if len(took) > 0 {
		fmt.Printf("p50 %.1f ms, p99 %.1f ms, %d failed\n",
			ms(took[len(took)/2]), ms(took[len(took)*99/100]), failed)
	} else {
		fmt.Printf("all %d calls failed\n", failed)
	}
	return nil
}

func ms(span time.Duration) float64 { return float64(span) / float64(time.Millisecond) }
