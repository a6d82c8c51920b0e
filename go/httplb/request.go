package httplb

import (
	"net/http"
	"strings"
)

// isWellFormed reports whether a request's head can be sent. If not, the base refuses it, and no
// replica is to blame. It leaves out trailers, which the body may still set.
func isWellFormed(request *http.Request) bool {
	if request.Header == nil || request.Method != "" && !isToken(request.Method) {
		return false
	}
	for name, values := range request.Header {
		if !isToken(name) {
			return false
		}
		for _, value := range values {
			if strings.ContainsFunc(value, isControl) {
				return false
			}
		}
	}
	return true
}

// isToken reports whether text is a token of RFC 9110.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		isAlphanumeric := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !isAlphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
