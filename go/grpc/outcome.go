package slackwatergrpc

import (
	"context"
	"strings"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/internal/grpcstatus"
	"github.com/slackwater/slackwater/go/policy"
)

// Texts of gRPC, which has no other sign of these. After all but a reset for other reasons, the
// server has not begun the call, and gRPC may send it again.
const (
	textDraining = "the connection is draining"
	textGoAway   = "the stream is rejected because server is draining the connection"
	textReset    = "stream terminated by RST_STREAM with error code: "
	textRefused  = textReset + "REFUSED_STREAM"
)

// pushbackKey is the trailer by which a server rejects a call and allows a later retry.
const pushbackKey = "grpc-retry-pushback-ms"

// neverSent reports whether a picked call was not sent: the connection had just left READY, and
// gRPC picks again. gRPC says so by an empty DoneInfo, which looks like a success otherwise.
func neverSent(info *balancer.DoneInfo) bool {
	return info.Err == nil && !info.BytesSent && !info.BytesReceived
}

// endedHere reports whether a call failed within this client, so that it shows nothing about the
// endpoint: it got no stream because of its own credentials or metadata, or its message is larger
// than the client may send.
//
// A stream that cannot be opened because the connection is lost has UNAVAILABLE. So do credentials
// that fail with that code, and gRPC offers nothing to tell the two apart.
func endedHere(info *balancer.DoneInfo, code codes.Code) bool {
	if info.BytesReceived {
		return false
	}
	switch code {
	case codes.OK:
		return false
	case codes.ResourceExhausted:
		return !strings.HasPrefix(status.Convert(info.Err).Message(), textReset)
	case codes.Unavailable, codes.DeadlineExceeded:
		return false
	}
	return !info.BytesSent
}

// notBegun reports whether the server has not begun a call.
func notBegun(info *balancer.DoneInfo) bool {
	if info.BytesReceived {
		return false
	}
	switch status.Convert(info.Err).Message() {
	case textDraining, textGoAway, textRefused:
		return true
	}
	return false
}

// outcomeOf returns how a call ended that was sent, or that could not be sent. A response that is
// larger than the client may receive is a failure, because it has the status of a server that is
// exhausted.
func outcomeOf(ctx context.Context, info *balancer.DoneInfo) policy.Outcome {
	code := status.Code(info.Err)
	blame := grpcstatus.Code(code)
	switch {
	case notBegun(info) && info.BytesSent:
		// A server may end connections in order, or be busy, but one that does so for each call
		// must not get most of them.
		return policy.OutcomePushedBack
	case notBegun(info), endedHere(info, code):
		return policy.OutcomeDropped
	case info.BytesSent && !info.BytesReceived && (info.Err == nil || ctx.Err() == nil):
		// A stream that the server resets has the code of the reset, be it CANCELLED. There is no
		// error if the client noticed the end while it still sent, of a call begun or not.
		return policy.OutcomeBroken
	case !blame.BlamesServer():
		// A status CANCELLED that the server sent is an answer. One of the client's own is not.
		if code == codes.Canceled && ctx.Err() != nil {
			return policy.OutcomeDropped
		}
		return policy.OutcomeSuccess
	case blame.MayPushBack() && len(info.Trailer[pushbackKey]) > 0:
		return policy.OutcomePushedBack
	case code == codes.DeadlineExceeded && ctx.Err() != nil:
		return policy.OutcomeTimedOut
	case !info.BytesSent:
		return policy.OutcomeNoConnection
	case !info.BytesReceived:
		return policy.OutcomeBroken
	default:
		return policy.OutcomeFailed
	}
}
