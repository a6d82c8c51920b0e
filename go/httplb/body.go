package httplb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// unknownLength is that of a body whose end only its end shows.
const unknownLength = -1

// leasedBody is a response's body, whose end ends the request. Close may run beside Read.
type leasedBody struct {
	inner    io.ReadCloser
	lease    *lease
	response *http.Response
	ctx      context.Context
	byHead   policy.Outcome
	// unwatch ends the watch over ctx.
	unwatch func() bool
	// left is the number of bytes to come, or unknownLength.
	left int64
}

// watch ends the request with its context, which ends the response of the base, too. Otherwise a
// client that then forgets to close the body would leave the request in flight permanently.
func (b *leasedBody) watch() {
	b.unwatch = func() bool { return true }
	if b.ctx.Done() != nil {
		b.unwatch = context.AfterFunc(b.ctx, func() { b.lease.finish(b.outcomeOfError(b.ctx.Err())) })
	}
}

func (b *leasedBody) finish(outcome policy.Outcome) {
	b.unwatch()
	b.lease.finish(outcome)
}

// Read reads the inner body. Its last byte ends the request.
func (b *leasedBody) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	if b.left != unknownLength {
		b.left = max(b.left-int64(n), 0)
	}
	switch {
	case errors.Is(err, io.EOF):
		b.finish(outcomeOfFields(b.response.Trailer, b.byHead))
	case err != nil:
		b.finish(b.outcomeOfError(err))
	case b.left == 0:
		b.finish(b.byHead)
	}
	return n, err
}

// outcomeOfError returns the outcome if a read fails. A client that gives up shows nothing that the
// head has not shown.
func (b *leasedBody) outcomeOfError(err error) policy.Outcome {
	outcome := outcomeOfError(b.ctx, err)
	if outcome == policy.OutcomeDropped {
		return b.ifDropped()
	}
	return outcome
}

// Close closes the inner body. If the request has not ended, its client has given it up.
func (b *leasedBody) Close() error {
	b.finish(b.ifDropped())
	return b.inner.Close()
}

func (b *leasedBody) ifDropped() policy.Outcome {
	if b.byHead == policy.OutcomeSuccess {
		return policy.OutcomeDropped
	}
	return b.byHead
}

// leasedTunnel is the connection of a response with status 101, in flight until it is closed.
type leasedTunnel struct {
	io.ReadWriteCloser
	lease *lease
}

// Close closes the connection, and ends the request.
func (t *leasedTunnel) Close() error {
	t.lease.finish(policy.OutcomeSuccess)
	return t.ReadWriteCloser.Close()
}

// CloseWrite closes the connection for writing only, where the base can do that.
func (t *leasedTunnel) CloseWrite() error {
	if inner, ok := t.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return inner.CloseWrite()
	}
	return fmt.Errorf("httplb: CloseWrite: %w", http.ErrNotSupported)
}

// hasNoBody reports whether nothing follows a response's head.
func hasNoBody(request *http.Request, response *http.Response) bool {
	return response.Body == nil || response.Body == http.NoBody || lengthOf(response) == 0 ||
		request.Method == http.MethodHead ||
		response.StatusCode == http.StatusNoContent || response.StatusCode == http.StatusNotModified
}

// lengthOf returns the length of a response's body. With trailers, the length does not show the
// end. Those of gRPC may come without an announcement.
func lengthOf(response *http.Response) int64 {
	if response.ContentLength < 0 || response.Uncompressed || len(response.Trailer) > 0 ||
		probe.IsGRPC(response.Header) {
		return unknownLength
	}
	return response.ContentLength
}

// requestBody is a request's body that notes its own failure, of which the replica is innocent.
type requestBody struct {
	io.ReadCloser
	isClosed, hasFailed atomic.Bool
}

// Read reads the inner body.
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	// Once the base has closed it, an error shows only that.
	if err != nil && !errors.Is(err, io.EOF) && !b.isClosed.Load() {
		b.hasFailed.Store(true)
	}
	return n, err
}

// Close closes the inner body. The base does so when the replica breaks off, too, while a read may
// be waiting.
func (b *requestBody) Close() error {
	b.isClosed.Store(true)
	return b.ReadCloser.Close()
}
