package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"time"
)

// crowd are clients that read at full speed beside what is measured.
type crowd interface {
	// failed says why one of them does not read any more.
	failed() error
	stop()
}

// startCrowd has n clients read a range at full speed. When there is a command for it they have a process of their own: then the kernel shares
// the processors between them and the probe, as it does between wallets, and not our scheduler, where the probe would wait for them.
// Over TLS they stay in this process, which has the certificates.
func (r *run) startCrowd(ctx context.Context, t *target, from, to uint64, n int) (crowd, error) {
	if n == 0 || len(r.options.Readers) == 0 || t.options.TLS != nil {
		return startReaders(ctx, t.options, blockRange(from, to), n)
	}
	return startApart(ctx, r.options.Readers, readersReady,
		t.options.Address, strconv.Itoa(n), strconv.FormatUint(from, 10), strconv.FormatUint(to, 10))
}

// readersReady is the line that says that every reader has got its first block.
const readersReady = "reading"

// ReadApart is what the command of Options.Readers does with its four arguments: the address of a server, the number of readers, and the heights
// of a range, which all of them read again and again at full speed. It writes a line to out when each has got a block, and goes on until
// in ends, which it does with the process that started it, or a reader fails.
func ReadApart(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) != 4 {
		return inputError("%d arguments: an address, a number of readers and two heights are needed", len(args))
	}
	n, errN := strconv.Atoi(args[1])
	from, errFrom := strconv.ParseUint(args[2], 10, 64)
	to, errTo := strconv.ParseUint(args[3], 10, 64)
	if err := errors.Join(errN, errFrom, errTo); err != nil || n < 1 || to < from {
		return inputError("%q are no number of readers and heights of a range", args[1:])
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with in
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	rs, err := startReaders(ctx, TargetOptions{Address: args[0]}, blockRange(from, to), n)
	if err != nil {
		return err
	}
	defer rs.stop()
	if _, err := fmt.Fprintln(out, readersReady); err != nil {
		return err
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := rs.failed(); err != nil {
				return err
			}
		}
	}
}

// apart is a process that reads.
type apart struct {
	cmd   *exec.Cmd
	in    io.Closer
	wrong bytes.Buffer // its errors; read after ended
	ended chan struct{}
}

// startApart starts a command and waits for its first line.
func startApart(ctx context.Context, command []string, ready string, args ...string) (*apart, error) {
	a := &apart{cmd: exec.Command(command[0], append(command[1:len(command):len(command)], args...)...), ended: make(chan struct{})}
	a.cmd.Stderr = &a.wrong
	in, errIn := a.cmd.StdinPipe()
	out, errOut := a.cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, err
	}
	a.in = in
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start readers at full speed: %w", err)
	}
	line := make(chan string, 1)
	go func() {
		defer close(a.ended)
		lines := bufio.NewReader(out)
		first, _ := lines.ReadString('\n') // without one it has ended, and said why
		line <- first
		_, _ = io.Copy(io.Discard, lines)
		_ = a.cmd.Wait() // how it ended is read from ProcessState
	}()
	var err error
	select {
	case first := <-line:
		if first != ready+"\n" {
			<-a.ended
			err = a.failed()
		}
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(callLimit):
		err = fmt.Errorf("the readers at full speed have got nothing within %v", callLimit)
	}
	if err != nil {
		a.stop()
		return nil, err
	}
	return a, nil
}

func (a *apart) failed() error {
	select {
	case <-a.ended:
		return fmt.Errorf("the readers at full speed have ended: %s: %s", a.cmd.ProcessState, bytes.TrimSpace(a.wrong.Bytes()))
	default:
		return nil
	}
}

func (a *apart) stop() {
	a.in.Close() // which ends it
	select {
	case <-a.ended:
	case <-time.After(answerTime):
		_ = a.cmd.Process.Kill() // an error says that it has gone
		<-a.ended
	}
}
