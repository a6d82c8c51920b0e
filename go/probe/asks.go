package probe

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
)

// Headers by which a request says what it asks for besides its answer.
const (
	// HeaderTimeout is the time that a request has left, in milliseconds: up to 12 digits.
	HeaderTimeout = "X-Slackwater-Timeout-Ms"
	// HeaderGRPCTimeout is the same for gRPC calls: up to 8 digits and a unit.
	HeaderGRPCTimeout = "Grpc-Timeout"
	// HeaderPriority is a request's priority: interactive, batch or shadow.
	HeaderPriority = "X-Slackwater-Priority"
)

const (
	timeoutDigitsMax = 12
	timeoutMax       = 999_999_999_999
	grpcDigitsMax    = 8
	grpcMax          = 99_999_999
)

// Priority is how urgent a request is. A replica that is full serves the most urgent first.
type Priority uint8

// The priorities, the most urgent first.
const (
	// Interactive: a person waits. The default.
	Interactive Priority = iota
	// Batch: no person waits, but the answer is needed.
	Batch
	// Shadow: a copy whose answer is not needed.
	Shadow
)

var priorityNames = [...]string{Interactive: "interactive", Batch: "batch", Shadow: "shadow"}

// String returns the priority's name in [HeaderPriority].
func (p Priority) String() string {
	if int(p) < len(priorityNames) {
		return priorityNames[p]
	}
	return fmt.Sprintf("Priority(%d)", uint8(p))
}

// ReadPriority returns the priority in a request's header. Without one, or with an unknown one, it
// is [Interactive].
func ReadPriority(header http.Header) Priority {
	for i, name := range priorityNames {
		if header.Get(HeaderPriority) == name {
			return Priority(i)
		}
	}
	return Interactive
}

// WritePriority sets a request's priority.
func WritePriority(header http.Header, priority Priority) {
	header[HeaderPriority] = []string{priority.String()}
}

// grpcUnits are gRPC's units of time, the finest first.
var grpcUnits = [...]struct {
	name byte
	span time.Duration
}{
	{'n', time.Nanosecond},
	{'u', time.Microsecond},
	{'m', time.Millisecond},
	{'S', time.Second},
	{'M', time.Minute},
	{'H', time.Hour},
}

// ReadTimeout returns the time that a request has left according to its header, and whether that
// says so. It is a span from the moment the request is read, so no two clocks are compared. Of two
// values the smaller counts; malformed ones are ignored.
func ReadTimeout(header http.Header) (time.Duration, bool) {
	left, ok := readMillis(header[HeaderTimeout])
	grpc, grpcOK := readGRPC(header[HeaderGRPCTimeout])
	if ok && grpcOK {
		return min(left, grpc), true
	}
	return left + grpc, ok || grpcOK // what is not there is 0
}

func readMillis(values []string) (time.Duration, bool) {
	if len(values) == 0 || len(values[0]) > timeoutDigitsMax {
		return 0, false
	}
	millis, ok := parseDigits(values[0])
	return time.Duration(millis) * time.Millisecond, ok
}

func readGRPC(values []string) (time.Duration, bool) {
	if len(values) == 0 || values[0] == "" || len(values[0]) > grpcDigitsMax+1 {
		return 0, false
	}
	last := len(values[0]) - 1
	number, ok := parseDigits(values[0][:last])
	for _, unit := range grpcUnits {
		if ok && unit.name == values[0][last] {
			if number > uint64(math.MaxInt64/unit.span) {
				return math.MaxInt64, true
			}
			return time.Duration(number) * unit.span, true
		}
	}
	return 0, false
}

// WriteTimeout sets the time that a request has left, rounded down: as gRPC does if the header is
// that of a gRPC call, else in [HeaderTimeout].
func WriteTimeout(header http.Header, left time.Duration) {
	left = max(left, 0)
	if _, has := header[HeaderGRPCTimeout]; !has && !IsGRPC(header) {
		header[HeaderTimeout] = []string{fmt.Sprint(min(int64(left/time.Millisecond), timeoutMax))}
		return
	}
	delete(header, HeaderTimeout)
	left = max(left, 1) // gRPC allows no zero
	for _, unit := range grpcUnits {
		if number := left / unit.span; number <= grpcMax {
			header[HeaderGRPCTimeout] = []string{fmt.Sprintf("%d%c", number, unit.name)}
			return
		}
	}
}

// IsGRPC reports whether header is that of a gRPC call, or of an answer to one, by its content
// type. gRPC-Web does not count: it is another protocol.
func IsGRPC(header http.Header) bool {
	const grpc = "application/grpc"
	values := header["Content-Type"]
	if len(values) == 0 || len(values[0]) < len(grpc) || !strings.EqualFold(values[0][:len(grpc)], grpc) {
		return false
	}
	rest := values[0][len(grpc):]
	return rest == "" || strings.IndexByte("+; ", rest[0]) >= 0
}
