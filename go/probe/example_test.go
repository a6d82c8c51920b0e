package probe_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// A replica answers probes over UDP, and a client sends it one.
func Example() {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer socket.Close()
	responder := &probe.Responder{
		Report: func([]byte) policy.LoadReport { return policy.LoadReport{RIF: 3} },
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	served := make(chan error)
	go func() { served <- responder.Serve(ctx, socket) }()

	answers := make(chan uint32, 1)
	client, err := probe.NewClient(probe.ClientOptions[policy.ProbeID]{
		Answered: func(answer *probe.Answer[policy.ProbeID]) { answers <- answer.Report.RIF },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	addr := netip.MustParseAddrPort(socket.LocalAddr().String())
	if err := client.Send(addr, 17, nil, time.Second); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("in flight:", <-answers)

	stop()
	fmt.Println(<-served)
	// Output:
	// in flight: 3
	// context canceled
}

func ExampleParseKey() {
	key, err := probe.ParseKey("000102030405060708090a0b0c0d0e0f\n")
	fmt.Println(key, err)
	// Output: probe.Key(..) <nil>
}
