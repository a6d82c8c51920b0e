package httpload

import (
	"net/http"

	"github.com/slackwater/slackwater/go/internal/grpcstatus"
	"github.com/slackwater/slackwater/go/load"
)

// Headers and trailers in which gRPC reports how a call ended.
const (
	grpcStatus   = "Grpc-Status"
	grpcPushback = "Grpc-Retry-Pushback-Ms"
)

// headOutcome returns how a request ends according to the head of its response. A pushback is load
// and no failure. A 503 without retry-after may have any cause, and is a failure; a 429 without it
// blames the client.
func headOutcome(status int, header http.Header) load.Outcome {
	isRefusal := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	if _, ok := header["Retry-After"]; ok && isRefusal {
		return load.Cancelled
	}
	if outcome := grpcOutcome(header, ""); outcome != load.Success {
		return outcome
	}
	if status >= http.StatusInternalServerError {
		return load.Failed
	}
	return load.Success
}

// trailersOutcome returns how a request ends according to the trailers of its response. Handlers
// set them in the same map as headers, with or without the prefix for those that were not
// announced.
func trailersOutcome(header http.Header) load.Outcome {
	if outcome := grpcOutcome(header, http.TrailerPrefix); outcome != load.Success {
		return outcome
	}
	return grpcOutcome(header, "")
}

func grpcOutcome(header http.Header, prefix string) load.Outcome {
	values := header[prefix+grpcStatus]
	if len(values) == 0 {
		return load.Success
	}
	status, ok := grpcstatus.Parse(values[0])
	if !ok || !status.BlamesServer() {
		return load.Success
	}
	if _, pushesBack := header[prefix+grpcPushback]; pushesBack && status.MayPushBack() {
		return load.Cancelled
	}
	return load.Failed
}
