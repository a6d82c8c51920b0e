package slackwatergrpc

import (
	"cmp"
	"slices"
	"sync"
)

// Channel is a balancer that is in use: one for each gRPC channel, or under xDS one for each
// locality of it. It is safe for concurrent use. Once the channel is closed, it returns the last
// state.
type Channel struct {
	target string

	mu       sync.Mutex
	locality string
	engine   *engine
}

// Target returns the target of the channel, such as "dns:///search.example:50051".
func (c *Channel) Target() string { return c.target }

// Locality returns the locality under xDS, or "".
func (c *Channel) Locality() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.locality
}

func (c *Channel) update(locality string, engine *engine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.locality, c.engine = locality, engine
}

func (c *Channel) current() *engine {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.engine
}

// Channels returns the balancers in use, ordered by target and locality.
func Channels() []*Channel {
	all := channels.all()
	slices.SortFunc(all, func(a, b *Channel) int {
		return cmp.Or(cmp.Compare(a.Target(), b.Target()), cmp.Compare(a.Locality(), b.Locality()))
	})
	return all
}

// Explain returns the latest picks of all balancers of a target, the oldest first. They are kept
// only if the configuration has explain above 0.
func Explain(target string) []Pick {
	var picks []Pick
	for _, channel := range channels.all() {
		if channel.Target() == target {
			picks = append(picks, channel.Picks()...)
		}
	}
	slices.SortStableFunc(picks, func(a, b Pick) int { return a.Time.Compare(b.Time) })
	return picks
}

// channels are the balancers in use.
var channels = channelRegistry{in: map[*Channel]struct{}{}}

type channelRegistry struct {
	mu sync.Mutex
	in map[*Channel]struct{}
}

func (r *channelRegistry) add(c *Channel) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.in[c] = struct{}{}
}

func (r *channelRegistry) remove(c *Channel) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.in, c)
}

func (r *channelRegistry) all() []*Channel {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*Channel, 0, len(r.in))
	for c := range r.in {
		all = append(all, c)
	}
	return all
}
