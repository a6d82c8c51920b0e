package interop

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
)

// referenceProcess is a running reference server of the suite.
type referenceProcess struct {
	command *exec.Cmd
	stdin   io.Closer
	// address is where it listens, and answer its ServerCompatResponse.
	address string
	answer  []byte
}

// startReferenceServer starts a reference server with a ServerCompatRequest.
func startReferenceServer(ctx context.Context, path string, request []byte) (*referenceProcess, error) {
	command := exec.CommandContext(ctx, path)
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("reference server: %w", err)
	}
	reference := &referenceProcess{command: command, stdin: stdin}
	if err := reference.ask(stdin, stdout, request); err != nil {
		reference.end()
		return nil, fmt.Errorf("reference server: %w", err)
	}
	return reference, nil
}

func (r *referenceProcess) ask(stdin io.Writer, stdout io.Reader, request []byte) error {
	if err := writeMessage(stdin, request); err != nil {
		return err
	}
	answer, err := readMessage(stdout)
	if err != nil {
		return err
	}
	host, err := textOf(answer, serverResponseHost)
	if err != nil {
		return err
	}
	port, err := varintOf(answer, serverResponsePort)
	if err != nil {
		return err
	}
	r.address = net.JoinHostPort(host, strconv.FormatUint(port, 10))
	r.answer = answer
	return nil
}

// end kills the process and waits for its end.
func (r *referenceProcess) end() {
	_ = r.stdin.Close()
	_ = r.command.Process.Kill()
	_ = r.command.Wait()
}

// startReferenceClient starts a reference client that writes its results to out. It ends after its
// standard input.
func startReferenceClient(ctx context.Context, path string, out io.Writer) (*exec.Cmd, io.WriteCloser, error) {
	command := exec.CommandContext(ctx, path)
	command.Stdout = out
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := command.Start(); err != nil {
		return nil, nil, fmt.Errorf("reference client: %w", err)
	}
	return command, stdin, nil
}
