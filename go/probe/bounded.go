package probe

import (
	"context"
	"net"
	"net/http"
	"time"
)

const (
	// connectMax is how long connecting takes at most, and again the TLS handshake.
	connectMax = 2 * time.Second
	// connectionsMax is the most connections to one replica.
	connectionsMax = 64
)

// dial opens a connection, as [http.Transport.DialContext] does.
type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Bounded limits what a transport does beyond its requests, and returns it: at most 2 s for
// connecting and as much for the TLS handshake, and, unless it has a limit, 64 connections to each
// host. Connecting goes on after its probe, for the next one, so a replica that is silent could
// otherwise have any number of connections. The deprecated dial functions are not limited.
func Bounded(transport *http.Transport) *http.Transport {
	if transport.MaxConnsPerHost == 0 {
		transport.MaxConnsPerHost = connectionsMax
	}
	//lint:ignore SA1019 a transport may still have it, and it takes precedence over the default
	if transport.DialContext == nil && transport.Dial == nil {
		transport.DialContext = (&net.Dialer{}).DialContext
	}
	if transport.TLSHandshakeTimeout <= 0 || transport.TLSHandshakeTimeout > connectMax {
		transport.TLSHandshakeTimeout = connectMax
	}
	transport.DialContext = inTime(transport.DialContext)
	transport.DialTLSContext = inTime(transport.DialTLSContext)
	return transport
}

// inTime returns a dial that takes connectMax at most, or nil for nil.
func inTime(dial dial) dial {
	if dial == nil {
		return nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connectMax)
		defer cancel()
		return dial(ctx, network, address)
	}
}
