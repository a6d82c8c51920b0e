package probe

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// cases returns the cases of a file of vectors/probe, or of the folder that SLACKWATER_VECTORS
// names.
func cases[T any](t *testing.T, file string) []T {
	t.Helper()
	folder := os.Getenv("SLACKWATER_VECTORS")
	if folder == "" {
		folder = filepath.Join("..", "..", "vectors")
	}
	content, err := os.ReadFile(filepath.Join(folder, "probe", file))
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct{ Cases []T }
	if err := json.Unmarshal(content, &parsed); err != nil {
		t.Fatal(err)
	}
	if len(parsed.Cases) == 0 {
		t.Fatalf("%s has no cases", file)
	}
	return parsed.Cases
}

type hexBytes []byte

func (b *hexBytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.DecodeString(string(text))
	return err
}

type vectorKey struct{ *Key }

func (k *vectorKey) UnmarshalText(text []byte) (err error) {
	k.Key, err = ParseKey(string(text))
	return err
}

type vectorHeaders [][2]string

func (v vectorHeaders) header() http.Header {
	header := http.Header{}
	for _, line := range v {
		header.Add(line[0], line[1])
	}
	return header
}

type vectorReport struct {
	RIF              uint32
	Draining         bool
	LatencyNS        uint64  `json:"latency_ns"`
	LoadScale        uint16  `json:"load_scale_1024ths"`
	Incarnation      *uint64 `json:"incarnation"`
	ErrorMillionths  *uint32 `json:"error_millionths"`
	CPUMillionths    *uint32 `json:"cpu_millionths"`
	QueryRateMillis  *uint32 `json:"query_rate_millis"`
	CapacityMilliRIF *uint32 `json:"capacity_millirif"`
	CostNS           *uint64 `json:"cost_ns"`
}

func optional[T any](value *T) policy.Optional[T] {
	if value == nil {
		return policy.Optional[T]{}
	}
	return policy.Some(*value)
}

func (v *vectorReport) report() policy.LoadReport {
	// A Duration has 63 bits; its greatest value stands for all greater ones.
	span := func(ns uint64) time.Duration { return time.Duration(min(ns, math.MaxInt64)) }
	report := policy.LoadReport{
		RIF:              v.RIF,
		Latency:          span(v.LatencyNS),
		LoadScale:        v.LoadScale,
		Draining:         v.Draining,
		Incarnation:      optional(v.Incarnation),
		ErrorMillionths:  optional(v.ErrorMillionths),
		CPUMillionths:    optional(v.CPUMillionths),
		QueryRateMillis:  optional(v.QueryRateMillis),
		CapacityMilliRIF: optional(v.CapacityMilliRIF),
	}
	if v.CostNS != nil {
		report.Cost = policy.Some(span(*v.CostNS))
	}
	return report
}

func TestRequestsMatchTheVectors(t *testing.T) {
	for _, c := range cases[struct {
		Name      string
		Key       vectorKey
		Datagram  hexBytes
		Canonical bool
		Request   struct {
			Nonce uint64
			Hint  hexBytes
		}
	}](t, "requests.json") {
		t.Run(c.Name, func(t *testing.T) {
			got, err := ParseRequest(c.Datagram, c.Key.Key)
			if err != nil || got.Nonce != c.Request.Nonce || !bytes.Equal(got.Hint, c.Request.Hint) {
				t.Fatalf("got %+v, %v", got, err)
			}
			if c.Canonical {
				request := Request{Nonce: c.Request.Nonce, Hint: c.Request.Hint}
				written, err := AppendRequest([]byte("before"), request, c.Key.Key)
				if err != nil || !bytes.Equal(written, append([]byte("before"), c.Datagram...)) {
					t.Fatalf("wrote %x, %v", written, err)
				}
			}
		})
	}
}

func TestRepliesMatchTheVectors(t *testing.T) {
	for _, c := range cases[struct {
		Name      string
		Key       vectorKey
		Datagram  hexBytes
		Canonical bool
		Reply     struct {
			Nonce  uint64
			Report vectorReport
		}
	}](t, "replies.json") {
		t.Run(c.Name, func(t *testing.T) {
			want := Reply{Nonce: c.Reply.Nonce, Report: c.Reply.Report.report()}
			got, err := ParseReply(c.Datagram, c.Key.Key)
			if err != nil || got != want {
				t.Fatalf("got %+v, %v, want %+v", got, err, want)
			}
			if c.Canonical {
				written := AppendReply([]byte("before"), &want, c.Key.Key)
				if !bytes.Equal(written, append([]byte("before"), c.Datagram...)) {
					t.Fatalf("wrote %x", written)
				}
			}
		})
	}
}

