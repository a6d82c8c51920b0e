package httplb

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes in memory.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	close    sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.close.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 80} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.accepted <- server
	return &mutable{Conn: client, muted: make(chan struct{}), closed: make(chan struct{})}, nil
}

// mutable is a connection that can be muted: the network then loses everything, and says nothing.
type mutable struct {
	net.Conn
	muted, closed chan struct{}
	close         sync.Once
}

func (m *mutable) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	select {
	case <-m.muted:
		<-m.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (m *mutable) Write(b []byte) (int, error) {
	select {
	case <-m.muted:
		return len(b), nil
	default:
		return m.Conn.Write(b)
	}
}

func (m *mutable) Close() error {
	m.close.Do(func() { close(m.closed) })
	return m.Conn.Close()
}

// A connection of HTTP/2 that is dead without an end is given up after some seconds, although
// requests with deadlines of their own keep it busy.
func TestDeadConnectionIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{
			Protocols: protocols,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "ok")
			}),
		}
		served := make(chan error)
		go func() { served <- server.Serve(network) }()
		base := NewBase()
		base.Protocols = protocols
		var first *mutable
		base.DialContext = func(ctx context.Context, protocol, address string) (net.Conn, error) {
			conn, err := network.dial(ctx, protocol, address)
			if first == nil {
				first = conn.(*mutable)
			}
			return conn, err
		}
		transport, err := New(URLs("http://10.0.0.1"), WithBase(base), WithoutProbes())
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: transport, Timeout: 300 * time.Millisecond}
		get := func() error {
			response, err := client.Get("http://service/")
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, response.Body)
			return errors.Join(err, response.Body.Close())
		}
		if err := get(); err != nil {
			t.Fatal(err)
		}
		close(first.muted)
		// This time is virtual.
		began := time.Now()
		for get() != nil && time.Since(began) < time.Minute {
		}
		if after := time.Since(began); after > silentMax+pingMax+client.Timeout {
			t.Errorf("the connection was given up after %v", after)
		}
		base.CloseIdleConnections()
		_ = transport.Close()
		_ = server.Close()
		<-served
	})
}
