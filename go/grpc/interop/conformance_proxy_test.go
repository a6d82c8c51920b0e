package interop

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// carrier is how the proxy that is tested carries requests.
type carrier string

const (
	// bare is httputil.ReverseProxy alone: it shows what fails without Slackwater, too.
	bare carrier = "bare"
	// balanced is the same with httplb under it and httpload around it.
	balanced carrier = "balanced"
)

// The beginnings of lines that a proxy writes to standard error: what it counted, and what was
// wrong.
const (
	proxySummary = "slackwater proxy counted:"
	proxyFailure = "slackwater proxy failed:"
)

// replicasOfProxy is the number of replicas before which the proxy stands.
const replicasOfProxy = 3

// proxy is an HTTP server that passes all requests on to replicas.
type proxy struct {
	server   *http.Server
	listener net.Listener
	// closeBalancer ends what balances.
	closeBalancer func()
	// check returns what the balancer has counted, and an error if the counts cannot be right.
	check func() (string, error)
}

// startProxy starts a proxy on a free port of loopback. It speaks one version of HTTP on both
// sides, so that a request arrives as it was sent.
func startProxy(ctx context.Context, how carrier, addresses []string, http2 bool) (*proxy, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	inner := &http.Transport{
		Protocols: &protocols,
		// Else the transport would request and remove a compression that the client did not ask for.
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
	}
	p := &proxy{listener: listener, closeBalancer: func() {}, check: func() (string, error) { return "", nil }}
	var transport http.RoundTripper = inner
	target := &url.URL{Scheme: "http", Host: addresses[0]}
	var around func(http.Handler) http.Handler = func(next http.Handler) http.Handler { return next }
	if how == balanced {
		transport, around, err = p.balance(ctx, inner, addresses)
		if err != nil {
			return nil, fmt.Errorf("balancer: %w", err)
		}
	}
	reverse := &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(target)
			request.Out.Host = request.In.Host
			// Of a stream that its server ends first, ReverseProxy waits for the rest of the request,
			// because it does not pass Close on to the body. The client waits, too, for the end of the
			// response. The body of HTTP/2 may be closed while it is read.
			if http2 && request.Out.Body != nil {
				request.Out.Body = request.In.Body
			}
		},
		Transport: transport,
		// Streams must not wait for more.
		FlushInterval: -1,
		// Cancelled requests are part of the suite.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	passing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Else the server of HTTP/1.1 reads the rest of the request once the response begins, and the
		// transport, which still sends it, breaks off. HTTP/2 has no such mode, and needs none.
		_ = http.NewResponseController(w).EnableFullDuplex()
		reverse.ServeHTTP(w, r)
	})
	p.server = &http.Server{
		Handler:           around(passing),
		Protocols:         &protocols,
		ReadHeaderTimeout: 5 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// port returns where the proxy listens.
func (p *proxy) port() uint16 {
	return p.listener.Addr().(*net.TCPAddr).AddrPort().Port()
}

// close ends the proxy, its connections included.
func (p *proxy) close() error {
	summary, err := p.check()
	p.closeBalancer()
	_ = p.server.Close()
	if summary != "" {
		fmt.Fprintln(os.Stderr, proxySummary, summary)
	}
	return err
}

// runServerUnderTest is a conformance server: a proxy before three reference servers. It ends with
// SIGTERM.
func runServerUnderTest(how carrier, referenceServer string, in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	request, err := readMessage(in)
	if err != nil {
		return fmt.Errorf("ServerCompatRequest: %w", err)
	}
	version, err := varintOf(request, serverRequestVersion)
	if err != nil {
		return fmt.Errorf("ServerCompatRequest: %w", err)
	}
	var addresses []string
	var answer []byte
	for range replicasOfProxy {
		reference, err := startReferenceServer(ctx, referenceServer, request)
		if err != nil {
			return err
		}
		defer reference.end()
		addresses = append(addresses, reference.address)
		answer = reference.answer
	}
	p, err := startProxy(ctx, how, addresses, version == httpVersion2)
	if err != nil {
		return err
	}
	answer, err = withAddress(answer, serverResponseHost, serverResponsePort, "127.0.0.1", p.port())
	if err != nil {
		return fmt.Errorf("ServerCompatResponse: %w", err)
	}
	if err := writeMessage(out, answer); err != nil {
		return err
	}
	<-ctx.Done()
	return p.close()
}

// runClientUnderTest is a conformance client: the reference client, whose requests go through
// proxies before the servers that they are for.
func runClientUnderTest(how carrier, referenceClient string, in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	client, stdin, err := startReferenceClient(ctx, referenceClient, out)
	if err != nil {
		return err
	}
	proxies := map[string]*proxy{}
	pass := func() error {
		for {
			request, err := readMessage(in)
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			request, err = throughProxy(ctx, how, request, proxies)
			if err != nil {
				return fmt.Errorf("ClientCompatRequest: %w", err)
			}
			if err := writeMessage(stdin, request); err != nil {
				return err
			}
		}
	}
	passed := pass()
	_ = stdin.Close()
	ended := client.Wait()
	for _, p := range proxies {
		if err := p.close(); err != nil && passed == nil {
			passed = err
		}
	}
	if passed != nil {
		return passed
	}
	return ended
}

// throughProxy returns a request of the suite with the address of a proxy in place of the server's.
func throughProxy(ctx context.Context, how carrier, request []byte, proxies map[string]*proxy) ([]byte, error) {
	version, err := varintOf(request, clientRequestVersion)
	if err != nil {
		return nil, err
	}
	port, err := varintOf(request, clientRequestPort)
	if err != nil {
		return nil, err
	}
	key := fmt.Sprint(version, ":", port)
	p := proxies[key]
	if p == nil {
		// One server under three names, which are three replicas.
		var addresses []string
		for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
			addresses = append(addresses, fmt.Sprint(host, ":", port))
		}
		if p, err = startProxy(ctx, how, addresses, version == httpVersion2); err != nil {
			return nil, err
		}
		proxies[key] = p
	}
	return withAddress(request, clientRequestHost, clientRequestPort, "127.0.0.1", p.port())
}
