package lightwallet

import (
	"bytes"
	"net/http"
	"net/url"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// probeFraming sends two messages as one run through this build's grpc-go, in memory, and tells whether exactly their bytes came out.
// It answers at start-up what each stream finds out again for itself.
func probeFraming() bool {
	run := []byte("\x00\x00\x00\x00\x03one\x00\x00\x00\x00\x05three")
	server := grpc.NewServer()
	defer server.Stop()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "probe",
		Streams: []grpc.StreamDesc{{StreamName: "Run", ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			w := newFrameWriter(stream, false)
			if !w.framed() {
				return status.Error(codes.Unimplemented, "no run can be written")
			}
			return w.send(chain.Frames{Bytes: bytes.Clone(run), Count: 2})
		}}},
	}, nil)
	answer := &probeAnswer{header: http.Header{}}
	server.ServeHTTP(answer, &http.Request{
		Method:     http.MethodPost,
		URL:        &url.URL{Path: "/probe/Run"},
		Proto:      "HTTP/2.0",
		ProtoMajor: 2,
		Header:     http.Header{"Content-Type": {"application/grpc"}},
		Body:       http.NoBody,
	})
	return bytes.Equal(answer.body, run)
}

// probeAnswer keeps the body of an HTTP answer.
type probeAnswer struct {
	header http.Header
	body   []byte
}

func (a *probeAnswer) Header() http.Header { return a.header }
func (a *probeAnswer) WriteHeader(int)     {}
func (a *probeAnswer) Flush()              {}

func (a *probeAnswer) Write(b []byte) (int, error) {
	a.body = append(a.body, b...)
	return len(b), nil
}
