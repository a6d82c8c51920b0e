// Command tails measures the tail latency of gRPC's load balancing policies beside Slackwater's, on
// servers of which one is slow, one fails fast, and one stalls now and then.
//
// Every server and every client is a process of its own, on loopback addresses. All policies are
// measured in one run, one after the other, in several rounds with another order in each. A client
// sends calls at given times (Poisson arrivals, from a seed), whether or not earlier calls have
// ended, so a call that waits counts with its whole latency.
//
//	go run ./internal/tails                     # the table
//	go run ./internal/tails -equal -rate 0      # CPU of a call, on equal servers that do not wait
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"
)

// policies are the service configs that are compared.
var policies = []struct{ name, config string }{
	{"round_robin", `{"round_robin":{}}`},
	{"least_request_experimental", `{"least_request_experimental":{"choiceCount":2}}`},
	{"weighted_round_robin", `{"weighted_round_robin":{"blackoutPeriod":"1s","weightUpdatePeriod":"0.5s"}}`},
	{"slackwater, probes by gRPC", `{"slackwater":{}}`},
	{"slackwater, probes by UDP", `{"slackwater":{"probe":{"transport":"udp"}}}`},
	{"slackwater, prequal by UDP", `{"slackwater":{"policy":"prequal","probe":{"transport":"udp"}}}`},
	{"slackwater, no probes", `{"slackwater":{"probe":{"transport":"none"}}}`},
}

// plan says what is measured.
type plan struct {
	Policies []string      `json:"policies"`
	Rounds   int           `json:"rounds"`
	Length   time.Duration `json:"length"`
	// Rate is the number of calls per second; 0 is as many as AtOnce callers make.
	Rate   float64 `json:"rate"`
	AtOnce int     `json:"at_once"`
	Seed   uint64  `json:"seed"`
	// Equal makes all servers answer at once.
	Equal bool `json:"equal"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		exit(serve(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "call" {
		exit(call(os.Stdin, os.Stdout))
	}
	exit(run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "tails:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run() error {
	p := plan{}
	names := flag.String("policies", "", "policies to measure, by parts of their names, separated by commas; default all")
	flag.IntVar(&p.Rounds, "rounds", 3, "how often each policy is measured")
	flag.DurationVar(&p.Length, "length", 10*time.Second, "how long a measurement takes, after 3 s of warm-up")
	flag.Float64Var(&p.Rate, "rate", 800, "calls per second; 0: as many as possible")
	flag.IntVar(&p.AtOnce, "at-once", 16, "calls at once if the rate is 0")
	flag.Uint64Var(&p.Seed, "seed", 1, "seed of arrivals and service times")
	flag.BoolVar(&p.Equal, "equal", false, "all servers answer at once")
	out := flag.String("json", "", "file for the plan and each measurement")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("%q is not an option; see -help", flag.Arg(0))
	}
	if p.Rounds < 1 || p.Length <= 0 || p.Rate < 0 || p.AtOnce < 1 {
		return errors.New("-rounds, -length and -at-once must be positive, and -rate not negative")
	}
	for _, known := range policies {
		if chosen(known.name, *names) {
			p.Policies = append(p.Policies, known.name)
		}
	}
	if len(p.Policies) == 0 {
		return fmt.Errorf("no policy has %q in its name", *names)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	results, err := measure(ctx, p)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d cores, %d rounds of %s, %s\n\n", runtime.Version(), runtime.NumCPU(), p.Rounds, p.Length, p.load())
	printTable(os.Stdout, p, results)
	if *out == "" {
		return nil
	}
	text, err := json.MarshalIndent(map[string]any{"plan": p, "go": runtime.Version(), "measurements": results}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(*out, append(text, '\n'), 0o644)
}

func (p plan) load() string {
	if p.Rate == 0 {
		return fmt.Sprintf("%d calls at once", p.AtOnce)
	}
	return fmt.Sprintf("%g calls/s", p.Rate)
}

func chosen(name, names string) bool {
	if names == "" {
		return true
	}
	for _, part := range strings.Split(names, ",") {
		if strings.Contains(name, strings.TrimSpace(part)) {
			return true
		}
	}
	return false
}

// configOf returns the service config that selects a policy.
func configOf(name string) (string, error) {
	for _, known := range policies {
		if known.name == name {
			return `{"loadBalancingConfig":[` + known.config + `]}`, nil
		}
	}
	return "", fmt.Errorf("%q is not a policy", name)
}
