package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// fleet is the kind of each server.
var fleet = []string{usual, usual, usual, usual, usual, slow, failing, stalling}

// measure starts the servers, and a client for each policy and round.
func measure(ctx context.Context, p plan) ([]measurement, error) {
	// Servers end with the context, also if a later step fails.
	ctx, stop := context.WithCancel(ctx)
	var servers []*exec.Cmd
	defer func() {
		stop()
		for _, server := range servers {
			_ = server.Wait()
		}
	}()
	var addresses []string
	var processes []int
	for n, kind := range fleet {
		if p.Equal {
			kind = instant
		}
		server, address, err := startServer(ctx, kind, p.Seed+uint64(n))
		if err != nil {
			return nil, err
		}
		servers, addresses = append(servers, server), append(addresses, address)
		processes = append(processes, server.Process.Pid)
	}
	var results []measurement
	for round := range p.Rounds {
		for n := range p.Policies {
			policy := p.Policies[(n+round)%len(p.Policies)]
			m, err := runClient(ctx, order{
				Plan: p, Policy: policy, Round: round, Servers: addresses, Processes: processes,
			})
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", policy, round, err)
			}
			fmt.Fprintf(os.Stderr, "round %d of %d, %s: p99 %s, %d errors\n",
				round+1, p.Rounds, policy, m.P99.Round(time.Millisecond/10), m.Errors)
			results = append(results, m)
		}
	}
	return results, nil
}

// command is this program with other arguments. It is asked to end with the context.
func command(ctx context.Context, arguments ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self, arguments...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 5 * time.Second
	c.Stderr = os.Stderr
	return c, nil
}

func startServer(ctx context.Context, kind string, seed uint64) (*exec.Cmd, string, error) {
	c, err := command(ctx, "serve", kind, fmt.Sprint(seed))
	if err != nil {
		return nil, "", err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := c.Start(); err != nil {
		return nil, "", err
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, "", fmt.Errorf("the server %s did not start: %w", kind, err)
	}
	return c, strings.TrimSpace(address), nil
}

func runClient(ctx context.Context, o order) (measurement, error) {
	var m measurement
	text, err := json.Marshal(o)
	if err != nil {
		return m, err
	}
	c, err := command(ctx, "call")
	if err != nil {
		return m, err
	}
	c.Stdin = bytes.NewReader(text)
	out, err := c.Output()
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(out, &m)
}

// printTable prints the median of the rounds for each policy.
func printTable(to io.Writer, p plan, results []measurement) {
	w := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| policy\t| p50\t| p99\t| p99.9\t| errors\t| client's CPU a call\t| servers' CPU a call\t| probes a call\t| share of: usual, slow, failing, stalling\t|")
	fmt.Fprintln(w, "|---\t|--:\t|--:\t|--:\t|--:\t|--:\t|--:\t|--:\t|--:\t|")
	for _, policy := range p.Policies {
		var of []measurement
		for _, m := range results {
			if m.Policy == policy {
				of = append(of, m)
			}
		}
		calls, failed := 0, 0
		for _, m := range of {
			calls, failed = calls+m.Calls, failed+m.Errors
		}
		fmt.Fprintf(w, "| %s\t| %s\t| %s\t| %s\t| %.2f %%\t| %.1f µs\t| %.1f µs\t| %.2f\t| %s\t|\n", policy,
			ms(middle(of, func(m measurement) time.Duration { return m.P50 })),
			ms(middle(of, func(m measurement) time.Duration { return m.P99 })),
			ms(middle(of, func(m measurement) time.Duration { return m.P999 })),
			100*float64(failed)/float64(max(calls, 1)),
			float64(middle(of, func(m measurement) time.Duration { return m.CPU }))/1e3,
			float64(middle(of, func(m measurement) time.Duration { return m.ServersCPU }))/1e3,
			middle(of, func(m measurement) float64 { return m.Probes }),
			shares(of))
	}
	_ = w.Flush()
}

// shares are percentages of the calls at each kind of server, of one server.
func shares(of []measurement) string {
	total, at := 0, map[string]int{}
	for _, m := range of {
		for n, calls := range m.Shares {
			total += calls
			at[fleet[n]] += calls
		}
	}
	var text []string
	for _, kind := range []string{usual, slow, failing, stalling} {
		servers := 0
		for _, other := range fleet {
			if other == kind {
				servers++
			}
		}
		text = append(text, fmt.Sprintf("%.1f", 100*float64(at[kind])/float64(max(total*servers, 1))))
	}
	return strings.Join(text, ", ") + " %"
}

func ms(span time.Duration) string { return fmt.Sprintf("%.1f ms", float64(span)/1e6) }

// middle is the median of a figure.
func middle[T cmp.Ordered](of []measurement, figure func(measurement) T) T {
	all := make([]T, 0, len(of))
	if len(of) == 0 {
		return *new(T)
	}
	for _, m := range of {
		all = append(all, figure(m))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
