// Package process runs programs in tests of the Go modules, above all the Rust one. They listen at
// ports that the system chooses when they bind them: a port that a test looks up before may be
// another process's by then.
package process

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// AnyPort is an address of loopback whose port the system chooses.
const AnyPort = "127.0.0.1:0"

const (
	// patience is how long a test waits for a line of the log; reached only if something is wrong.
	patience = time.Minute
	// endMax is how long the program may take to end after SIGTERM.
	endMax = 5 * time.Second
)

// configuring are the beginnings of the names of variables by which the Rust program is
// configured.
var configuring = []string{
	"GRPC_XDS_BOOTSTRAP=", "JOURNAL_STREAM=", "KUBERNETES_", "LISTEN_", "NOTIFY_SOCKET=", "OTEL_", "RUST_LOG=", "SLACKWATER_",
	"WATCHDOG_",
}

// Process is a running program.
type Process struct {
	command *exec.Cmd

	mutex sync.Mutex
	lines []string
	// grown is closed with each new line, and at the end of the log.
	grown chan struct{}
	// ended says that there will be no more lines.
	ended bool
}

// Start runs the program until the end of the test.
func Start(t testing.TB, binary string, arguments ...string) *Process {
	t.Helper()
	command := exec.Command(binary, arguments...)
	// The developer's environment does not configure the program.
	for _, variable := range os.Environ() {
		if !hasAnyPrefix(variable, configuring) {
			command.Env = append(command.Env, variable)
		}
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = writer, writer
	err = command.Start()
	_ = writer.Close()
	if err != nil {
		_ = reader.Close()
		t.Fatalf("%s: %v", binary, err)
	}
	p := &Process{command: command, grown: make(chan struct{})}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(reader)
	}()
	t.Cleanup(func() {
		p.End()
		kill := time.AfterFunc(endMax, func() { _ = command.Process.Kill() })
		_ = command.Wait()
		kill.Stop()
		// Something that the program has started could hold its log open.
		_ = reader.SetReadDeadline(time.Now().Add(endMax))
		<-read
		_ = reader.Close()
		if t.Failed() {
			t.Logf("%s %q wrote:\n%s", binary, arguments, strings.Join(p.lines, "\n"))
		}
	})
	return p
}

func hasAnyPrefix(text string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// End makes the program drain, and then end.
func (p *Process) End() { _ = p.command.Process.Signal(syscall.SIGTERM) }

// Address waits until the program serves, and returns where.
func (p *Process) Address(t testing.TB) string {
	t.Helper()
	return p.addressIn(t, "serving address=")
}

// Admin waits until the admin server of the program serves, and returns where.
func (p *Process) Admin(t testing.TB) string {
	t.Helper()
	return p.addressIn(t, "status and metrics address=")
}

// addressIn returns the word after a text of the log.
func (p *Process) addressIn(t testing.TB, text string) string {
	t.Helper()
	word, _, _ := strings.Cut(p.Logs(t, text), " ")
	return word
}

// Logs waits until a line of the log has a text, and returns what follows it in the line.
func (p *Process) Logs(t testing.TB, text string) string {
	t.Helper()
	late := time.After(patience)
	for {
		rest, found, grown, ended := p.find(text)
		if found {
			return rest
		}
		if ended {
			t.Fatalf("slackwater ended without %q in its log", text)
		}
		select {
		case <-grown:
		case <-late:
			t.Fatalf("there is no %q in the log of slackwater", text)
		}
	}
}

func (p *Process) find(text string) (rest string, found bool, grown <-chan struct{}, ended bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, line := range p.lines {
		if _, rest, found = strings.Cut(line, text); found {
			return rest, true, p.grown, p.ended
		}
	}
	return "", false, p.grown, p.ended
}

// read keeps the lines of the log, until the program has ended.
func (p *Process) read(log io.Reader) {
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadString('\n')
		p.mutex.Lock()
		if line != "" {
			p.lines = append(p.lines, strings.TrimSuffix(line, "\n"))
		}
		p.ended = err != nil
		close(p.grown)
		p.grown = make(chan struct{})
		p.mutex.Unlock()
		if err != nil {
			return
		}
	}
}
