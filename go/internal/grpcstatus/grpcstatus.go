// Package grpcstatus knows which statuses of gRPC calls blame the server. The others are about the
// caller's request, and a good answer to a bad request is a success.
package grpcstatus

import "strconv"

// The numbers of gRPC's statuses that blame the server.
const (
	unknown           = 2
	deadlineExceeded  = 4
	resourceExhausted = 8
	unimplemented     = 12
	internal          = 13
	unavailable       = 14
	dataLoss          = 15
)

// Code is the number of a status. Numbers that gRPC does not define blame no server.
type Code uint32

// Parse reads the value of grpc-status. It returns false if that is not a number.
func Parse(value string) (Code, bool) {
	code, err := strconv.ParseUint(value, 10, 32)
	return Code(code), err == nil
}

// BlamesServer reports whether the status says that the server failed.
func (c Code) BlamesServer() bool {
	switch c {
	case unknown, deadlineExceeded, resourceExhausted, unimplemented, internal, unavailable, dataLoss:
		return true
	}
	return false
}

// MayPushBack reports whether the status, with grpc-retry-pushback-ms beside it, shows load and not
// a failure.
func (c Code) MayPushBack() bool {
	switch c {
	case deadlineExceeded, resourceExhausted, unavailable:
		return true
	}
	return false
}
