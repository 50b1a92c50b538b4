package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopPatience is how long a server may take to end after SIGTERM before it is killed.
const stopPatience = 60 * time.Second

// lastOutput is how much of a server's output an error shows, in bytes.
const lastOutput = 2000

// child is a server that the benchmark has started: the leader of a process group of its own, so that what it starts ends with it.
type child struct {
	name    string
	cmd     *exec.Cmd
	started time.Time
	log     *os.File
	done    chan struct{} // closed once the process is gone
}

// startChild starts a command, which takes the place of the shell that reads it. Its output is added to the file log.
func startChild(name, command, log string) (*child, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c := &child{name: name, cmd: exec.Command("/bin/sh", "-c", "exec "+command), log: file, done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = file, file
	c.cmd.SysProcAttr = ownGroup()
	c.started = time.Now()
	if err := c.cmd.Start(); err != nil {
		file.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(c.done)
		_ = c.cmd.Wait() // how it ended is read from ProcessState
	}()
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// running tells whether the process still lives.
func (c *child) running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// ended is the error of a process that is gone though nobody stopped it: how it ended, and what it said last.
func (c *child) ended() error {
	return fmt.Errorf("%s has ended by itself after %.1f s: %s; the last of its output (%s):\n%s",
		c.name, time.Since(c.started).Seconds(), c.cmd.ProcessState, c.log.Name(), c.lastLines())
}

// lastLines are the end of what the process wrote.
func (c *child) lastLines() string {
	info, err := c.log.Stat()
	if err != nil {
		return err.Error()
	}
	from := max(0, info.Size()-lastOutput)
	text, err := io.ReadAll(io.NewSectionReader(c.log, from, lastOutput))
	if err != nil {
		return err.Error()
	}
	if from > 0 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return "  " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n  ")
}

// stop ends the process with SIGTERM and returns how long that took, and what it had written to the disk when it was last there. One that
// does not end is killed, which is an error, as is another exit code than 0.
func (c *child) stop(ctx context.Context) (took time.Duration, written uint64, err error) {
	defer c.kill()
	if !c.running() {
		return 0, 0, c.ended()
	}
	begin := time.Now()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, 0, fmt.Errorf("stop %s: %w", c.name, err)
	}
	limit := time.NewTimer(stopPatience)
	defer limit.Stop()
	sample := time.NewTicker(sampleInterval)
	defer sample.Stop()
	for {
		select {
		case <-c.done:
			took = time.Since(begin)
			if code := c.cmd.ProcessState.ExitCode(); code != 0 {
				return took, written, fmt.Errorf("%s ended with exit code %d after SIGTERM; the last of its output (%s):\n%s",
					c.name, code, c.log.Name(), c.lastLines())
			}
			return took, written, nil
		case <-sample.C:
			if use, err := readProcess(c.pid()); err == nil {
				written = max(written, use.written)
			}
		case <-limit.C:
			return stopPatience, written, fmt.Errorf("%s was still there %v after SIGTERM and has been killed", c.name, stopPatience)
		case <-ctx.Done():
			return time.Since(begin), written, ctx.Err()
		}
	}
}

// kill ends the process and all of its group at once, if it is still there, and closes its log.
func (c *child) kill() {
	killGroup(c.pid())
	<-c.done
	c.log.Close()
}

// checkEmpty refuses a directory that has something in it: what is measured there would not be a new index, and nothing is deleted here.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("the directory %s is not empty (%s is in it): a build is measured from an empty one; name another, or remove it",
			dir, filepath.Join(dir, entries[0].Name()))
	}
	return nil
}
