package httplb

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/slackwater/slackwater/go/policy"
)

// Go's server announces the length of a short answer whose trailers are not announced. The status
// of a gRPC call comes after it.
func TestTrailersOfGRPCCountAlsoAfterAKnownLength(t *testing.T) {
	for _, content := range []string{"", "message"} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "14")
			_, _ = io.WriteString(w, content)
		}))
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Start()
		base := NewBase()
		base.Protocols = server.Config.Protocols
		transport, recorded := recording(t, base)
		if err := transport.SetReplicas(URLs(server.URL)); err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(newRequest(t, context.Background(), nil))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if response.ContentLength != int64(len(content)) || response.Trailer.Get("Grpc-Status") != "14" {
			t.Errorf("length %d, trailers %v", response.ContentLength, response.Trailer)
		}
		if _, ends := recorded.outcomes(transport); !slices.Equal(ends, []policy.Outcome{policy.OutcomeFailed}) {
			t.Errorf("%q: ends %v, want failed", content, ends)
		}
		base.CloseIdleConnections()
		server.Close()
	}
}
