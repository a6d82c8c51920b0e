package load

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/load"
)

// pushbackKey is the trailer by which a server rejects a call and allows a later retry.
const pushbackKey = "grpc-retry-pushback-ms"

// endOf returns how a call ended, from the error of its end and from what its trailers said.
func endOf(ctx context.Context, err error, trailers trailerState) load.Outcome {
	if trailers == noTrailers {
		// Nothing was written. Either the client has left, or the handler panicked: gRPC reports the
		// end while the panic passes, and without an error.
		if ctx.Err() != nil {
			return load.Cancelled
		}
		return load.Failed
	}
	switch code := status.Code(err); code {
	case codes.Canceled:
		return load.Cancelled
	case codes.DeadlineExceeded:
		// gRPC cancels the context when it has written the status, which is another error than that
		// of a deadline that has passed.
		if trailers == pushbackTrailers || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return load.Cancelled
		}
		return load.Failed
	case codes.ResourceExhausted, codes.Unavailable:
		if trailers == pushbackTrailers {
			return load.Cancelled
		}
		return load.Failed
	case codes.Unknown, codes.Unimplemented, codes.Internal, codes.DataLoss:
		return load.Failed
	default:
		return load.Success
	}
}
