package lightwallet

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

func dialRaw(t *testing.T, s *testServer) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestHTTP1Gets415(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	for _, c := range []struct{ name, request string }{
		{"GET", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"POST", "POST /cash.z.wallet.sdk.rpc.CompactTxStreamer/GetLightdInfo HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\nContent-Length: 5\r\n\r\n\x00\x00\x00\x00\x00"},
		{"a long body", "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("x", 200_000)},
		{"HTTP/1.0", "GET / HTTP/1.0\r\n\r\n"},
		{"a method like the preface", "PRINT / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"an upgrade", "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn := dialRaw(t, s)
			if _, err := io.WriteString(conn, c.request); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(conn)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.Status != "415 Unsupported Media Type" || string(body) != "this port speaks gRPC over HTTP/2\n" {
				t.Errorf("%s %q %v", resp.Status, body, err)
			}
			if rest, err := io.ReadAll(r); err != nil || len(rest) != 0 {
				t.Errorf("the connection does not close cleanly: %q, %v", rest, err)
			}
		})
	}
}

func TestOtherProtocolsAreClosed(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	for _, first := range []string{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "hello\n", "\x00"} {
		conn := dialRaw(t, s)
		if _, err := io.WriteString(conn, first); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(conn)
		var reset *net.OpError // closing with bytes unread resets the connection
		if len(got) != 0 || (err != nil && !errors.As(err, &reset)) {
			t.Errorf("%q was answered with %q, %v", first, got, err)
		}
	}
}

// The first bytes may come one by one; they are passed on untouched.
func TestSlowPreface(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	conn := dialRaw(t, s)
	for _, b := range []byte(http2Preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00") { // and an empty SETTINGS frame
		if _, err := conn.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	var header [9]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		t.Fatal(err)
	}
	if header[3] != 4 || header[4] != 0 {
		t.Errorf("the first frame is %x, not SETTINGS", header)
	}
}

func TestHTTP2WithoutGRPCGets415(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(3)})
	resp, err := newHTTPClient(t).Post("http://"+s.addr+walletrpc.CompactTxStreamer_GetLightdInfo_FullMethodName, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("%s %s", resp.Proto, resp.Status)
	}
}
