package httpload_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/httpload"
	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/internal/process"
	"github.com/slackwater/slackwater/go/load"
	"github.com/slackwater/slackwater/go/probe"
)

// slackwater runs the Rust program that SLACKWATER_BIN names, until the test's end.
func slackwater(t *testing.T, arguments ...string) *process.Process {
	t.Helper()
	binary := os.Getenv("SLACKWATER_BIN")
	if binary == "" {
		t.Skip("there is no Rust program to talk to: set SLACKWATER_BIN to the path of slackwater")
	}
	return process.Start(t, binary, arguments...)
}

// answers reports whether url answers with 200 and this body.
func answers(url, want string) bool {
	response, err := http.Get(url)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return err == nil && response.StatusCode == http.StatusOK && string(body) == want
}

// keyFile returns a key, and a file with it.
func keyFile(t *testing.T) (*probe.Key, string) {
	t.Helper()
	text := hex.EncodeToString(bytes.Repeat([]byte{7}, 32))
	key, err := probe.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "probe.key")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return key, file
}

func TestGoClientsProbeTheRustAgent(t *testing.T) {
	hold := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			<-hold
		}
		_, _ = io.WriteString(w, "hello")
	}))
	defer server.Close()
	key, file := keyFile(t)
	agent := slackwater(t, "agent", "--listen", process.AnyPort, "--to", server.Listener.Addr().String(),
		"--key-file", file)
	addr := netip.MustParseAddrPort(agent.Address(t))
	url := "http://" + addr.String()
	await.Until(t, "agent", func() bool { return answers(url+"/", "hello") })

	reports := make(chan probe.Answer[int], 8)
	client, err := probe.NewClient(probe.ClientOptions[int]{
		Key: key, Answered: func(answer *probe.Answer[int]) { reports <- *answer },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	byUDP := func(token int) probe.Answer[int] {
		t.Helper()
		if err := client.Send(addr, token, []byte("user-17"), 20*time.Second); err != nil {
			t.Fatal(err)
		}
		select {
		case answer := <-reports:
			if answer.Token != token || !answer.Report.Incarnation.Known {
				t.Errorf("got %+v", answer)
			}
			return answer
		case <-time.After(time.Minute):
			t.Fatal("no answer")
			return probe.Answer[int]{}
		}
	}
	if answer := byUDP(1); answer.Report.RIF != 0 || answer.Report.Latency <= 0 {
		t.Errorf("after a request: %+v", answer)
	}

	ended := make(chan bool, 1)
	go func() { ended <- answers(url+"/hold", "hello") }()
	await.Until(t, "request in flight", func() bool { return byUDP(2).Report.RIF == 1 })
	byHTTP := &probe.HTTPClient{Key: key}
	defer byHTTP.CloseIdleConnections()
	report, err := byHTTP.Probe(t.Context(), url+probe.Path, []byte("user-17"))
	if err != nil || report.RIF != 1 || report.Incarnation != byUDP(3).Report.Incarnation {
		t.Errorf("%+v, %v", report, err)
	}
	close(hold)
	if !<-ended {
		t.Error("the request failed")
	}

	unsigned := &probe.HTTPClient{}
	defer unsigned.CloseIdleConnections()
	if _, err := unsigned.Probe(t.Context(), url+probe.Path, nil); err == nil {
		t.Error("the agent answered an unsigned probe")
	}
	if counts := client.Counts(); counts.Sent != counts.Answered {
		t.Errorf("%+v", counts)
	}
}

func TestRustServeProbesGoServers(t *testing.T) {
	for _, transport := range []string{"udp", "http"} {
		t.Run(transport, func(t *testing.T) {
			key, file := keyFile(t)
			replica := load.New(load.Options{})
			probes := make(chan struct{}, 1)
			application := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "hello")
			})
			counted := httpload.Handler(replica, application, httpload.WithKey(key), httpload.WithCarriedReports())
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				counted.ServeHTTP(w, r)
				if r.URL.Path == probe.Path && w.Header()[probe.HeaderRIF] != nil {
					select {
					case probes <- struct{}{}:
					default:
					}
				}
			}))
			defer server.Close()
			responder := &probe.Responder{Report: replica.Report, Key: key}
			addr := server.Listener.Addr().String()
			socket, err := net.ListenPacket("udp", addr)
			if err != nil {
				t.Skipf("the port is in use: %v", err)
			}
			defer socket.Close()
			ctx, stop := context.WithCancel(context.Background())
			served := make(chan error, 1)
			go func() { served <- responder.Serve(ctx, socket) }()
			defer func() {
				stop()
				<-served
			}()

			config := filepath.Join(t.TempDir(), "slackwater.toml")
			text := "[probe]\nkey_file = \"" + file + "\"\n"
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			serve := slackwater(t, "serve", "--config", config, "--listen", process.AnyPort, "--replicas", addr,
				"--probe", transport, "--admin", "none")
			url := "http://" + serve.Address(t) + "/"
			await.Until(t, "serve", func() bool { return answers(url, "hello") })
			await.Until(t, "probes", func() bool {
				if !answers(url, "hello") {
					return false
				}
				if transport == "udp" {
					return responder.Counts().Answered >= 3
				}
				select {
				case <-probes:
					return true
				default:
					return false
				}
			})
			counts := responder.Counts()
			for reason := probe.TooShort; reason <= probe.BadHint; reason++ {
				if refused := counts.Refused(reason); refused > 0 {
					t.Errorf("%d probes refused: %s", refused, reason.Name())
				}
			}
			response, err := http.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if carried := response.Header[probe.HeaderLoad]; carried != nil {
				t.Errorf("the default policy reads and removes carried loads, but %v is left", carried)
			}
			if counts := replica.Counts(); counts.Succeeded < 1 || counts.Failed > 0 {
				t.Errorf("%+v", counts)
			}
		})
	}
}
