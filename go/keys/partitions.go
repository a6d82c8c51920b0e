package keys

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// Micro-partitions: a fixed number of parts of the keys, each with its own servers, its rate and
// its mean queries in flight; and more homes for those that are hot.
//
// A partition is hot while its mean in flight, which is its rate times its latency, is more than a
// part of what its homes would have if all load were even. Then the number of its homes doubles; it
// halves again when half as many would have room for twice the load. Only this client's own queries
// count on both sides, so that clients with different shares of the traffic come to the same
// number. Homes are a prefix of the partition's order, so they agree but for the moment of growth.

const (
	// memoryNS is the time over which means are taken, in nanoseconds.
	memoryNS = 1_000_000_000
	// stepNS is the time after which means are renewed, in nanoseconds. Until then only the sum is
	// kept.
	stepNS = 10_000_000
	// fine is the parts of a query in which means are kept.
	fine = 1 << 16
	// queriesMin: a partition is not hot before it has had this many queries while it seemed to be.
	// Fewer are chance.
	queriesMin = 16
)

// busy is queries in flight, and their mean over the last second or so.
type busy struct {
	inFlight uint32
	// mean is in 1/65536.
	mean uint64
	// since and until are the span of sumNS, the time that queries were in flight.
	since, until policy.Instant
	sumNS        uint64
}

// update takes in the time that has passed. If the mean is renewed, it returns for how long it was
// not, otherwise 0.
func (b *busy) update(now policy.Instant) uint64 {
	b.sumNS = ints.Add(b.sumNS, ints.Mul(uint64(b.inFlight), nsSince(now, b.until)))
	b.until = max(b.until, now)
	spanNS := nsSince(b.until, b.since)
	if spanNS < stepNS {
		return 0
	}
	b.mean = leftOf(b.mean, spanNS) + ints.MulDiv(b.sumNS, fine, allNS(spanNS))
	b.since, b.sumNS = b.until, 0
	return spanNS
}

func nsSince(now, since policy.Instant) uint64 { return ints.Sub(uint64(now), uint64(since)) }

// allNS returns the time that a mean is over, which ends with this span.
func allNS(spanNS uint64) uint64 { return ints.Add(memoryNS, spanNS) }

// leftOf returns what is left of a mean after this span.
func leftOf(mean, spanNS uint64) uint64 { return ints.MulDiv(mean, memoryNS, allNS(spanNS)) }

// trend is where the load of a partition is, seen from its homes.
type trend uint8

const (
	steady trend = iota
	hot
	cold
)

type partition struct {
	busy busy
	// recent is the number of queries within the memory, in 1/65536.
	recent uint64
	homes  uint8
	trend  trend
	// since is when the trend began, and queries is the number since then.
	since   policy.Instant
	queries uint32
	// version is that of the order that its servers are of.
	version policy.Optional[uint32]
}

// update takes in the time that has passed. It returns whether the mean is renewed.
func (p *partition) update(now policy.Instant) bool {
	spanNS := p.busy.update(now)
	if spanNS > 0 {
		p.recent = leftOf(p.recent, spanNS)
	}
	return spanNS > 0
}

// partitions are the partitions of all keys.
type partitions struct {
	list []partition
	// servers has the first servers of each partition, as many as width.
	servers  []uint32
	width    int
	all      busy
	homesMax uint8
	above    policy.Millionths
	timeNS   uint64
	swept    int
}

func newPartitions(settings *Settings) partitions {
	count, width := int(settings.Partitions), int(max(settings.Set, settings.ReplicateMax, settings.HintHomes))
	p := partitions{
		list:     make([]partition, count),
		servers:  make([]uint32, count*width),
		width:    width,
		homesMax: settings.ReplicateMax,
		above:    settings.ReplicateAbove,
		timeNS:   uint64(settings.ReplicateTime),
	}
	for i := range p.list {
		p.list[i].homes = 1
	}
	for i := range p.servers {
		p.servers[i] = unplaced
	}
	return p
}

// of returns the partition of a key; absent without partitions.
func (p *partitions) of(key policy.KeyHash) policy.Optional[uint16] {
	if len(p.list) == 0 {
		return policy.Optional[uint16]{}
	}
	place, _ := bits.Mul64(uint64(key), uint64(len(p.list)))
	return policy.Some(uint16(place))
}

// serversOf returns the places of a partition's servers.
func (p *partitions) serversOf(number uint16) []uint32 {
	begin := int(number) * p.width
	return p.servers[begin : begin+p.width]
}

// first returns the first servers of a partition.
func (p *partitions) first(number uint16, order *order) first {
	p.refresh(number, order)
	var found first
	for _, server := range p.serversOf(number) {
		if server == unplaced {
			break
		}
		found.servers[found.len] = server
		found.len++
	}
	return found
}

