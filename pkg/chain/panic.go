package chain

import (
	"fmt"
	"runtime/debug"
)

// Panic is a bug of ours that some bytes from outside have met: a panic that became the error of whatever read them.
type Panic struct {
	Value any
	Stack []byte // of the goroutine, for the log
}

func (p *Panic) Error() string {
	return fmt.Sprintf("a bug of zsidecar, please report it: panic: %v", p.Value)
}

// Guard does work on bytes from outside in a goroutine that answers to nobody, and returns its error, or a *Panic: a block that makes
// us panic must not end the process, which would meet it again after every start.
func Guard(work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Panic{Value: p, Stack: debug.Stack()}
		}
	}()
	return work()
}
