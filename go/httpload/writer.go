package httpload

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/slackwater/slackwater/go/load"
	"github.com/slackwater/slackwater/go/probe"
)

// writer watches the response to one request.
type writer struct {
	http.ResponseWriter
	query   *load.Query
	request *http.Request
	carries bool

	wroteHead, hijacked bool
	// A write failed because the client is gone.
	clientLeft bool
	// The bytes of the body that are still to come; negative if unknown.
	left int64
}

// A handler finds out by a type assertion whether it can flush or hijack, so there is a type for
// each combination.
type (
	flushWriter       struct{ writer }
	hijackWriter      struct{ writer }
	flushHijackWriter struct{ writer }
)

// wrap returns a writer, and that writer as the application sees it.
func wrap(w http.ResponseWriter) (*writer, http.ResponseWriter) {
	_, flushes := w.(http.Flusher)
	// Through other middleware, too: http.ResponseController would go past this writer otherwise, and
	// the latency of the request would be as long as the connection is used.
	hijacks := reaches[http.Hijacker](w)
	switch {
	case flushes && hijacks:
		outer := &flushHijackWriter{writer{ResponseWriter: w}}
		return &outer.writer, outer
	case flushes:
		outer := &flushWriter{writer{ResponseWriter: w}}
		return &outer.writer, outer
	case hijacks:
		outer := &hijackWriter{writer{ResponseWriter: w}}
		return &outer.writer, outer
	}
	outer := &writer{ResponseWriter: w}
	return outer, outer
}

// Flush implements http.Flusher.
func (w *flushWriter) Flush() { _ = w.FlushError() }

// Flush implements http.Flusher.
func (w *flushHijackWriter) Flush() { _ = w.FlushError() }

// Hijack implements http.Hijacker.
func (w *hijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.hijack() }

// Hijack implements http.Hijacker.
func (w *flushHijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.hijack() }

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader ends the latency, unless the status announces another one.
func (w *writer) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.head(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (w *writer) Write(b []byte) (int, error) {
	w.head(http.StatusOK)
	n, err := w.ResponseWriter.Write(b)
	w.wrote(int64(n), err)
	return n, err
}

// WriteString implements io.StringWriter.
func (w *writer) WriteString(s string) (int, error) {
	w.head(http.StatusOK)
	n, err := io.WriteString(w.ResponseWriter, s)
	w.wrote(int64(n), err)
	return n, err
}

// ReadFrom implements io.ReaderFrom: the server may let the system copy from a file. It recognizes
// that by the reader's type, so the reader cannot be watched, and an error may be the reader's. If
// the client is gone, the request's context says so.
//
// A reader that fails at once leaves the head open, as in the server: the handler may still answer
// with an error. So the first bytes are copied, which the server does as well.
func (w *writer) ReadFrom(from io.Reader) (int64, error) {
	var first int64
	if !w.wroteHead {
		var err error
		first, err = io.Copy(writerOnly{w}, io.LimitReader(from, firstBytes))
		if err != nil || first < firstBytes {
			return first, err
		}
	}
	var n int64
	var err error
	if inner, ok := w.ResponseWriter.(io.ReaderFrom); ok {
		n, err = inner.ReadFrom(from)
	} else {
		n, err = io.Copy(writerOnly{w.ResponseWriter}, from)
	}
	w.wrote(n, nil)
	return first + n, err
}

// firstBytes is how many bytes [http.DetectContentType] looks at, so that the first write has all
// that the server needs to detect the type.
const firstBytes = 512

// writerOnly hides the other methods of a writer.
type writerOnly struct{ io.Writer }

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error {
	if !canFlush(w.ResponseWriter) {
		return http.ErrNotSupported // and the head is still open
	}
	w.head(http.StatusOK)
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.wrote(0, err)
	return err
}

func canFlush(w http.ResponseWriter) bool {
	return reaches[http.Flusher](w) || reaches[interface{ FlushError() error }](w)
}

// reaches reports whether a writer, or one that it wraps, implements T.
func reaches[T any](w http.ResponseWriter) bool {
	for {
		if _, ok := w.(T); ok {
			return true
		}
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = outer.Unwrap()
	}
}

func (w *writer) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil && !w.wroteHead {
		// What the application answers is out of sight. It is an answer all the same.
		w.wroteHead, w.hijacked = true, true
		w.query.Head(load.Success)
	}
	return conn, buffer, err
}

// head notes that the response's head is ready. Only the first call counts.
func (w *writer) head(status int) {
	if w.wroteHead {
		return
	}
	w.wroteHead = true
	header := w.Header()
	outcome := headOutcome(status, header)
	if w.request.Context().Err() != nil {
		outcome = load.Cancelled // no client reads it
	}
	w.query.Head(outcome)
	w.left = bodyLength(status, header, w.request.Method)
	if _, shed := probe.ReadShed(header); w.carries && !shed {
		report := w.query.Carried()
		var text [48]byte
		header[probe.HeaderLoad] = []string{string(probe.AppendCarried(text[:0], &report))}
	}
}

// bodyLength returns the bytes of a response's body; negative if unknown.
func bodyLength(status int, header http.Header, method string) int64 {
	if method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified {
		return 0
	}
	values := header["Content-Length"]
	if len(values) == 0 {
		return -1
	}
	length, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || length < 0 {
		return -1
	}
	return length
}

func (w *writer) wrote(n int64, err error) {
	if w.left > 0 {
		w.left = max(w.left-n, 0)
	}
	// These are errors of the handler.
	if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) && !errors.Is(err, http.ErrContentLength) {
		w.clientLeft = true
	}
}

// returned ends the request after its handler.
func (w *writer) returned() {
	w.head(http.StatusOK)
	outcome := load.Success
	// A client that has its whole answer may leave at once.
	isWhole := w.left == 0 && !w.hijacked
	if w.clientLeft || w.request.Context().Err() != nil && !isWhole {
		outcome = load.Cancelled
	} else if !w.hijacked {
		outcome = trailersOutcome(w.Header())
	}
	w.query.End(outcome)
}

// panicked ends the request after its handler has panicked. ErrAbortHandler is the documented way
// to stop serving a client that has left.
func (w *writer) panicked(reason any) {
	outcome := load.Failed
	if reason == http.ErrAbortHandler && w.request.Context().Err() != nil {
		outcome = load.Cancelled
	}
	w.query.End(outcome)
}
