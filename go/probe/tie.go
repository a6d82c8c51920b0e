package probe

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// HeaderTie marks one of two tied copies of a request, such as "00c0ffee00c0ffee;
// twin=10.0.0.7:8000".
const HeaderTie = "X-Slackwater-Tie"

const (
	tieNameDigits = 16
	tieOtherCopy  = "; twin="
)

// Tie is what a tied copy of a request knows of the other copy. A replica that starts its copy
// sends [AppendBegun] there, and the other replica drops its own if that has not started.
type Tie struct {
	// Name is the name of both copies. It is drawn at random, so that it cannot be guessed.
	Name uint64
	// OtherCopy is the address at which the other copy's replica receives datagrams.
	OtherCopy netip.AddrPort
}

// ReadTie returns the tie in a request's header. It reports false if there is not exactly one of
// the right form.
func ReadTie(header http.Header) (Tie, bool) {
	values := header[HeaderTie]
	if len(values) != 1 || len(values[0]) < tieNameDigits {
		return Tie{}, false
	}
	name, err := hex.DecodeString(values[0][:tieNameDigits])
	other, ok := strings.CutPrefix(values[0][tieNameDigits:], tieOtherCopy)
	if err != nil || !ok {
		return Tie{}, false
	}
	addr, err := netip.ParseAddrPort(other)
	if err != nil {
		return Tie{}, false
	}
	return Tie{Name: binary.BigEndian.Uint64(name), OtherCopy: addr}, true
}

// WriteTie puts the tie into a request's header, in place of any that is there.
func WriteTie(header http.Header, tie Tie) {
	header[HeaderTie] = []string{fmt.Sprintf("%016x%s%v", tie.Name, tieOtherCopy, tie.OtherCopy)}
}
