// Command served is a stock net/http server for `cargo xtask siege`. It speaks HTTP/1.1 and HTTP/2
// without TLS at one port.
//
// Every request is answered with a mark that names its target, so that a client can see whose
// answer it got. A request
// whose body came to its end is written to the log as "complete", any other as "broken".
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// hangMax bounds a handler that waits for a client that never leaves.
const hangMax = 5 * time.Minute

type recorder struct {
	mutex sync.Mutex
	file  *os.File
}

func (r *recorder) note(outcome string, request *http.Request, size int64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	at := time.Now().UTC().Format(time.RFC3339Nano)
	fmt.Fprintf(r.file, "%s %s %s %d %s\n", outcome, request.Method, request.RequestURI, size, at)
}

// hang does not read the body: it waits for something else, as a handler behind a slow database
// does.
func hang(w http.ResponseWriter, request *http.Request) {
	select {
	case <-request.Context().Done():
	case <-time.After(hangMax):
	}
}

// large sends as many bytes as "bytes" says.
func large(w http.ResponseWriter, request *http.Request) {
	left, err := strconv.Atoi(request.URL.Query().Get("bytes"))
	if err != nil {
		http.Error(w, "bytes: "+err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("content-length", strconv.Itoa(left))
	piece := make([]byte, 64<<10)
	for left > 0 {
		n, err := w.Write(piece[:min(left, len(piece))])
		if err != nil {
			return
		}
		left -= n
	}
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	to := flag.String("log", os.DevNull, "file for a line about each request")
	flag.Parse()
	file, err := os.OpenFile(*to, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	recorder := &recorder{file: file}
	mux := http.NewServeMux()
	mux.HandleFunc("/hang", hang)
	mux.HandleFunc("/large", large)
	mux.HandleFunc("/", func(w http.ResponseWriter, request *http.Request) {
		size, err := io.Copy(io.Discard, request.Body)
		if err != nil {
			recorder.note("broken", request, size)
			return
		}
		recorder.note("complete", request, size)
		fmt.Fprintf(w, "<served %s>", request.RequestURI)
	})
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Addr: *listen, Handler: mux, Protocols: protocols}
	log.Fatal(server.ListenAndServe())
}