func TestMalformedDatagramsAreRefusedAsInTheVectors(t *testing.T) {
	for _, c := range cases[struct {
		Name, As, Verdict string
		Key               vectorKey
		Datagram          hexBytes
	}](t, "malformed.json") {
		t.Run(c.Name, func(t *testing.T) {
			var err error
			if c.As == "request" {
				_, err = ParseRequest(c.Datagram, c.Key.Key)
			} else {
				_, err = ParseReply(c.Datagram, c.Key.Key)
			}
			var verdict Malformed
			if !errors.As(err, &verdict) || verdict.Name() != c.Verdict {
				t.Fatalf("got %v, want %s", err, c.Verdict)
			}
		})
	}
}

func TestHeadersMatchTheVectors(t *testing.T) {
	reasons := map[string]error{
		"rif_absent": ErrNoRIF, "not_a_number": ErrNotANumber, "repeated": ErrRepeated,
	}
	for _, c := range cases[struct {
		Name      string
		Headers   vectorHeaders
		Canonical bool
		Report    *vectorReport
		Error     string
		Header    string
	}](t, "headers.json") {
		t.Run(c.Name, func(t *testing.T) {
			got, err := ReadReport(c.Headers.header())
			if c.Report == nil {
				var refused *ReportError
				if !errors.As(err, &refused) || !errors.Is(err, reasons[c.Error]) ||
					c.Header != "" && !strings.EqualFold(refused.Header, c.Header) {
					t.Fatalf("got %v, want %s of %s", err, c.Error, c.Header)
				}
				return
			}
			if err != nil || got != c.Report.report() {
				t.Fatalf("got %+v, %v", got, err)
			}
			if c.Canonical {
				written := http.Header{HeaderCost: {"left over"}}
				WriteReport(written, &got)
				if !reflect.DeepEqual(written, c.Headers.header()) {
					t.Fatalf("wrote %v", written)
				}
			}
		})
	}
}

var authErrors = map[string]error{
	"absent": ErrAuthAbsent, "malformed": ErrAuthMalformed, "wrong": ErrAuthWrong, "stale": ErrAuthStale,
}

func TestSignedProbesMatchTheVectors(t *testing.T) {
	for _, c := range cases[struct {
		Name    string
		Key     vectorKey
		NowS    int64 `json:"now_s"`
		Headers vectorHeaders
		Verdict string
		Signs   *struct {
			TimeS int64 `json:"time_s"`
			Nonce uint64
		}
	}](t, "signed-probes.json") {
		t.Run(c.Name, func(t *testing.T) {
			header := c.Headers.header()
			challenge, err := CheckProbe(header, c.Key.Key, time.Unix(c.NowS, 0))
			if !errors.Is(err, authErrors[c.Verdict]) {
				t.Fatalf("got %v, want %q", err, c.Verdict)
			}
			if c.Signs != nil {
				signed := header.Clone()
				signed.Set(HeaderProbeAuth, "left over")
				made := SignProbe(signed, c.Key.Key, time.Unix(c.Signs.TimeS, 0), c.Signs.Nonce)
				if !reflect.DeepEqual(signed, header) || made != challenge {
					t.Fatalf("signed %v for %s", signed, made)
				}
			}
		})
	}
}

func TestSignedReportsMatchTheVectors(t *testing.T) {
	for _, c := range cases[struct {
		Name      string
		Key       vectorKey
		Challenge Challenge
		Headers   vectorHeaders
		Verdict   string
	}](t, "signed-reports.json") {
		t.Run(c.Name, func(t *testing.T) {
			header := c.Headers.header()
			err := CheckReport(header, c.Key.Key, c.Challenge)
			if !errors.Is(err, authErrors[c.Verdict]) {
				t.Fatalf("got %v, want %q", err, c.Verdict)
			}
			if c.Verdict == "" {
				signed := header.Clone()
				signed.Del(HeaderReportAuth)
				SignReport(signed, c.Key.Key, c.Challenge)
				if !reflect.DeepEqual(signed, header) {
					t.Fatalf("signed %v", signed)
				}
			}
		})
	}
}

func TestWhileKeysChangeBothAreAccepted(t *testing.T) {
	older, newer := testKey(t, 1), testKey(t, 2)
	both := newer.Accepting(older)
	at := time.Unix(1_763_750_000, 0)
	for _, key := range []*Key{older, newer} {
		header := http.Header{}
		challenge := SignProbe(header, key, at, 1)
		if got, err := CheckProbe(header, both, at); err != nil || got != challenge {
			t.Fatalf("got %v, %v", got, err)
		}
		SignReport(header, key, challenge)
		if err := CheckReport(header, both, challenge); err != nil {
			t.Fatal(err)
		}
	}
	header := http.Header{}
	SignProbe(header, both, at, 1)
	if _, err := CheckProbe(header, older, at); !errors.Is(err, ErrAuthWrong) {
		t.Fatalf("signed with the second key: %v", err)
	}
}

