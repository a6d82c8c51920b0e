package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// errorsMax is the number of errors in a row after which a socket counts as broken: some 10 s of
// nothing else.
const errorsMax = 1_000

// wakeAgain is the time after which a read is woken again.
const wakeAgain = 10 * time.Millisecond

// Responder answers probes over UDP. It keeps no state for a probe: it answers from the load at
// that moment, drops a reply that the socket does not take, and counts and ignores all else. Its
// fields do not change once it serves.
type Responder struct {
	// Report returns the load. Hint says what the query is about; it is empty for none, hostile
	// until proven otherwise, and valid until Report returns. Report should return within
	// microseconds, because later probes wait for it.
	Report func(hint []byte) policy.LoadReport
	// Key signs replies, and probes must be signed with it. Default nil: only probes without a tag
	// are answered.
	Key *Key
	// Begun is called when another replica notifies that it has begun its copy of a tied query.
	// Only addresses of known replicas should be believed. Default nil: such datagrams are refused.
	Begun func(from netip.AddrPort, name uint64)

	answered, unsent, receiveErrors atomic.Uint64
	refused                         [malformedKinds]atomic.Uint64
}

// ResponderCounts counts what a [Responder] has done since its start.
type ResponderCounts struct {
	// Answered counts probes that were answered.
	Answered uint64
	// Unsent counts replies that the socket did not take.
	Unsent uint64
	// ReceiveErrors counts errors of the network on receiving.
	ReceiveErrors uint64

	refused [malformedKinds]uint64
}

// Refused returns how many datagrams were refused for this reason. They got no reply.
func (c *ResponderCounts) Refused(reason Malformed) uint64 {
	if int(reason) >= malformedKinds {
		return 0
	}
	return c.refused[reason]
}

// Counts returns what has happened so far.
func (r *Responder) Counts() ResponderCounts {
	counts := ResponderCounts{
		Answered:      r.answered.Load(),
		Unsent:        r.unsent.Load(),
		ReceiveErrors: r.receiveErrors.Load(),
	}
	for i := range r.refused {
		counts.refused[i] = r.refused[i].Load()
	}
	return counts
}

// Serve answers probes that reach conn until ctx ends or conn is closed, and returns the reason:
// the cause of ctx's end, or an error that is [net.ErrClosed]. Any other error means that the
// socket is broken. Serve starts no goroutine that outlives it, and does not close conn. It sets
// deadlines of conn, and leaves it without any. Meanwhile, other writers must set their own before
// each write. More than one Serve can run at once, for more sockets or for one busy socket.
//
// On a host with several addresses, bind conn to the one that clients use. A reply from a wildcard
// socket leaves by the address that routing chooses, and clients ignore replies from addresses that
// they did not probe.
func (r *Responder) Serve(ctx context.Context, conn net.PacketConn) error {
	returning, ended := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		for {
			_ = conn.SetReadDeadline(time.Unix(1, 0)) // wakes the read below
			// Another Serve that ends may clear the deadline before that read has seen it.
			select {
			case <-returning:
				return
			case <-time.After(wakeAgain):
			}
		}
	})
	defer func() {
		close(returning)
		if !stop() {
			<-ended
			_ = conn.SetReadDeadline(time.Time{}) // others may go on reading
		}
		_ = conn.SetWriteDeadline(time.Time{})
	}()
	var (
		socket   = asDatagramConn(conn)
		sender   = sender{conn: socket, epoch: time.Now()}
		received [DatagramBytesMax + 1]byte
		reply    [DatagramBytesMax]byte
		errs     int
	)
	for {
		n, from, err := socket.ReadFromUDPAddrPort(received[:])
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			r.receiveErrors.Add(1)
			if errs++; errs >= errorsMax || errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("socket of a probe responder: %w", err)
			}
			if errs > errorsBeforePause {
				select {
				case <-ctx.Done():
				case <-time.After(pauseAfterError):
				}
			}
			continue
		}
		errs = 0
		datagram := r.Answer(reply[:0], from, received[:n])
		if len(datagram) == 0 {
			continue
		}
		if sender.write(datagram, from) != nil {
			r.unsent.Add(1)
			continue
		}
		r.answered.Add(1)
	}
}

// Answer appends the reply to a datagram that came from this address to b, and nothing if the
// datagram gets none. Use it for a socket that [Responder.Serve] cannot read. A reply is never
// larger than its request.
func (r *Responder) Answer(b []byte, from netip.AddrPort, datagram []byte) []byte {
	request, err := ParseRequest(datagram, r.Key)
	if err == WrongKind && r.Begun != nil {
		var name uint64
		if name, err = ParseBegun(datagram, r.Key); err == nil {
			r.Begun(from, name)
			return b
		}
	}
	if err != nil {
		if verdict, ok := err.(Malformed); ok {
			r.refused[verdict].Add(1)
		}
		return b
	}
	reply := Reply{Nonce: request.Nonce, Report: r.Report(request.Hint)}
	return AppendReply(b, &reply, r.Key)
}
