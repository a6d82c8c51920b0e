package probe

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// buffers holds the memory of datagrams that are written. One byte more than the longest datagram
// shows that a received one is too long.
var buffers = sync.Pool{New: func() any { return new([DatagramBytesMax + 1]byte) }}

const (
	// writePatience bounds how long a write waits for a full socket. A late probe, or a late reply,
	// is worth less than none.
	writePatience = 10 * time.Millisecond

	// From this many errors in a row on, there is a pause after each, so that a broken socket costs
	// no CPU time.
	errorsBeforePause = 8
	pauseAfterError   = 10 * time.Millisecond
)

// sender writes to a socket, and waits for a full one only so long. It sets the write deadline once
// for many writes, because a deadline of each write's own would be a large part of the cost of a
// write. After a write that waited in vain, others do not wait for a while.
type sender struct {
	conn  datagramConn
	epoch time.Time

	mu                  sync.Mutex
	deadline, fullUntil time.Duration // since epoch
}

// write returns ErrFull if the socket is full.
func (s *sender) write(datagram []byte, to netip.AddrPort) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.epoch)
	if now < s.fullUntil {
		return ErrFull
	}
	if s.deadline-now < writePatience/2 {
		s.deadline = now + writePatience
		// If that fails, the socket is closed, and the write says so.
		_ = s.conn.SetWriteDeadline(s.epoch.Add(s.deadline))
	}
	_, err := s.conn.WriteToUDPAddrPort(datagram, to)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.fullUntil = time.Since(s.epoch) + writePatience
		return ErrFull
	}
	return err
}

// datagramConn is a socket whose addresses cost no allocation.
type datagramConn interface {
	ReadFromUDPAddrPort(b []byte) (n int, from netip.AddrPort, err error)
	WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error)
	SetWriteDeadline(time.Time) error
}

// asDatagramConn returns conn itself if it is a UDP socket of package net.
func asDatagramConn(conn net.PacketConn) datagramConn {
	if direct, ok := conn.(datagramConn); ok {
		return direct
	}
	return packetConn{conn}
}

// packetConn makes any other net.PacketConn a datagramConn.
type packetConn struct{ net.PacketConn }

func (c packetConn) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	n, from, err := c.ReadFrom(b)
	if err != nil {
		return n, netip.AddrPort{}, err
	}
	if udp, ok := from.(*net.UDPAddr); ok {
		return n, udp.AddrPort(), nil
	}
	addr, err := netip.ParseAddrPort(from.String())
	return n, addr, err
}

func (c packetConn) WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error) {
	return c.WriteTo(b, net.UDPAddrFromAddrPort(to))
}
