package probe

import (
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"
)

func TestTimeoutsAreReadAndMalformedOnesIgnored(t *testing.T) {
	const unknown = -1
	for _, c := range []struct {
		header, text string
		left         time.Duration
	}{
		{HeaderGRPCTimeout, "1n", 1},
		{HeaderGRPCTimeout, "250u", 250 * time.Microsecond},
		{HeaderGRPCTimeout, "99999999m", 99_999_999 * time.Millisecond},
		{HeaderGRPCTimeout, "0S", 0},
		{HeaderGRPCTimeout, "2S", 2 * time.Second},
		{HeaderGRPCTimeout, "3M", 3 * time.Minute},
		{HeaderGRPCTimeout, "99999999H", math.MaxInt64},
		{HeaderGRPCTimeout, "100000000m", unknown},
		{HeaderGRPCTimeout, "1s", unknown},
		{HeaderGRPCTimeout, "m", unknown},
		{HeaderGRPCTimeout, "", unknown},
		{HeaderGRPCTimeout, "-1m", unknown},
		{HeaderGRPCTimeout, "+1m", unknown},
		{HeaderGRPCTimeout, "1.5S", unknown},
		{HeaderTimeout, "0", 0},
		{HeaderTimeout, "1500", 1500 * time.Millisecond},
		{HeaderTimeout, "999999999999", 999_999_999_999 * time.Millisecond},
		{HeaderTimeout, "1000000000000", unknown},
		{HeaderTimeout, "", unknown},
		{HeaderTimeout, "1ms", unknown},
		{HeaderTimeout, "-1", unknown},
	} {
		left, ok := ReadTimeout(http.Header{c.header: {c.text}})
		if ok != (c.left != unknown) || ok && left != c.left {
			t.Errorf("%s: %q: %v, %v", c.header, c.text, left, ok)
		}
	}
	both := http.Header{HeaderTimeout: {"20"}, HeaderGRPCTimeout: {"30m"}}
	if left, ok := ReadTimeout(both); left != 20*time.Millisecond || !ok {
		t.Errorf("%v, %v", left, ok)
	}
	both = http.Header{HeaderTimeout: {"soon"}, HeaderGRPCTimeout: {"30m"}}
	if left, ok := ReadTimeout(both); left != 30*time.Millisecond || !ok {
		t.Errorf("%v, %v", left, ok)
	}
}

func TestTimeoutsAreWrittenInTheHeaderOfTheProtocol(t *testing.T) {
	for left, text := range map[time.Duration]string{
		-1: "1n", 0: "1n", 99_999_999: "99999999n", 100_000_999: "100000u",
		2500 * time.Millisecond: "2500000u", 200 * time.Second: "200000m", math.MaxInt64: "2562047H",
	} {
		header := http.Header{"Content-Type": {"application/grpc+proto"}, HeaderTimeout: {"8"}}
		if WriteTimeout(header, left); header.Get(HeaderGRPCTimeout) != text || header[HeaderTimeout] != nil {
			t.Errorf("%v: %v", left, header)
		}
	}
	for left, text := range map[time.Duration]string{
		-1: "0", 1_999_999: "1", 999_999: "0", math.MaxInt64: "999999999999",
	} {
		header := http.Header{HeaderTimeout: {"77"}, "Content-Type": {"application/grpc-web"}}
		if WriteTimeout(header, left); header.Get(HeaderTimeout) != text || header[HeaderGRPCTimeout] != nil {
			t.Errorf("%v: %v", left, header)
		}
	}
}

func TestPrioritiesAreSentByName(t *testing.T) {
	for text, want := range map[string]Priority{
		"interactive": Interactive, "batch": Batch, "shadow": Shadow, "urgent": Interactive, "": Interactive,
	} {
		if got := ReadPriority(http.Header{HeaderPriority: {text}}); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	header := http.Header{}
	if WritePriority(header, Batch); ReadPriority(header) != Batch {
		t.Error(header)
	}
}

func TestShedReasonsRoundTrip(t *testing.T) {
	for reason := ShedFull; reason <= ShedCopyStarted; reason++ {
		response := httptest.NewRecorder()
		WriteShed(response, httptest.NewRequest(http.MethodGet, "/", nil), reason)
		got, ok := ReadShed(response.Header())
		if !ok || got != reason || response.Code != 503 || response.Header().Get("Retry-After") != "1" {
			t.Errorf("%v: %d, %v", reason, response.Code, response.Header())
		}
	}
	if _, ok := ReadShed(http.Header{}); ok || Shed(0).String() != "shed" {
		t.Error("a reason without a header, or a word for none")
	}
	for _, text := range []string{"", "shed", "upstream"} {
		if _, ok := ReadShed(http.Header{HeaderShed: {text}}); ok {
			t.Errorf("%q was read", text)
		}
	}
	call := httptest.NewRequest(http.MethodPost, "/", nil)
	call.Header.Set("Content-Type", "application/grpc")
	for reason, status := range map[Shed]string{ShedFull: "14", ShedDeadline: "4"} {
		response := httptest.NewRecorder()
		WriteShed(response, call, reason)
		header := response.Header()
		if response.Code != 200 || header.Get("Grpc-Status") != status || header.Get("Grpc-Retry-Pushback-Ms") != "1000" {
			t.Errorf("%v: %d, %v", reason, response.Code, header)
		}
	}
}

func TestTiesRoundTripAndMalformedOnesAreIgnored(t *testing.T) {
	for _, other := range []string{"10.0.0.7:8000", "[fd00::7]:1"} {
		tie := Tie{Name: 0xc0ffee, OtherCopy: netip.MustParseAddrPort(other)}
		header := http.Header{HeaderTie: {"before"}}
		WriteTie(header, tie)
		if got, ok := ReadTie(header); !ok || got != tie || header.Get(HeaderTie) != "0000000000c0ffee; twin="+other {
			t.Errorf("%v, %v", got, header)
		}
	}
	const good = "00c0ffee00C0FFEE; twin=10.0.0.7:8000"
	for _, values := range [][]string{
		nil, {good, good}, {""}, {"00c0ffee00c0ffee"}, {"00c0ffee00c0ffee; twin="},
		{"00c0ffee00c0ffee; twin=10.0.0.7"}, {"00c0ffee00c0ffee; twin=localhost:80"}, {good + " "},
		{"00c0ffee00c0ffee;twin=10.0.0.7:8000"}, {"00c0ffee00c0ffe; twin=10.0.0.7:8000"},
		{"00c0ffee00c0ffeg; twin=10.0.0.7:8000"}, {"+0c0ffee00c0ffee; twin=10.0.0.7:8000"},
	} {
		if tie, ok := ReadTie(http.Header{HeaderTie: values}); ok {
			t.Errorf("%q: %v", values, tie)
		}
	}
}
