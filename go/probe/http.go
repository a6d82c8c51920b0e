package probe

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

const (
	httpOutstandingDefault = 256
	idlePerReplica         = 4
	// bodyBytesMax is the most of a body that is read to keep its connection. The answer to a probe
	// has none.
	bodyBytesMax = 4 << 10
	// bodyPatience is how long that takes at most. The report has come with the head.
	bodyPatience  = 10 * time.Millisecond
	headBytesMax  = 64 << 10
	idleKeptAlive = 90 * time.Second
)

// HTTPClient probes replicas by HTTP, at several times the cost of UDP and through everything that
// speaks HTTP. The zero value is ready to use. It is safe for concurrent use, and its fields do not
// change once it is used.
type HTTPClient struct {
	// Client sends probes. Default nil: one that has up to 64 connections to each replica, keeps
	// four, uses no proxy and follows no redirect. The transport of yours should be [Bounded].
	Client *http.Client
	// Key signs probes, and reports must be signed with it. Default nil: nothing is signed.
	Key *Key
	// Outstanding is the most probes that are outstanding at once. One more is refused. Default (0)
	// 256.
	Outstanding int

	once        sync.Once
	client      *http.Client
	outstanding atomic.Int64
	draining    atomic.Int64
	counts      struct{ sent, answered, full, unsupported, broken, timedOut, status, report atomic.Uint64 }
}

// HTTPCounts counts what has happened to an [HTTPClient]'s probes since its start.
type HTTPCounts struct {
	// Sent counts probes that went out, or would have if a connection could have been opened.
	Sent uint64
	// Answered counts reports that were accepted.
	Answered uint64
	// RefusedFull counts probes that [ErrFull] refused.
	RefusedFull uint64
	// RefusedUnsupported counts probes with too long a hint or no valid URL.
	RefusedUnsupported uint64
	// Broken counts probes whose connection could not be opened, or broke.
	Broken uint64
	// TimedOut counts probes that their context ended.
	TimedOut uint64
	// BadStatus counts answers with another status than 2xx.
	BadStatus uint64
	// BadReport counts answers whose headers are no report, or are not signed as they must be.
	BadReport uint64
}

// Counts returns what has happened so far.
func (c *HTTPClient) Counts() HTTPCounts {
	return HTTPCounts{
		Sent: c.counts.sent.Load(), Answered: c.counts.answered.Load(),
		RefusedFull: c.counts.full.Load(), RefusedUnsupported: c.counts.unsupported.Load(),
		Broken: c.counts.broken.Load(), TimedOut: c.counts.timedOut.Load(),
		BadStatus: c.counts.status.Load(), BadReport: c.counts.report.Load(),
	}
}

// Probe returns the report of the replica that answers probes at url, such as
// "http://10.0.0.7:8000/prequal/probe". It ends with ctx, which should have a deadline. Hint says
// what the query is about, at most [HintBytesMax] bytes; nil is none.
func (c *HTTPClient) Probe(ctx context.Context, url string, hint []byte) (policy.LoadReport, error) {
	report, err := c.probe(ctx, url, hint)
	if err != nil {
		return policy.LoadReport{}, fmt.Errorf("probe of %s: %w", url, err)
	}
	c.counts.answered.Add(1)
	return report, nil
}

func (c *HTTPClient) probe(ctx context.Context, url string, hint []byte) (report policy.LoadReport, err error) {
	most := int64(c.Outstanding)
	if most == 0 {
		most = httpOutstandingDefault
	}
	defer c.outstanding.Add(-1)
	if c.outstanding.Add(1) > most {
		c.counts.full.Add(1)
		return report, ErrFull
	}
	// A body may be read after ctx has ended.
	bounded, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, cancel)()
	request, challenge, err := c.request(bounded, url, hint)
	if err != nil {
		cancel()
		c.counts.unsupported.Add(1)
		return report, err
	}
	c.counts.sent.Add(1)
	response, err := c.httpClient().Do(request)
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			c.counts.timedOut.Add(1)
			return report, ctx.Err()
		}
		c.counts.broken.Add(1)
		return report, err
	}
	// The head has the report.
	if response.ContentLength == 0 || c.draining.Load() >= most {
		_ = response.Body.Close()
		cancel()
	} else {
		c.draining.Add(1)
		go c.drain(response.Body, cancel)
	}
	if response.StatusCode/100 != 2 {
		c.counts.status.Add(1)
		return report, fmt.Errorf("the answer has status %d", response.StatusCode)
	}
	if c.Key != nil {
		err = CheckReport(response.Header, c.Key, challenge)
	}
	if err == nil {
		report, err = ReadReport(response.Header)
	}
	if err != nil {
		c.counts.report.Add(1)
	}
	return report, err
}

// drain reads the rest of a body, so that its connection can be used again, and closes it.
func (c *HTTPClient) drain(body io.ReadCloser, cancel context.CancelFunc) {
	defer c.draining.Add(-1)
	defer cancel()
	defer time.AfterFunc(bodyPatience, cancel).Stop()
	_, _ = io.CopyN(io.Discard, body, bodyBytesMax)
	_ = body.Close()
}

func (c *HTTPClient) request(ctx context.Context, url string, hint []byte) (*http.Request, Challenge, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	if err := WriteHint(request.Header, hint); err != nil {
		return nil, "", err
	}
	var challenge Challenge
	if c.Key != nil {
		var nonce [8]byte
		_, _ = rand.Read(nonce[:]) // never fails
		challenge = SignProbe(request.Header, c.Key, time.Now(), binary.NativeEndian.Uint64(nonce[:]))
	}
	return request, challenge, nil
}

func (c *HTTPClient) httpClient() *http.Client {
	if c.Client != nil {
		return c.Client
	}
	c.once.Do(func() {
		c.client = &http.Client{
			Transport: Bounded(&http.Transport{
				DisableCompression:     true,
				MaxIdleConnsPerHost:    idlePerReplica,
				IdleConnTimeout:        idleKeptAlive,
				MaxResponseHeaderBytes: headBytesMax,
			}),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	})
	return c.client
}

// CloseIdleConnections closes connections that no probe uses. Call it when no more probes are sent.
func (c *HTTPClient) CloseIdleConnections() { c.httpClient().CloseIdleConnections() }
