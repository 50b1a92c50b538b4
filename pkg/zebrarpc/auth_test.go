package zebrarpc

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

func TestAuthHeader(t *testing.T) {
	t.Parallel()
	file := cookieFile(t)
	writeCookie(t, file, "__cookie__:c29tZQ==\n")
	bare := cookieFile(t)
	writeCookie(t, bare, " c29tZQ==\n")
	for _, test := range []struct {
		name string
		auth Auth
		want string
	}{
		{"none", Auth{}, ""},
		{"user", Auth{User: "alice", Password: "pass:word"}, "alice:pass:word"},
		{"cookie", Auth{CookieFile: file}, "__cookie__:c29tZQ=="},
		{"password of the cookie alone", Auth{CookieFile: bare}, "__cookie__:c29tZQ=="},
	} {
		var got []string
		c := fakeClient(t, Options{Auth: test.auth}, func(q question) (*http.Response, error) {
			got = q.header["Authorization"]
			return q.result(`"` + chain.Hash{}.String() + `"`)
		})
		if _, err := c.BlockHash(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		var want []string
		if test.want != "" {
			want = []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(test.want))}
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%s: sent %q, want %q", test.name, got, want)
		}
	}
}

func writeCookie(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Zebra writes a new cookie at each start.
func TestCookieRotation(t *testing.T) {
	t.Parallel()
	node := zebratest.NewNode(newChain(t, 50, zebratest.Small), zebratest.NodeOptions{CookieDir: t.TempDir()})
	c := nodeClient(t, Options{Auth: Auth{CookieFile: node.CookieFile()}}, node)
	for range 3 {
		if _, err := c.BestBlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := drain(c, t.Context(), 0, 50, Range, nil); got.err != nil || len(got.ids) != 51 {
			t.Fatalf("%d blocks, %v", len(got.ids), got.err)
		}
		if err := node.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := node.Start(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCookieNotThereYet(t *testing.T) {
	t.Parallel()
	file := cookieFile(t)
	c := fakeClient(t, Options{Auth: Auth{CookieFile: file}}, func(q question) (*http.Response, error) {
		return q.result(`"` + chain.Hash{}.String() + `"`)
	})
	const head, tail = "getblockhash height 0 from " + fakeURL + ": ", "; Zebra writes this file when its RPC starts"
	_, err := c.BlockHash(t.Context(), 0)
	wantError(t, err, Passing, head+"read the cookie: open "+file+": no such file or directory"+tail, chain.ErrUnavailable)
	writeCookie(t, file, "")
	_, err = c.BlockHash(t.Context(), 0)
	wantError(t, err, Passing, head+"cookie file "+file+" is empty"+tail, chain.ErrUnavailable)
	writeCookie(t, file, "__cook")
	_, err = c.BlockHash(t.Context(), 0)
	wantError(t, err, Passing, head+"cookie file "+file+" ends before the password"+tail, chain.ErrUnavailable)
	writeCookie(t, file, "a:b")
	if _, err = c.BlockHash(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

// What stands in the way of a cookie, and what to do about it.
func TestCookieHint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := fakeClient(t, Options{Auth: Auth{CookieFile: dir}}, func(q question) (*http.Response, error) { return q.result("1") })
	_, err := c.BlockHash(t.Context(), 0)
	wantError(t, err, Passing, "getblockhash height 0 from "+fakeURL+": read the cookie: read "+dir+": is a directory; "+
		"give the path of the file .cookie in it", chain.ErrUnavailable)
	// Root, who may run the tests, can read every file.
	want := fmt.Sprintf("Zebra lets its own user alone read it: let the user of this process, %d, read it too", os.Getuid())
	if got := cookieHint(fmt.Errorf("read the cookie: %w", &fs.PathError{Op: "open", Path: "c", Err: syscall.EACCES})); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Wrong credentials are told apart from a node that is only in trouble: they were never accepted, and the connection is closed twice.
func TestRefusedCredentials(t *testing.T) {
	t.Parallel()
	const closed = "Zebra closes the connection without an answer on wrong credentials: it may be refusing "
	file := cookieFile(t)
	writeCookie(t, file, "__cookie__:wrong")
	for _, test := range []struct {
		name string
		auth Auth
		text string
	}{
		{"none", Auth{}, "requests without credentials; give Zebra's cookie file, or set rpc.enable_cookie_auth = false in Zebra"},
		{"user", Auth{User: "u", Password: "wrong"}, "the user name or the password"},
		{"cookie", Auth{CookieFile: file}, "the cookie in " + file + "; is it the one that this node wrote at its last start?"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			node := zebratest.NewNode(newChain(t, 3, zebratest.Small), zebratest.NodeOptions{CookieDir: t.TempDir()})
			c := nodeClient(t, Options{Auth: test.auth}, node)
			want := ": EOF; " + closed + test.text
			_, err := c.BlockHash(t.Context(), 1)
			wantError(t, err, Fatal, "getblockhash height 1 from "+c.URL()+want, nil)
			_, err = c.BestBlock(t.Context())
			wantError(t, err, Fatal, "getbestblockheightandhash from "+c.URL()+want, nil)
			got := drain(c, t.Context(), 0, 3, Build, nil)
			wantError(t, got.err, Fatal, "getblock height 0 from "+c.URL()+want, nil)
		})
	}
}

func TestHangUpAfterAcceptance(t *testing.T) {
	t.Parallel()
	node := zebratest.NewNode(newChain(t, 3, zebratest.Small), zebratest.NodeOptions{CookieDir: t.TempDir()})
	c := nodeClient(t, Options{Auth: Auth{CookieFile: node.CookieFile()}}, node)
	if _, err := c.BestBlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	node.Fault(zebratest.Fault{Drop: true})
	_, err := c.BlockHash(t.Context(), 1)
	var e *Error
	if !errors.As(err, &e) || e.Class != Passing || !strings.Contains(err.Error(), node.CookieFile()) {
		t.Errorf("got %v, want a passing error that names the cookie file", err)
	}
	node.ClearFaults()
	if got := drain(c, t.Context(), 0, 3, Range, nil); got.err != nil || len(got.ids) != 4 {
		t.Errorf("%d blocks, %v", len(got.ids), got.err)
	}
}

// A proxy says 401: the cookie is read again, and the request repeated once if that gave another one.
func TestUnauthorized(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := cookieFile(t)
		writeCookie(t, file, "__cookie__:old")
		secret, asked := "old", 0
		c := fakeClient(t, Options{Auth: Auth{CookieFile: file}}, func(q question) (*http.Response, error) {
			asked++
			if q.header.Get("Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte("__cookie__:"+secret)) {
				return page(401, ""), nil
			}
			return q.result(`"` + chain.Hash{}.String() + `"`)
		})
		ask := func(wantAsked int) error {
			asked = 0
			_, err := c.BlockHash(t.Context(), 0)
			if asked != wantAsked {
				t.Errorf("asked %d times, want %d", asked, wantAsked)
			}
			return err
		}
		if err := ask(1); err != nil {
			t.Fatal(err)
		}
		secret = "new"
		const head = "getblockhash height 0 from " + fakeURL + ": HTTP 401 Unauthorized; the node refuses the cookie in "
		wantError(t, ask(1), Fatal, head+file+"; is it the one that this node wrote at its last start?", nil)
		writeCookie(t, file, "__cookie__:newer")
		wantError(t, ask(2), Fatal, head+file+"; is it the one that this node wrote at its last start?", nil)
		writeCookie(t, file, "__cookie__:new")
		if err := ask(2); err != nil {
			t.Error(err)
		}
		secret = "newest"
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := ask(2); !errors.Is(err, chain.ErrUnavailable) || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("without the file: %v", err)
		}
	})
}

// Errors of many kinds, and none of them shows a secret.
func TestNoSecretsInErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := cookieFile(t)
		writeCookie(t, file, "__cookie__:s3cret")
		encoded := base64.StdEncoding.EncodeToString([]byte("__cookie__:s3cret"))
		for _, auth := range []Auth{{CookieFile: file}, {User: "__cookie__", Password: "s3cret"}} {
			for _, node := range []transport{
				func(question) (*http.Response, error) { return nil, io.EOF },
				func(question) (*http.Response, error) { return page(401, ""), nil },
				func(question) (*http.Response, error) { return page(500, "x"), nil },
				func(question) (*http.Response, error) { return page(200, "x"), nil },
			} {
				_, err := fakeClient(t, Options{Auth: auth}, node).BlockHash(t.Context(), 0)
				if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), encoded) {
					t.Errorf("got %v", err)
				}
			}
		}
	})
}