func testKey(t testing.TB, secret byte) *Key {
	t.Helper()
	key, err := NewKey(bytes.Repeat([]byte{secret}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestKeysHave16To64Bytes(t *testing.T) {
	for _, c := range []struct {
		bytes int
		good  bool
	}{{0, false}, {15, false}, {16, true}, {64, true}, {65, false}} {
		_, err := NewKey(make([]byte, c.bytes))
		_, textErr := ParseKey("\t" + strings.Repeat("0a", c.bytes) + "\r\n")
		if (err == nil) != c.good || (textErr == nil) != c.good {
			t.Errorf("%d bytes: %v, %v", c.bytes, err, textErr)
		}
	}
	for _, text := range []string{"0x07", "é", strings.Repeat("a", 33)} {
		if _, err := ParseKey(text); !errors.Is(err, ErrKeyNotHex) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestATagIsTheFirstHalfOfHMACSHA256(t *testing.T) {
	// RFC 4231, test case 1.
	key, err := NewKey(bytes.Repeat([]byte{0x0b}, 20))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // a state that is used again
		if tag := key.sign([]byte("Hi There")); hex.EncodeToString(tag[:]) != "b0344c61d8db38535ca8afceaf0bf12b" {
			t.Fatalf("got %x", tag)
		}
	}
}

func TestCarriedLoadsRoundTrip(t *testing.T) {
	for _, c := range []struct {
		text     string
		rif      uint32
		capacity policy.Optional[uint32]
		cost     policy.Optional[time.Duration]
	}{
		{"3;4500;2000", 3, policy.Some[uint32](4500), policy.Some[time.Duration](2000)},
		{"3;;", 3, policy.Optional[uint32]{}, policy.Optional[time.Duration]{}},
		{"0;0;0", 0, policy.Some[uint32](0), policy.Some[time.Duration](0)},
		{"4294967295;4294967295;18446744073709551615", math.MaxUint32,
			policy.Some[uint32](math.MaxUint32), policy.Some[time.Duration](math.MaxInt64)},
	} {
		want := policy.LoadReport{RIF: c.rif, CapacityMilliRIF: c.capacity, Cost: c.cost}
		if text := string(AppendCarried(nil, &want)); text != c.text {
			t.Errorf("wrote %s, want %s", text, c.text)
		}
		header := http.Header{HeaderLoad: {c.text}, "Date": {"today"}}
		got, ok, err := TakeCarried(header)
		if !ok || err != nil || got != want || len(header) != 1 {
			t.Errorf("%s: got %+v, %v, %v", c.text, got, ok, err)
		}
	}
	if later, err := ParseCarried("1;2;3;4;five"); err != nil || later.RIF != 1 || later.Cost.Value != 3 {
		t.Errorf("of a later version: %+v, %v", later, err)
	}
}

func TestBadCarriedLoadsAreRefusedAndRemoved(t *testing.T) {
	for _, text := range []string{
		"", "3", "3;", "3;4", ";;", ";4;5", "-1;;", "+1;;", " 1;;", "1;2.5;", "1;;2e3", "1, 2, 3",
		"4294967296;;", "1;4294967296;", "1;;18446744073709551616",
	} {
		header := http.Header{HeaderLoad: {text}}
		if _, ok, err := TakeCarried(header); !ok || !errors.Is(err, ErrBadCarried) || len(header) != 0 {
			t.Errorf("%q: %v, %v", text, ok, err)
		}
	}
	twice := http.Header{HeaderLoad: {"1;;", "2;;"}}
	if _, ok, err := TakeCarried(twice); !ok || !errors.Is(err, ErrBadCarried) {
		t.Errorf("twice: %v, %v", ok, err)
	}
	if _, ok, err := TakeCarried(http.Header{}); ok || err != nil {
		t.Errorf("none: %v, %v", ok, err)
	}
}

func TestHintsRoundTrip(t *testing.T) {
	for _, size := range []int{0, 1, HintBytesMax, HintBytesMax + 1} {
		header := http.Header{HeaderHint: {"ff"}}
		err := WriteHint(header, make([]byte, size))
		if (err != nil) != (size > HintBytesMax) {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if err != nil {
			continue
		}
		if _, has := header[HeaderHint]; has != (size > 0) {
			t.Fatalf("%d bytes: %v", size, header)
		}
		if hint, err := ReadHint(header); err != nil || len(hint) != size {
			t.Fatalf("%d bytes: %x, %v", size, hint, err)
		}
	}
	for i, values := range [][]string{{"0"}, {"0g"}, {"00", "00"}, {strings.Repeat("00", HintBytesMax+1)}} {
		if _, err := ReadHint(http.Header{HeaderHint: values}); !errors.Is(err, ErrBadHint) {
			t.Errorf("case %s: %v", strconv.Itoa(i), err)
		}
	}
}
