package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/leastrequest"
	_ "google.golang.org/grpc/balancer/weightedroundrobin"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/types/known/wrapperspb"

	_ "github.com/slackwater/slackwater/go/grpc"
)

// deadline is that of each call.
const deadline = 5 * time.Second

// warmUp is how long calls are made before they count. It is longer than weighted_round_robin takes
// to use its first weights.
const warmUp = 3 * time.Second

// order is what a client process does.
type order struct {
	Plan    plan     `json:"plan"`
	Policy  string   `json:"policy"`
	Round   int      `json:"round"`
	Servers []string `json:"servers"`
	// Processes are the IDs of the servers' processes.
	Processes []int `json:"processes"`
}

// measurement is what a client process saw.
type measurement struct {
	Policy string `json:"policy"`
	Round  int    `json:"round"`
	Calls  int    `json:"calls"`
	Errors int    `json:"errors"`
	// Quantiles of the latency of the calls that were answered.
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
	// CPU is that of the client's process for each call, with probes.
	CPU time.Duration `json:"cpu_ns"`
	// ServersCPU is that of all servers for each call, or 0 if the system does not show it.
	ServersCPU time.Duration `json:"servers_cpu_ns"`
	// Probes is the number of probes for each call.
	Probes float64 `json:"probes"`
	// Shares are the calls that each server answered or failed.
	Shares []int `json:"shares"`
	Late   int   `json:"sent_late"`
}

// call is a client process: it reads an order and writes a measurement.
func call(in io.Reader, out io.Writer) error {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	config, err := configOf(o.Policy)
	if err != nil {
		return err
	}
	r := manual.NewBuilderWithScheme("tails")
	state := resolver.State{}
	for _, server := range o.Servers {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: server}}})
	}
	r.InitialState(state)
	conn, err := grpc.NewClient("tails:///servers",
		grpc.WithResolvers(r),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(config))
	if err != nil {
		return err
	}
	defer conn.Close()
	c := &caller{conn: conn, order: o, shares: make([]int, len(o.Servers))}
	if o.Plan.Rate > 0 {
		c.atTimes(o)
	} else {
		c.atOnce(o)
	}
	return json.NewEncoder(out).Encode(c.result(o))
}

type caller struct {
	conn   *grpc.ClientConn
	order  order
	calls  sync.WaitGroup
	counts atomic.Bool
	// used is what was used since the calls count.
	used usage
	late int

	mu        sync.Mutex
	latencies []time.Duration
	errors    int
	shares    []int
}

// do makes a call that was due at that time.
func (c *caller) do(due time.Time) {
	counted := c.counts.Load()
	ctx, cancel := context.WithDeadline(context.Background(), due.Add(deadline))
	defer cancel()
	var at peer.Peer
	in, out := wrapperspb.Bytes([]byte("0123456789abcdef")), new(wrapperspb.BytesValue)
	err := c.conn.Invoke(ctx, method, in, out, grpc.Peer(&at), grpc.WaitForReady(true))
	latency := time.Since(due)
	if !counted {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.errors++
	} else {
		c.latencies = append(c.latencies, latency)
	}
	if at.Addr != nil {
		if n := slices.Index(c.order.Servers, at.Addr.String()); n >= 0 {
			c.shares[n]++
		}
	}
}

// atTimes makes calls at times that were drawn, whether or not earlier ones have ended.
func (c *caller) atTimes(o order) {
	random := rand.New(rand.NewPCG(o.Plan.Seed, uint64(o.Round)))
	began := time.Now()
	end := began.Add(warmUp + o.Plan.Length)
	for due := began; due.Before(end); {
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		} else if wait < -5*time.Millisecond && c.counts.Load() {
			c.late++
		}
		if !c.counts.Load() && due.Sub(began) >= warmUp {
			c.counts.Store(true)
			c.used = usageNow(&o)
		}
		at := due // due changes before the call begins
		c.calls.Go(func() { c.do(at) })
		due = due.Add(time.Duration(random.ExpFloat64() / o.Plan.Rate * float64(time.Second)))
	}
	c.calls.Wait()
	c.used = usageNow(&o).since(c.used)
}

// atOnce makes as many calls as a number of callers can.
func (c *caller) atOnce(o order) {
	began := time.Now()
	end := began.Add(warmUp + o.Plan.Length)
	for range o.Plan.AtOnce {
		c.calls.Go(func() {
			for due := time.Now(); due.Before(end); due = time.Now() {
				c.do(due)
			}
		})
	}
	time.Sleep(warmUp)
	c.used = usageNow(&o)
	c.counts.Store(true)
	c.calls.Wait()
	c.used = usageNow(&o).since(c.used)
}

func (c *caller) result(o order) measurement {
	slices.Sort(c.latencies)
	calls := len(c.latencies) + c.errors
	return measurement{
		Policy:     o.Policy,
		Round:      o.Round,
		Calls:      calls,
		Errors:     c.errors,
		P50:        quantile(c.latencies, 0.5),
		P99:        quantile(c.latencies, 0.99),
		P999:       quantile(c.latencies, 0.999),
		CPU:        c.used.client / time.Duration(max(calls, 1)),
		ServersCPU: c.used.servers / time.Duration(max(calls, 1)),
		Probes:     float64(c.used.probes) / float64(max(calls, 1)),
		Shares:     c.shares,
		Late:       c.late,
	}
}

// quantile is that of sorted spans, by the nearest rank.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(q * float64(len(sorted)))
	return sorted[min(rank, len(sorted)-1)]
}
