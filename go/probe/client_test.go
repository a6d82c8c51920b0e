package probe

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/policy"
)

const longTimeout = time.Minute

// listen returns a socket on the loopback that is closed at the test's end.
func listen(t testing.TB) (*net.UDPConn, netip.AddrPort) {
	t.Helper()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, netip.MustParseAddrPort(conn.LocalAddr().String())
}

// serve runs a responder on the loopback until the test's end.
func serve(t testing.TB, responder *Responder) netip.AddrPort {
	t.Helper()
	conn, addr := listen(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- responder.Serve(ctx, conn) }()
	stopped := errors.New("the test is over")
	t.Cleanup(func() {
		cancel(stopped)
		if err := <-ended; !errors.Is(err, stopped) {
			t.Errorf("the responder ended with %v", err)
		}
	})
	return addr
}

// newClient returns a client whose answers arrive in the channel.
func newClient(t testing.TB, options ClientOptions[int]) (*Client[int], chan Answer[int]) {
	t.Helper()
	answers := make(chan Answer[int], 64)
	options.Answered = func(answer *Answer[int]) { answers <- *answer }
	client, err := NewClient(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client, answers
}

func receive(t testing.TB, answers chan Answer[int]) Answer[int] {
	t.Helper()
	select {
	case answer := <-answers:
		return answer
	case <-time.After(longTimeout):
		t.Fatal("no answer in time")
		return Answer[int]{}
	}
}

func TestProbesAreAnswered(t *testing.T) {
	for name, key := range map[string]*Key{"without key": nil, "keyed": testKey(t, 1)} {
		t.Run(name, func(t *testing.T) {
			load := func(hint []byte) policy.LoadReport {
				return policy.LoadReport{
					RIF: 3, Latency: 80 * time.Millisecond, Draining: true, LoadScale: uint16(len(hint)),
				}
			}
			responder := &Responder{Key: key, Report: load}
			addr := serve(t, responder)
			client, answers := newClient(t, ClientOptions[int]{Key: key, Network: "udp4"})
			for token, hint := range [][]byte{[]byte("user-17"), bytes.Repeat([]byte{7}, HintBytesMax)} {
				if err := client.Send(addr, token, hint, longTimeout); err != nil {
					t.Fatal(err)
				}
				got := receive(t, answers)
				if got.Token != token || got.Report != load(hint) || got.RoundTrip <= 0 {
					t.Fatalf("got %+v", got)
				}
			}
			if counts := client.Counts(); counts != (ClientCounts{Sent: 2, Answered: 2}) {
				t.Fatalf("%+v", counts)
			}
			await.Until(t, "count", func() bool { return responder.Counts().Answered == 2 })
		})
	}
}

func TestHostileRepliesAreIgnoredAndCounted(t *testing.T) {
	key := testKey(t, 1)
	replica, addr := listen(t)
	client, answers := newClient(t, ClientOptions[int]{Key: key, Network: "udp4"})
	if err := client.Send(addr, 9, nil, longTimeout); err != nil {
		t.Fatal(err)
	}
	var buffer [DatagramBytesMax]byte
	n, from, err := replica.ReadFromUDPAddrPort(buffer[:])
	if err != nil {
		t.Fatal(err)
	}
	request, err := ParseRequest(buffer[:n], key)
	if err != nil {
		t.Fatal(err)
	}
	send := func(socket *net.UDPConn, datagram []byte) {
		if _, err := socket.WriteToUDPAddrPort(datagram, from); err != nil {
			t.Fatal(err)
		}
	}
	good := AppendReply(nil, &Reply{Nonce: request.Nonce, Report: policy.LoadReport{RIF: 1}}, key)
	for _, nonce := range []uint64{request.Nonce + 1, request.Nonce ^ 1<<63, 0} {
		send(replica, AppendReply(nil, &Reply{Nonce: nonce}, key))
	}
	stranger, _ := listen(t)
	send(stranger, good)
	send(replica, AppendReply(nil, &Reply{Nonce: request.Nonce}, nil))
	send(replica, AppendReply(nil, &Reply{Nonce: request.Nonce}, testKey(t, 2)))
	send(replica, []byte("hello"))
	send(replica, make([]byte, DatagramBytesMax+1))
	send(replica, buffer[:n]) // our own request
	want := ClientCounts{Sent: 1, Foreign: 4, Unauthenticated: 2, Malformed: 3}
	await.Until(t, "counts of what is ignored", func() bool { return client.Counts() == want })
	if len(answers) > 0 {
		t.Fatalf("one was believed: %+v", <-answers)
	}
	send(replica, good)
	if answer := receive(t, answers); answer.Token != 9 || answer.Report.RIF != 1 {
		t.Fatalf("got %+v", answer)
	}
	send(replica, good)
	want.Answered, want.Replayed = 1, 1
	await.Until(t, "a replay is counted", func() bool { return client.Counts() == want })
	if len(answers) > 0 {
		t.Fatal("a replay was believed")
	}
}

func TestLateRepliesAreIgnoredAndCounted(t *testing.T) {
	replica, addr := listen(t)
	client, answers := newClient(t, ClientOptions[int]{Network: "udp4"})
	if err := client.Send(addr, 9, nil, time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	var buffer [DatagramBytesMax]byte
	n, from, err := replica.ReadFromUDPAddrPort(buffer[:])
	if err != nil {
		t.Fatal(err)
	}
	request, err := ParseRequest(buffer[:n], nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replica.WriteToUDPAddrPort(AppendReply(nil, &Reply{Nonce: request.Nonce}, nil), from); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "count", func() bool { return client.Counts() == ClientCounts{Sent: 1, Late: 1} })
	if len(answers) > 0 {
		t.Fatal("a late reply was believed")
	}
}

func TestProbesBeyondTheLimitAreRefused(t *testing.T) {
	_, addr := listen(t)
	client, _ := newClient(t, ClientOptions[int]{Network: "udp4", Outstanding: 3})
	for token := range 4 { // rounded up
		if err := client.Send(addr, token, nil, longTimeout); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Send(addr, 4, nil, longTimeout); !errors.Is(err, ErrFull) {
		t.Fatalf("got %v", err)
	}
	if err := client.Send(addr, 4, make([]byte, HintBytesMax+1), longTimeout); !errors.Is(err, ErrHintTooLong) {
		t.Fatalf("got %v", err)
	}
	if err := client.Send(addr, 4, nil, 0); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	for _, addr := range []netip.AddrPort{{}, netip.MustParseAddrPort("[::1]:9")} {
		if err := client.Send(addr, 4, nil, longTimeout); !errors.Is(err, ErrUnsupported) {
			t.Fatalf("%v: %v", addr, err)
		}
	}
	want := ClientCounts{Sent: 4, RefusedFull: 1, RefusedUnsupported: 3, SendFailed: 1}
	if counts := client.Counts(); counts != want {
		t.Fatalf("%+v", counts)
	}
}

func TestAClosedClientSendsNothing(t *testing.T) {
	_, addr := listen(t)
	client, _ := newClient(t, ClientOptions[int]{Outstanding: 1})
	if err := errors.Join(client.Close(), client.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first one has freed its slot
		if err := client.Send(addr, 1, nil, longTimeout); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("got %v", err)
		}
	}
}

func TestBadOptionsOfAClientAreRefused(t *testing.T) {
	answered := func(*Answer[int]) {}
	for _, options := range []ClientOptions[int]{
		{},
		{Answered: answered, Outstanding: -1},
		{Answered: answered, Outstanding: outstandingMax + 1},
		{Answered: answered, Network: "tcp"},
		{Answered: answered, Network: "udp4", LocalV4: netip.MustParseAddr("192.0.2.1")},
		{Answered: answered, LocalV6: netip.MustParseAddr("2001:db8::1")},
	} {
		if client, err := NewClient(options); err == nil {
			_ = client.Close()
			t.Errorf("%+v was accepted", options)
		}
	}
}

func TestNoncesDifferAndFreeSlotsAreFound(t *testing.T) {
	table := newNonces[int](1024)
	addr := netip.MustParseAddrPort("127.0.0.1:9")
	seen := map[uint64]bool{}
	reserve := func(now time.Duration) (uint64, bool) {
		nonce, ok := table.reserve(now, now+50, addr, 0)
		if ok && seen[nonce] {
			t.Fatalf("%x comes twice", nonce)
		}
		seen[nonce] = ok
		return nonce, ok
	}
	// A run of unanswered probes, and behind it answered ones.
	for index := range 1024 {
		nonce, ok := reserve(0)
		if !ok {
			t.Fatal("no room")
		}
		if index >= 3*searchMax {
			table.claim(0, nonce, addr)
		}
	}
	found := 0
	for range 100 {
		if _, ok := reserve(0); ok {
			found++
		}
	}
	if found != 97 {
		t.Fatalf("%d of 100 found a slot; each search gets further", found)
	}
	for range 1024 { // until only unanswered probes are left
		reserve(0)
	}
	if _, ok := reserve(0); ok {
		t.Fatal("a slot was taken twice")
	}
	if _, ok := reserve(50); !ok {
		t.Fatal("a deadline frees a slot")
	}
}

func TestNoncesCannotBeGuessedFromEachOther(t *testing.T) {
	table := newNonces[int](1)
	var ones [64]int
	const draws = 4096
	for range draws {
		nonce, _ := table.reserve(0, 0, netip.AddrPort{}, 0)
		for bit := range 64 {
			ones[bit] += int(nonce >> bit & 1)
		}
	}
	for bit, count := range ones {
		// Six standard deviations.
		if count < draws/2-192 || count > draws/2+192 {
			t.Errorf("bit %d is set in %d of %d nonces", bit, count, draws)
		}
	}
}

func TestAddressesWithZonesCompareWithoutThem(t *testing.T) {
	with, without := netip.MustParseAddrPort("[fe80::1%eth0]:9"), netip.MustParseAddrPort("[fe80::1]:9")
	if samePlace(with) != samePlace(without) {
		t.Fatal("they differ")
	}
	if samePlace(netip.MustParseAddrPort("[::ffff:1.2.3.4]:9")) != samePlace(netip.MustParseAddrPort("1.2.3.4:9")) {
		t.Fatal("a mapped address differs")
	}
}

func TestRefusedDatagramsGetNoReplyAndAreCounted(t *testing.T) {
	key := testKey(t, 1)
	responder := &Responder{Key: key, Report: func([]byte) policy.LoadReport {
		t.Error("a report was made")
		return policy.LoadReport{}
	}}
	request, _ := AppendRequest(nil, Request{Nonce: 1, Hint: []byte("hint")}, key)
	changed := bytes.Clone(request)
	changed[100] ^= 1
	unkeyed, _ := AppendRequest(nil, Request{Nonce: 1}, nil)
	for reason, datagram := range map[Malformed][]byte{
		TooShort:       request[:95],
		TooLong:        make([]byte, DatagramBytesMax+1),
		NotAProbe:      make([]byte, 112),
		WrongKind:      AppendBegun(nil, 1, key),
		Unkeyed:        unkeyed,
		Authentication: changed,
	} {
		if reply := responder.Answer(nil, netip.AddrPort{}, datagram); reply != nil {
			t.Errorf("%s got a reply", reason.Name())
		}
		counts := responder.Counts()
		if counts.Refused(reason) != 1 {
			t.Errorf("%s is not counted", reason.Name())
		}
	}
	counts := responder.Counts()
	if counts.Answered != 0 || counts.Refused(Malformed(200)) != 0 {
		t.Errorf("%+v", counts)
	}
}

func TestBegunCopiesAreHandedOnAndNotAnswered(t *testing.T) {
	var got atomic.Uint64
	key := testKey(t, 1)
	from := netip.MustParseAddrPort("10.0.0.7:8000")
	responder := &Responder{Key: key, Begun: func(at netip.AddrPort, name uint64) {
		if at == from {
			got.Store(name)
		}
	}}
	if reply := responder.Answer(nil, from, AppendBegun(nil, 7, key)); reply != nil || got.Load() != 7 {
		t.Fatalf("%x, %d", reply, got.Load())
	}
	responder.Answer(nil, from, AppendBegun(nil, 8, testKey(t, 2)))
	counts := responder.Counts()
	if got.Load() != 7 || counts.Refused(Authentication) != 1 || counts.Refused(WrongKind) != 0 {
		t.Fatalf("%d, %+v", got.Load(), counts)
	}
}

// plainConn hides the methods of a UDP socket that other packet connections do not have.
type plainConn struct{ net.PacketConn }

// watchedConn notes the write deadlines of a connection.
type watchedConn struct {
	net.PacketConn
	deadlines []time.Time
}

func (c *watchedConn) SetWriteDeadline(deadline time.Time) error {
	c.deadlines = append(c.deadlines, deadline)
	return c.PacketConn.SetWriteDeadline(deadline)
}

func TestASocketCanBeServedAgain(t *testing.T) {
	conn, addr := listen(t)
	responder := &Responder{Report: func([]byte) policy.LoadReport { return policy.LoadReport{RIF: 7} }}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := responder.Serve(ended, conn); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	watched := &watchedConn{PacketConn: conn}
	go func() { served <- responder.Serve(ctx, watched) }()
	client, answers := newClient(t, ClientOptions[int]{})
	if err := client.Send(addr, 1, nil, longTimeout); err != nil {
		t.Fatal(err)
	}
	if answer := receive(t, answers); answer.Report.RIF != 7 {
		t.Errorf("answer %+v", answer)
	}
	stop()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if deadlines := watched.deadlines; len(deadlines) != 2 || deadlines[0].IsZero() || !deadlines[1].IsZero() {
		t.Errorf("write deadlines %v: expected one, and then none", deadlines)
	}
	if errs := responder.Counts().ReceiveErrors; errs != 0 {
		t.Errorf("%d errors on receiving", errs)
	}
}

// clearedConn is a socket whose first read deadline another reader clears at once.
type clearedConn struct {
	*net.UDPConn
	isCleared atomic.Bool
}

func (c *clearedConn) SetReadDeadline(deadline time.Time) error {
	if !c.isCleared.Swap(true) {
		deadline = time.Time{}
	}
	return c.UDPConn.SetReadDeadline(deadline)
}

func TestAResponderEndsThoughAnotherOneClearsTheDeadline(t *testing.T) {
	conn, _ := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- new(Responder).Serve(ctx, &clearedConn{UDPConn: conn}) }()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(longTimeout):
		t.Fatal("it goes on reading")
	}
}

