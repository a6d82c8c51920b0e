package slackwatergrpc

import (
	"context"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/internal/grpcstatus"
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
	blame := grpcstatus.Code(code)
	switch {
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
