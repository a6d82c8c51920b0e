package load

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/internal/grpcstatus"
	"github.com/slackwater/slackwater/go/load"
)

// pushbackKey is the trailer by which a server rejects a call and allows a later retry.
const pushbackKey = "grpc-retry-pushback-ms"

// endOf returns how a call ended, from the error of its end, from whether its handler has returned,
// and from what its trailers said.
func endOf(ctx context.Context, err error, returned bool, trailers trailerState) load.Outcome {
	if trailers == noTrailers {
		// Nothing was written. Either the client has left, or the handler panicked: gRPC reports the
		// end while the panic passes, and without an error. The context alone does not tell: gRPC
		// ends a stream a moment before its context.
		if returned || err != nil || ctx.Err() != nil {
			return load.Cancelled
		}
		return load.Failed
	}
	code := status.Code(err)
	blame := grpcstatus.Code(code)
	switch {
	case code == codes.Canceled, trailers == pushbackTrailers && blame.MayPushBack():
		return load.Cancelled
	case code == codes.DeadlineExceeded && errors.Is(ctx.Err(), context.DeadlineExceeded):
		// gRPC cancels the context when it has written the status, which is another error than that
		// of a deadline that has passed.
		return load.Cancelled
	case blame.BlamesServer():
		return load.Failed
	}
	return load.Success
}
