package load_test

import (
	"fmt"

	"github.com/slackwater/slackwater/go/load"
)

func Example() {
	replica := load.New(load.Options{
		HintScale: func(hint []byte) uint16 {
			if string(hint) == "user-17" {
				return 102 // its data is in the cache: ten times less loaded
			}
			return 0
		},
	})

	query := replica.Begin()
	fmt.Println("in flight:", replica.RIF())
	query.Head(load.Success) // the first byte of the answer is there
	query.End(load.Success)  // and the last
	fmt.Println("in flight:", replica.RIF())

	fmt.Println("scale:", replica.Report([]byte("user-17")).LoadScale)
	// Output:
	// in flight: 1
	// in flight: 0
	// scale: 102
}

func ExampleTracker() {
	tracker := load.NewTracker(load.DefaultTrackerConfig())
	for range 5 {
		arrival := tracker.Arrive(0)
		tracker.Finish(3_000_000, arrival, load.Success)
	}
	fmt.Println(tracker.Report(3_000_000).Latency)
	// Output: 3ms
}