// refresh takes in changes of the order.
func (p *partitions) refresh(number uint16, order *order) {
	of, kept := &p.list[number], p.serversOf(number)
	if of.version == policy.Some(order.version) {
		return
	}
	of.version = policy.Some(order.version)
	first := order.first(mix(uint64(number)), len(kept))
	for i := range kept {
		kept[i] = unplaced
	}
	copy(kept, first.all())
}

// sent notes a query, and the partition of its key if it has one.
func (p *partitions) sent(now policy.Instant, number policy.Optional[uint16], order *order) {
	if len(p.list) == 0 {
		return
	}
	p.all.update(now)
	p.all.inFlight = ints.Add(p.all.inFlight, 1)
	p.change(now, number, order, func(of *partition) {
		of.busy.inFlight = ints.Add(of.busy.inFlight, 1)
		of.recent = ints.Add(of.recent, fine)
		of.queries = ints.Add(of.queries, 1)
	})
	// A partition without queries settles, too.
	if p.homesMax > 1 {
		p.swept = (p.swept + 1) % len(p.list)
		if of := &p.list[p.swept]; of.homes > 1 {
			of.update(now)
			p.refresh(uint16(p.swept), order)
			p.settle(now, uint16(p.swept), order)
		}
	}
}

// done notes the end of a query.
func (p *partitions) done(now policy.Instant, number policy.Optional[uint16], order *order) {
	if len(p.list) == 0 {
		return
	}
	p.all.update(now)
	p.all.inFlight = ints.Sub(p.all.inFlight, 1)
	p.change(now, number, order, func(of *partition) {
		of.busy.inFlight = ints.Sub(of.busy.inFlight, 1)
	})
}

// change brings the partition of a key up to date and changes it. If its means were renewed, its
// homes are looked at.
func (p *partitions) change(
	now policy.Instant, number policy.Optional[uint16], order *order, change func(*partition),
) {
	if number.Known && int(number.Value) < len(p.list) {
		of := &p.list[number.Value]
		isRenewed := of.update(now)
		change(of)
		if isRenewed {
			p.settle(now, number.Value, order)
		}
	}
}

// enough returns the mean in flight of a partition up to which this many homes are enough, in
// 1/65536.
func (p *partitions) enough(number uint16, homes uint8, order *order) uint64 {
	parts := uint64(0)
	for _, server := range p.serversOf(number)[:min(int(homes), p.width)] {
		parts += uint64(order.weight(server))
	}
	fair := ints.MulDiv(p.all.mean, parts, uint64(len(order.parts)))
	return ints.MulDiv(fair, uint64(p.above), uint64(policy.One))
}

// settle gives a partition more homes, or fewer, if its load has called for that for long enough.
func (p *partitions) settle(now policy.Instant, number uint16, order *order) {
	of := &p.list[number]
	if p.homesMax == 1 || of.version != policy.Some(order.version) {
		return
	}
	most := uint8(max(min(int(p.homesMax), order.servers()), 1))
	fewer := of.homes / 2
	found := steady
	switch {
	case of.homes < most && of.busy.mean > p.enough(number, of.homes, order):
		found = hot
	case of.homes > 1 && of.busy.mean*2 < p.enough(number, fewer, order):
		found = cold
	}
	lasts := nsSince(now, of.since) >= p.timeNS
	switch {
	case found != of.trend:
		of.trend, of.since, of.queries = found, now, 0
	case lasts && found == hot && of.queries >= queriesMin:
		of.homes = min(uint8(min(int(of.homes)*2, 255)), most)
		of.trend = steady
	case lasts && found == cold:
		of.homes = max(fewer, 1)
		of.trend = steady
	}
}

// isBusy reports whether the partition has had queries lately.
func (p *partition) isBusy() bool { return p.busy.inFlight > 0 || p.recent > 0 }

// view returns the busiest partitions, and how many are replicated.
func (p *partitions) view(now policy.Instant, order *order) policy.KeyView {
	var view policy.KeyView
	current := slices.Clone(p.list)
	var busiest []uint16
	for number := range current {
		of := &current[number]
		if of.homes > 1 {
			view.Replicated++
		}
		if of.isBusy() {
			of.update(now)
		}
		if of.isBusy() {
			busiest = append(busiest, uint16(number))
		}
	}
	slices.SortStableFunc(busiest, func(a, b uint16) int {
		return cmp.Compare(current[b].busy.mean, current[a].busy.mean)
	})
	for _, number := range busiest[:min(len(busiest), policy.MaxPartitionViews)] {
		of := &current[number]
		shown := policy.PartitionView{
			Partition:       number,
			Homes:           int(of.homes),
			InFlight:        of.busy.inFlight,
			InFlightMillis:  ints.MulDiv(of.busy.mean, 1_000, fine),
			QueryRateMillis: ints.MulDiv(of.recent, 1_000, fine),
		}
		if of.version == policy.Some(order.version) {
			for _, server := range p.serversOf(number) {
				if parts := order.partsOf(server); len(parts) > 0 {
					shown.Servers = append(shown.Servers, parts[0])
				}
			}
		}
		view.Partitions = append(view.Partitions, shown)
	}
	return view
}
