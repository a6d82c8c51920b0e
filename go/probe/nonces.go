package probe

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"time"
)

const (
	// drawnAtOnce is how many nonces one call of the system's source yields.
	drawnAtOnce = 64
	// searchMax is how far to look for a free slot when the next one is taken.
	searchMax = 16
)

// nonces holds the probes that one socket has outstanding. A nonce is 64 random bits whose lowest
// ones are replaced by the number of a slot: a reply finds its probe in one step, and a guess of a
// nonce must guess all other bits. Slots are used in turn. A slot becomes free with its answer or
// its deadline, so the table needs no timer. An answered slot keeps its nonce until it is used
// again, which tells a replayed reply from a foreign one.
//
// Times are spans since an epoch of the caller's.
type nonces[T any] struct {
	slots []nonceSlot[T] // a power of two
	next  int
	drawn [drawnAtOnce]uint64
	left  int // of drawn
}

type nonceSlot[T any] struct {
	nonce            uint64
	to               netip.AddrPort
	token            T
	sentAt, deadline time.Duration
	used, answered   bool
}

// claim is what a reply turned out to be.
type claim uint8

const (
	answerInTime claim = iota
	answerLate
	answerReplayed
	answerForeign
)

func newNonces[T any](capacity int) *nonces[T] {
	slots := 1
	for slots < capacity {
		slots *= 2
	}
	return &nonces[T]{slots: make([]nonceSlot[T], slots)}
}

// reserve returns the nonce of a new probe. It reports false if all slots that it looked at are
// taken.
func (n *nonces[T]) reserve(now, deadline time.Duration, to netip.AddrPort, token T) (uint64, bool) {
	mask := len(n.slots) - 1
	for range min(searchMax, len(n.slots)) {
		index := n.next
		// After a failure the next search goes on from here: a run of taken slots does not hide the
		// free ones behind it.
		n.next = (n.next + 1) & mask
		slot := &n.slots[index]
		if slot.used && !slot.answered && slot.deadline > now {
			continue
		}
		nonce := n.draw()&^uint64(mask) | uint64(index)
		*slot = nonceSlot[T]{nonce: nonce, to: to, token: token, sentAt: now, deadline: deadline, used: true}
		return nonce, true
	}
	return 0, false
}

// claim finds the probe of a reply. Only the first reply in time, from the address that was probed,
// is an answer; the others are told apart for the counters.
func (n *nonces[T]) claim(now time.Duration, nonce uint64, from netip.AddrPort) (claim, T, time.Duration) {
	var none T
	slot := n.slot(nonce)
	switch {
	case slot == nil || slot.to != from:
		return answerForeign, none, 0
	case slot.answered:
		return answerReplayed, none, 0
	}
	slot.answered = true
	token := slot.token
	slot.token = none // may hold memory of the caller's
	if slot.deadline <= now {
		return answerLate, none, 0
	}
	return answerInTime, token, now - slot.sentAt
}

// release frees the slot of a probe that was not sent.
func (n *nonces[T]) release(nonce uint64) {
	if slot := n.slot(nonce); slot != nil {
		*slot = nonceSlot[T]{}
	}
}

func (n *nonces[T]) slot(nonce uint64) *nonceSlot[T] {
	slot := &n.slots[nonce&uint64(len(n.slots)-1)]
	if !slot.used || slot.nonce != nonce {
		return nil
	}
	return slot
}

func (n *nonces[T]) draw() uint64 {
	if n.left == 0 {
		var random [drawnAtOnce * 8]byte
		_, _ = rand.Read(random[:]) // never fails
		for i := range n.drawn {
			n.drawn[i] = binary.NativeEndian.Uint64(random[8*i:])
		}
		n.left = drawnAtOnce
	}
	n.left--
	return n.drawn[n.left]
}

// samePlace returns an address as it compares: the zone of an IPv6 address belongs to the network,
// and may differ on the way back.
func samePlace(at netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}
