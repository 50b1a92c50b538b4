package jsonrpc

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/zsidecar/zsidecar/pkg/jsonrpc/envelope"
	"github.com/zsidecar/zsidecar/pkg/passthrough"
)

// output writes the body of a reply: at once with its length when it is short, in chunks while it is read when it is not. Whatever goes
// wrong after the first chunk closes the connection (http.ErrAbortHandler), so that no reader takes a part for the whole.
type output struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	start  time.Time // of the request
	status int
	single bool // the body is one reply

	buf   []byte
	begun bool
	size  int64 // of the whole body; -1 when it is not known
	sent  int64
}

func newOutput(w http.ResponseWriter, rc *http.ResponseController, start time.Time) *output {
	return &output{w: w, rc: rc, start: start, status: http.StatusOK, size: -1}
}

// text appends what is short.
func (o *output) text(s string) { o.buf = append(o.buf, s...) }

// refusal is the reply to what is no request.
func (o *output) refusal(err *envelope.Error) {
	o.failure(envelope.Plain, []byte("null"), err)
}

// failure is a reply with an error of ours.
func (o *output) failure(d envelope.Dialect, id []byte, err *envelope.Error) {
	o.buf = envelope.AppendReply(o.buf, d, id, nil, err)
}

// answer is a reply with what was answered, which is read to its end.
func (o *output) answer(d envelope.Dialect, id []byte, a *passthrough.Answer) {
	if a.Failed && d == envelope.InBatch {
		o.zebrasError(d, id, a)
		return
	}
	o.buf = envelope.AppendHead(o.buf, d, id, a.Failed)
	tail := envelope.AppendTail(nil, d, a.Failed)
	if o.single && a.Size >= 0 {
		o.size = int64(len(o.buf)) + a.Size + int64(len(tail))
	}
	for {
		if len(o.buf) >= replyChunk {
			o.flush()
		}
		room := int64(replyChunk - len(o.buf))
		if a.Size >= 0 {
			room = min(room, a.Size+1)
		}
		o.buf = slices.Grow(o.buf, int(room))
		n, err := a.Body.Read(o.buf[len(o.buf):min(cap(o.buf), replyChunk)])
		o.buf = o.buf[:len(o.buf)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	o.buf = append(o.buf, tail...)
	if len(o.buf) >= replyChunk {
		o.flush()
	}
}

// zebrasError is a reply with an error object of Zebra's, which is short.
func (o *output) zebrasError(d envelope.Dialect, id []byte, a *passthrough.Answer) {
	object, err := io.ReadAll(a.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	o.buf = envelope.AppendHead(o.buf, d, id, true)
	o.buf = envelope.AppendError(o.buf, d, object)
	o.buf = envelope.AppendTail(o.buf, d, true)
}

// finish sends what is left.
func (o *output) finish() {
	if !o.begun {
		o.size = int64(len(o.buf))
	}
	o.flush()
}

// flush sends the buffer. The time for it grows with what the client has taken.
func (o *output) flush() {
	if !o.begun {
		o.begun = true
		o.w.Header().Set("Content-Type", envelope.TypeJSON)
		if o.size >= 0 {
			o.w.Header().Set("Content-Length", strconv.FormatInt(o.size, 10))
		}
		o.w.WriteHeader(o.status)
	}
	taken := time.Duration(o.sent / replyRate)
	_ = o.rc.SetWriteDeadline(o.start.Add(replyLimit + taken*time.Second)) // a connection without deadlines is a test's
	n, err := o.w.Write(o.buf)
	o.sent += int64(n)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	o.buf = o.buf[:0]
}
