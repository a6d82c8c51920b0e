package probe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Connecting goes on after its probe, so a dial of the caller's has a time of its own.
func TestDialsOfProbesEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging := inTime(func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		began := time.Now()
		_, err := hanging(context.Background(), "tcp", "10.0.0.1:80")
		if after := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || after != connectMax {
			t.Errorf("%v after %v", err, after)
		}
		if inTime(nil) != nil {
			t.Error("a dial where there was none")
		}
	})
}

func TestLimitsOfTheCallerStay(t *testing.T) {
	own := Bounded(&http.Transport{MaxConnsPerHost: 3, TLSHandshakeTimeout: time.Second})
	if own.MaxConnsPerHost != 3 || own.TLSHandshakeTimeout != time.Second {
		t.Errorf("%d connections, %v for a handshake", own.MaxConnsPerHost, own.TLSHandshakeTimeout)
	}
}