func TestAResponderServesOtherPacketConnections(t *testing.T) {
	conn, addr := listen(t)
	responder := &Responder{Report: func([]byte) policy.LoadReport { return policy.LoadReport{RIF: 5} }}
	ended := make(chan error, 1)
	go func() { ended <- responder.Serve(context.Background(), plainConn{conn}) }()
	client, answers := newClient(t, ClientOptions[int]{Network: "udp4"})
	if err := client.Send(addr, 1, nil, longTimeout); err != nil {
		t.Fatal(err)
	}
	if answer := receive(t, answers); answer.Report.RIF != 5 {
		t.Fatalf("%+v", answer)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Fatalf("ended with %v", err)
	}
}

// failingConn fails to read a number of times, then is closed.
type failingConn struct {
	*net.UDPConn
	left atomic.Int64
}

func (c *failingConn) ReadFromUDPAddrPort([]byte) (int, netip.AddrPort, error) {
	if c.left.Add(-1) < 0 {
		return 0, netip.AddrPort{}, net.ErrClosed
	}
	return 0, netip.AddrPort{}, errors.New("the network is down")
}

func TestAResponderSurvivesErrorsOfTheNetwork(t *testing.T) {
	conn, _ := listen(t)
	failing := &failingConn{UDPConn: conn}
	failing.left.Store(errorsBeforePause)
	responder := &Responder{}
	if err := responder.Serve(context.Background(), failing); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("ended with %v", err)
	}
	if errs := responder.Counts().ReceiveErrors; errs != errorsBeforePause+1 {
		t.Fatalf("%d errors", errs)
	}
}

