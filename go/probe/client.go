package probe

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

const (
	outstandingDefault = 1024
	outstandingMax     = 1 << 16
)

// Reasons for which [Client.Send] or [HTTPClient.Probe] does not send a probe.
var (
	// ErrFull says that too many probes are outstanding, or that the socket is full. It shows nothing
	// about the replica.
	ErrFull = errors.New("too many probes are outstanding, or the socket is full")
	// ErrUnsupported says that the client has no socket for the family of the address.
	ErrUnsupported = errors.New("the client has no socket for this address")
)

// ClientOptions are the settings of a [Client]. T is the type of the caller's tokens, such as
// [policy.ProbeID].
type ClientOptions[T any] struct {
	// Answered is called with each answer, from one goroutine for each family of addresses. The
	// answer is valid until it returns. It should return within microseconds, because later answers
	// wait for it, and must not call [Client.Close].
	Answered func(answer *Answer[T])
	// Key signs probes, and replies must be signed with it. Default nil: nothing is signed.
	Key *Key
	// Network is "udp4" or "udp6" for one family of addresses. Default "udp": IPv4, and IPv6 where
	// the machine has it.
	Network string
	// LocalV4 is the local address of probes to IPv4 replicas. Default any.
	LocalV4 netip.Addr
	// LocalV6 is the local address of probes to IPv6 replicas. Default any.
	LocalV6 netip.Addr
	// Outstanding is the most probes that are outstanding at once for each family: 1 to 65,536,
	// rounded up to a power of two. One more is refused. Default (0) 1,024.
	Outstanding int
}

// Answer is a replica's answer to a probe.
type Answer[T any] struct {
	// Token is what [Client.Send] was given.
	Token T
	// Report is the replica's load.
	Report policy.LoadReport
	// RoundTrip is the time from sending the probe to reading the answer.
	RoundTrip time.Duration
}

// ClientCounts counts what has happened to a client's probes since its start.
type ClientCounts struct {
	// Sent counts probes that went out.
	Sent uint64
	// Answered counts replies that were accepted.
	Answered uint64
	// RefusedFull counts probes that were refused because too many were outstanding.
	RefusedFull uint64
	// RefusedUnsupported counts probes that [ErrUnsupported] or [ErrHintTooLong] refused.
	RefusedUnsupported uint64
	// SendFailed counts probes that the system did not send, or not before their deadline.
	SendFailed uint64
	// ReceiveErrors counts errors of the network on receiving.
	ReceiveErrors uint64
	// Malformed counts datagrams that are no replies.
	Malformed uint64
	// Unauthenticated counts replies without a tag, or with a wrong one, if there is a key.
	Unauthenticated uint64
	// Foreign counts replies to no outstanding probe, or from an address that was not probed.
	Foreign uint64
	// Replayed counts further replies to a probe that was answered.
	Replayed uint64
	// Late counts replies after the probe's deadline.
	Late uint64
}

// Client probes replicas by UDP, through one socket for each family of addresses, whatever the
// number of replicas.
//
// A reply is accepted if its nonce is outstanding, it comes from the address that was probed and,
// with a key, its tag is right. All others are counted and ignored. A probe without an answer ends
// at its deadline without a notice: a [policy.Policy] watches its deadlines itself.
//
// A Client is safe for concurrent use.
type Client[T any] struct {
	v4, v6 *lane[T]
	// The count of probes that no lane carries.
	mu          sync.Mutex
	unsupported uint64

	closing sync.Once
	closed  chan struct{}
	readers sync.WaitGroup
}

// lane is one socket with its probes.
type lane[T any] struct {
	conn     *net.UDPConn
	key      *Key
	epoch    time.Time
	sender   sender
	answered func(*Answer[T])

	mu     sync.Mutex
	nonces *nonces[T]
	counts ClientCounts
}

// NewClient opens the sockets. It starts one goroutine for each; [Client.Close] ends them.
func NewClient[T any](options ClientOptions[T]) (*Client[T], error) {
	if options.Answered == nil {
		return nil, errors.New("a probe client needs a function for answers")
	}
	outstanding := options.Outstanding
	switch {
	case outstanding == 0:
		outstanding = outstandingDefault
	case outstanding < 0 || outstanding > outstandingMax:
		return nil, fmt.Errorf("a probe client can have 1 to %d outstanding probes, not %d",
			outstandingMax, outstanding)
	}
	open := func(network string, local netip.Addr) (*lane[T], error) {
		addr := &net.UDPAddr{}
		if local.IsValid() {
			addr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
		}
		conn, err := net.ListenUDP(network, addr)
		if err != nil {
			return nil, fmt.Errorf("socket of a probe client: %w", err)
		}
		epoch := time.Now()
		return &lane[T]{
			conn: conn, key: options.Key, epoch: epoch, answered: options.Answered,
			sender: sender{conn: conn, epoch: epoch}, nonces: newNonces[T](outstanding),
		}, nil
	}
	client := &Client[T]{closed: make(chan struct{})}
	var err error
	switch options.Network {
	case "", "udp":
		if client.v4, err = open("udp4", options.LocalV4); err != nil {
			return nil, err
		}
		client.v6, err = open("udp6", options.LocalV6)
		if err != nil && options.LocalV6.IsValid() {
			return nil, errors.Join(err, client.v4.conn.Close())
		}
	case "udp4":
		client.v4, err = open("udp4", options.LocalV4)
	case "udp6":
		client.v6, err = open("udp6", options.LocalV6)
	default:
		err = fmt.Errorf("network of a probe client: %q is not udp, udp4 or udp6", options.Network)
	}
	if client.v4 == nil && client.v6 == nil {
		return nil, err
	}
	for lane := range client.lanes {
		client.readers.Go(func() { lane.read(client.closed) })
	}
	return client, nil
}

