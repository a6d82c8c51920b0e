package httplb

import (
	"net"
	"net/http"
)

// NewBase returns a new transport with settings for few replicas and many requests to each. Unlike
// [http.DefaultTransport], it uses no proxy, keeps up to 256 idle connections to each replica, and
// gives up to connect after 2 s. An HTTP/2 connection on which nothing has come for 2 s is checked
// by a ping, and closed if that is not answered within 1 s. As there, a request with "Expect:
// 100-continue" waits up to 1 s for the replica before its body is sent. It may be changed before
// use. To speak HTTP/2 without TLS (h2c):
//
//	base := httplb.NewBase()
//	base.Protocols = new(http.Protocols)
//	base.Protocols.SetUnencryptedHTTP2(true)
func NewBase() *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: connectMax}).DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    idlePerReplica,
		IdleConnTimeout:        idleConnMax,
		TLSHandshakeTimeout:    handshakeTimeout,
		ExpectContinueTimeout:  expectContinueMax,
		MaxResponseHeaderBytes: headBytesMax,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: silentMax, PingTimeout: pingMax},
	}
}
