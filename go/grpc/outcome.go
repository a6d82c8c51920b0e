package slackwatergrpc

import (
	"context"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/policy"
)

// pushbackKey is the trailer by which a server rejects a call and allows a later retry.
const pushbackKey = "grpc-retry-pushback-ms"

// neverSent reports whether a picked call was not sent: the connection had just left READY, and
// gRPC picks again. gRPC says so by an empty DoneInfo, which looks like a success otherwise.
func neverSent(info *balancer.DoneInfo) bool {
	return info.Err == nil && !info.BytesSent && !info.BytesReceived
}

// outcomeOf returns how a call ended that was sent, or that could not be sent.
func outcomeOf(ctx context.Context, info *balancer.DoneInfo) policy.Outcome {
	code := status.Code(info.Err)
	switch {
	case !blamesServer(code):
		// A status CANCELLED that the server sent is an answer. One of the client's own is not.
		if code == codes.Canceled && ctx.Err() != nil {
			return policy.OutcomeDropped
		}
		return policy.OutcomeSuccess
	case mayPushBack(code) && len(info.Trailer[pushbackKey]) > 0:
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

// blamesServer reports whether a status says that the server failed. The others are about the
// caller's request, and a good answer to a bad request is a success.
func blamesServer(code codes.Code) bool {
	switch code {
	case codes.Unknown, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Unimplemented,
		codes.Internal, codes.Unavailable, codes.DataLoss:
		return true
	}
	return false
}

// mayPushBack reports whether a status with pushback in its trailers shows load and not a failure.
func mayPushBack(code codes.Code) bool {
	switch code {
	case codes.DeadlineExceeded, codes.ResourceExhausted, codes.Unavailable:
		return true
	}
	return false
}