func (c *Client[T]) lanes(yield func(*lane[T]) bool) {
	if c.v4 != nil && !yield(c.v4) {
		return
	}
	if c.v6 != nil {
		yield(c.v6)
	}
}

// Send sends a probe to the address at which a replica answers probes. Token comes back with the
// answer, if that arrives within timeout. Hint says what the query is about, at most [HintBytesMax]
// bytes; nil is none.
//
// The error says that nothing was sent: [ErrFull], [ErrUnsupported], [ErrHintTooLong],
// [os.ErrDeadlineExceeded] if timeout is not positive, or an error of the socket. Send waits only
// while the socket is full, some 10 ms.
func (c *Client[T]) Send(to netip.AddrPort, token T, hint []byte, timeout time.Duration) error {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	lane := c.v6
	if to.Addr().Is4() {
		lane = c.v4
	}
	if lane == nil || !to.IsValid() {
		c.mu.Lock()
		c.unsupported++
		c.mu.Unlock()
		return ErrUnsupported
	}
	return lane.send(to, token, hint, timeout)
}

func (l *lane[T]) send(to netip.AddrPort, token T, hint []byte, timeout time.Duration) error {
	nonce, err := l.reserve(to, token, hint, timeout)
	if err != nil {
		return err
	}
	buffer, ok := buffers.Get().(*[DatagramBytesMax + 1]byte)
	if !ok {
		return ErrFull // the pool holds nothing else
	}
	defer buffers.Put(buffer)
	// The hint was measured before.
	datagram, _ := AppendRequest(buffer[:0], Request{Nonce: nonce, Hint: hint}, l.key)
	if err = l.sender.write(datagram, to); err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nonces.release(nonce)
	l.counts.Sent--
	l.counts.SendFailed++
	return fmt.Errorf("probe not sent: %w", err)
}

func (l *lane[T]) reserve(to netip.AddrPort, token T, hint []byte, timeout time.Duration) (uint64, error) {
	now := time.Since(l.epoch)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(hint) > HintBytesMax:
		l.counts.RefusedUnsupported++
		return 0, ErrHintTooLong
	case timeout <= 0:
		l.counts.SendFailed++
		return 0, os.ErrDeadlineExceeded
	}
	nonce, ok := l.nonces.reserve(now, now+timeout, samePlace(to), token)
	if !ok {
		l.counts.RefusedFull++
		return 0, ErrFull
	}
	l.counts.Sent++
	return nonce, nil
}

// read hands on answers until the socket is closed.
func (l *lane[T]) read(closed <-chan struct{}) {
	var (
		buffer [DatagramBytesMax + 1]byte
		answer Answer[T]
		errs   int
	)
	for {
		n, from, err := l.conn.ReadFromUDPAddrPort(buffer[:])
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			l.mu.Lock()
			l.counts.ReceiveErrors++
			l.mu.Unlock()
			if errs++; errs > errorsBeforePause {
				select {
				case <-closed:
					return
				case <-time.After(pauseAfterError):
				}
			}
			continue
		}
		errs = 0
		// Outside of the lock: to check a tag is to compute a hash.
		reply, err := ParseReply(buffer[:n], l.key)
		if l.claim(&answer, &reply, err, from) {
			l.answered(&answer)
		}
	}
}

// claim fills in answer, and reports whether the reply is one.
func (l *lane[T]) claim(answer *Answer[T], reply *Reply, err error, from netip.AddrPort) bool {
	now := time.Since(l.epoch)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if err == Unkeyed || err == Authentication {
			l.counts.Unauthenticated++
		} else {
			l.counts.Malformed++
		}
		return false
	}
	what, token, roundTrip := l.nonces.claim(now, reply.Nonce, samePlace(from))
	switch what {
	case answerInTime:
		l.counts.Answered++
		*answer = Answer[T]{Token: token, Report: reply.Report, RoundTrip: roundTrip}
		return true
	case answerLate:
		l.counts.Late++
	case answerReplayed:
		l.counts.Replayed++
	case answerForeign:
		l.counts.Foreign++
	}
	return false
}

// Counts returns what has happened so far.
func (c *Client[T]) Counts() ClientCounts {
	c.mu.Lock()
	sum := ClientCounts{RefusedUnsupported: c.unsupported}
	c.mu.Unlock()
	for lane := range c.lanes {
		lane.mu.Lock()
		counts := lane.counts
		lane.mu.Unlock()
		sum.Sent += counts.Sent
		sum.Answered += counts.Answered
		sum.RefusedFull += counts.RefusedFull
		sum.RefusedUnsupported += counts.RefusedUnsupported
		sum.SendFailed += counts.SendFailed
		sum.ReceiveErrors += counts.ReceiveErrors
		sum.Malformed += counts.Malformed
		sum.Unauthenticated += counts.Unauthenticated
		sum.Foreign += counts.Foreign
		sum.Replayed += counts.Replayed
		sum.Late += counts.Late
	}
	return sum
}

// Close closes the sockets and waits until no answer is being handed on. Probes that are
// outstanding get no answer. It is safe to call it more than once.
func (c *Client[T]) Close() error {
	var err error
	c.closing.Do(func() {
		close(c.closed)
		for lane := range c.lanes {
			err = errors.Join(err, lane.conn.Close())
		}
	})
	c.readers.Wait()
	return err
}
