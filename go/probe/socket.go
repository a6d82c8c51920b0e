package probe

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// buffers holds the memory of datagrams that are written. One byte more than the longest datagram
// shows that a received one is too long.
var buffers = sync.Pool{New: func() any { return new([DatagramBytesMax + 1]byte) }}

const (
	// writePatience bounds how long a write waits for a full socket. A late probe, or a late reply,
	// is worth less than none.
	writePatience = 10 * time.Millisecond

	// After so many errors in a row there is a pause after each, so that a broken socket costs no
	// CPU time.
	errorsBeforePause = 8
	pauseAfterError   = 10 * time.Millisecond
)

// patience sets a socket's write deadline. It does so once for many writes, because a deadline of
// each write's own would be a large part of the cost of a write.
type patience struct {
	epoch time.Time
	until atomic.Int64 // nanoseconds since epoch
}

func (p *patience) extend(conn interface{ SetWriteDeadline(time.Time) error }) {
	now := int64(time.Since(p.epoch))
	until := p.until.Load()
	if until-now > int64(writePatience/2) || !p.until.CompareAndSwap(until, now+int64(writePatience)) {
		return
	}
	// If that fails, the socket is closed, and the write says so.
	_ = conn.SetWriteDeadline(p.epoch.Add(time.Duration(now) + writePatience))
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