// fullConn takes no datagram, and counts how often it was tried.
type fullConn struct {
	datagramConn
	tries     int
	deadlines int
}

func (c *fullConn) SetWriteDeadline(time.Time) error {
	c.deadlines++
	return nil
}

func (c *fullConn) WriteToUDPAddrPort([]byte, netip.AddrPort) (int, error) {
	if c.tries++; c.tries > 3 {
		return 0, os.ErrDeadlineExceeded
	}
	return 0, nil
}

func TestAFullSocketIsNotWaitedForAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fullConn{}
		sender := sender{conn: conn, epoch: time.Now()}
		for i := range 6 {
			if err := sender.write(nil, netip.AddrPort{}); errors.Is(err, ErrFull) != (i >= 3) {
				t.Fatalf("write %d: %v", i, err)
			}
		}
		if conn.tries != 4 || conn.deadlines != 1 {
			t.Fatalf("%d tries, %d deadlines", conn.tries, conn.deadlines)
		}
		time.Sleep(writePatience)
		if err := sender.write(nil, netip.AddrPort{}); !errors.Is(err, ErrFull) || conn.tries != 5 || conn.deadlines != 2 {
			t.Fatalf("%v, %d tries, %d deadlines", err, conn.tries, conn.deadlines)
		}
	})
}

func TestTheLongestDatagramIsAnsweredAndALongerOneRefused(t *testing.T) {
	// A padded request whose tag covers all of it.
	key := testKey(t, 1)
	responder := &Responder{Key: key, Report: func([]byte) policy.LoadReport { return policy.LoadReport{} }}
	addr := serve(t, responder)
	conn, _ := listen(t)
	for _, size := range []int{DatagramBytesMax, DatagramBytesMax + 1} {
		padded := append(appendBase(nil, kindRequest, 0, 7, key), make([]byte, size-baseBytes-tagBytes)...)
		if _, err := conn.WriteToUDPAddrPort(seal(padded, 0, key), addr); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "counts", func() bool {
		counts := responder.Counts()
		return counts.Answered == 1 && counts.Refused(TooLong) == 1
	})
}
