package probe

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

func FuzzDatagram(f *testing.F) {
	key := testKey(f, 1)
	report := policy.LoadReport{RIF: 3, Latency: 1, LoadScale: 7, Cost: policy.Some[time.Duration](2)}
	for _, key := range []*Key{nil, key} {
		request, _ := AppendRequest(nil, Request{Nonce: 1, Hint: []byte("hint")}, key)
		f.Add(request)
		f.Add(AppendReply(nil, &Reply{Nonce: 1, Report: report}, key))
		f.Add(AppendBegun(nil, 1, key))
	}
	f.Fuzz(func(t *testing.T, datagram []byte) {
		for _, key := range []*Key{nil, key} {
			request, err := ParseRequest(datagram, key)
			if err == nil {
				written, err := AppendRequest(nil, request, key)
				if again, _ := ParseRequest(written, key); err != nil || again.Nonce != request.Nonce || string(again.Hint) != string(request.Hint) {
					t.Fatalf("%+v, %+v, %v", request, again, err)
				}
			}
			reply, replyErr := ParseReply(datagram, key)
			if replyErr == nil {
				again, err := ParseReply(AppendReply(nil, &reply, key), key)
				if err != nil || again != reply {
					t.Fatalf("%+v, %+v, %v", reply, again, err)
				}
			}
			if err == nil && replyErr == nil {
				t.Fatal("both request and reply")
			}
			responder := &Responder{Key: key, Report: func([]byte) policy.LoadReport { return report }}
			answer := responder.Answer(nil, netip.AddrPort{}, datagram)
			if len(answer) > len(datagram) || (len(answer) > 0) != (err == nil) {
				t.Fatalf("an answer of %d bytes to %d", len(answer), len(datagram))
			}
		}
	})
}

func FuzzHeaders(f *testing.F) {
	key := testKey(f, 1)
	f.Add("x-prequal-rif: 3\nx-prequal-latency-us: 80000\nx-slackwater-cost-ns: 7")
	f.Add("x-slackwater-load: 3;4500;2000\nx-slackwater-hint: 00ff10")
	f.Add("x-slackwater-probe-auth: 1763750000.0123456789abcdef.5b326599cd9570582c1b6d43b21e22ea")
	f.Add("x-slackwater-timeout-ms: 20\ngrpc-timeout: 30m\nx-slackwater-tie: 00c0ffee00c0ffee; twin=10.0.0.7:8000")
	f.Fuzz(func(t *testing.T, text string) {
		header := http.Header{}
		for line := range strings.SplitSeq(text, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			header.Add(name, value)
		}
		if report, err := ReadReport(header); err == nil {
			written := http.Header{}
			WriteReport(written, &report)
			if again, err := ReadReport(written); err != nil || again != report {
				t.Fatalf("%+v, %+v, %v", report, again, err)
			}
		}
		if report, ok, err := TakeCarried(header.Clone()); ok && err == nil {
			if again, err := ParseCarried(string(AppendCarried(nil, &report))); err != nil || again != report {
				t.Fatalf("%+v, %+v, %v", report, again, err)
			}
		}
		if hint, err := ReadHint(header); err == nil && WriteHint(header, hint) != nil {
			t.Fatalf("hint of %d bytes", len(hint))
		}
		if tie, ok := ReadTie(header); ok {
			written := http.Header{}
			WriteTie(written, tie)
			if again, ok := ReadTie(written); !ok || again != tie {
				t.Fatalf("%+v, %+v", tie, again)
			}
		}
		if left, ok := ReadTimeout(header); ok && left < 0 {
			t.Fatal(left)
		}
		if _, err := CheckProbe(header, key, time.Unix(0, 0)); err == nil {
			t.Fatal("a signature was forged")
		}
		if err := CheckReport(header, key, "1.0"); err == nil {
			t.Fatal("a signature was forged")
		}
	})
}
