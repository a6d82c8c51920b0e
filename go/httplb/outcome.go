package httplb

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/slackwater/slackwater/go/internal/grpcstatus"
	"github.com/slackwater/slackwater/go/policy"
)

// Header keys in their canonical form.
const (
	retryAfter   = "Retry-After"
	grpcStatus   = "Grpc-Status"
	grpcPushback = "Grpc-Retry-Pushback-Ms"
)

// outcomeOfHead returns how a request ends by its response's head, if the body arrives whole.
func outcomeOfHead(response *http.Response) policy.Outcome {
	outcome := outcomeOfFields(response.Header, policy.OutcomeSuccess)
	status := response.StatusCode
	if outcome == policy.OutcomeSuccess && status >= 500 {
		outcome = policy.OutcomeFailed
	}
	// A 503 without the header may have any cause, and a 429 without it blames the caller.
	refuses := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	if refuses && len(response.Header[retryAfter]) > 0 {
		outcome = policy.OutcomePushedBack
	}
	return outcome
}

// outcomeOfFields returns how a request ends by the gRPC status in a head or in trailers.
func outcomeOfFields(fields http.Header, byHead policy.Outcome) policy.Outcome {
	values := fields[grpcStatus]
	if len(values) == 0 {
		return byHead
	}
	status, ok := grpcstatus.Parse(values[0])
	switch {
	case !ok || !status.BlamesServer():
		return byHead
	case status.MayPushBack() && len(fields[grpcPushback]) > 0:
		return policy.OutcomePushedBack
	}
	return policy.OutcomeFailed
}

// outcomeOfError returns how a request ended for which there is no response, or whose body broke.
// The context's own end comes first, since it may show as any error.
func outcomeOfError(ctx context.Context, err error) policy.Outcome {
	switch ended := endOf(ctx); {
	case errors.Is(ended, context.DeadlineExceeded):
		return policy.OutcomeTimedOut
	case ended != nil:
		return policy.OutcomeDropped
	}
	var (
		operation *net.OpError
		name      *net.DNSError
		record    tls.RecordHeaderError
		verify    *tls.CertificateVerificationError
		timeout   interface{ Timeout() bool }
	)
	switch {
	case errors.As(err, &operation) && operation.Op == "dial",
		errors.As(err, &name), errors.As(err, &record), errors.As(err, &verify):
		return policy.OutcomeNoConnection
	case errors.As(err, &timeout) && timeout.Timeout():
		return policy.OutcomeTimedOut
	}
	return policy.OutcomeBroken
}

// endOf returns why the context has ended, or nil. A context knows of its deadline a moment late:
// with [http.Client.Timeout], a timer of net/http may have cut the request before.
func endOf(ctx context.Context) error {
	err := ctx.Err()
	if deadline, ok := ctx.Deadline(); err == nil && ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return err
}
