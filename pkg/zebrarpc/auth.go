package zebrarpc

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// maxCookie bounds what is read of a cookie file; Zebra's has 55 bytes.
const maxCookie = 4 << 10

// cookieUser is the user name in Zebra's cookie.
const cookieUser = "__cookie__"

// credentials are the request headers for one state of the authentication. They are never changed once made, so that requests can
// share them.
type credentials struct {
	header   http.Header
	accepted atomic.Bool // an answer came back for them
}

// authenticator makes the request headers, and reads the cookie file when it is needed.
type authenticator struct {
	auth    Auth
	current atomic.Pointer[credentials] // nil until the cookie file could be read
	mu      sync.Mutex                  // held while the cookie file is read
	cookie  []byte                      // guarded by mu; what current was made of
}

func newAuthenticator(a Auth) *authenticator {
	n := &authenticator{auth: a}
	if a.CookieFile == "" {
		n.current.Store(newCredentials(a.User, a.Password))
	}
	return n
}

func newCredentials(user, password string) *credentials {
	h := http.Header{
		"Content-Type": {"application/json"},
		"User-Agent":   {"zsidecar"},
	}
	if user != "" || password != "" {
		h["Authorization"] = []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
	}
	return &credentials{header: h}
}

// get returns the credentials to use. Its error is passing: Zebra may not have written the cookie yet.
func (n *authenticator) get() (*credentials, error) {
	if c := n.current.Load(); c != nil {
		return c, nil
	}
	c, err := n.reload(nil)
	if err != nil {
		return nil, &Error{Class: Passing, Err: err, Hint: cookieHint(err)}
	}
	return c, nil
}

// reload returns credentials that are not those that Zebra refused, if there are any: from the cookie file as it is now.
// Without news it returns refused itself.
func (n *authenticator) reload(refused *credentials) (*credentials, error) {
	if n.auth.CookieFile == "" {
		return refused, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.current.Load(); c != refused {
		return c, nil // another request was refused too, and did this already
	}
	cookie, err := readCookie(n.auth.CookieFile)
	if err != nil {
		return refused, err
	}
	if bytes.Equal(cookie, n.cookie) {
		return refused, nil
	}
	user, password, found := bytes.Cut(cookie, []byte{':'})
	switch {
	case found:
	case bytes.HasPrefix([]byte(cookieUser), cookie):
		return refused, fmt.Errorf("cookie file %s ends before the password", n.auth.CookieFile)
	default: // the password alone, which Zaino takes too
		user, password = []byte(cookieUser), cookie
	}
	c := newCredentials(string(user), string(password))
	n.cookie = cookie
	n.current.Store(c)
	return c, nil
}

// cookieHint says what to do about a cookie that cannot be used yet.
func cookieHint(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("Zebra lets its own user alone read it: let the user of this process, %d, read it too", os.Getuid())
	case errors.Is(err, syscall.EISDIR):
		return "give the path of the file .cookie in it"
	}
	return "Zebra writes this file when its RPC starts"
}

func readCookie(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the cookie: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCookie))
	if err != nil {
		return nil, fmt.Errorf("read the cookie: %w", err)
	}
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return nil, fmt.Errorf("cookie file %s is empty", path)
	}
	return b, nil
}

// hint explains a refusal to whoever configured us. closed says that there was no answer at all, only a closed connection.
func (n *authenticator) hint(closed bool) string {
	what := "the node refuses "
	if closed {
		what = "Zebra closes the connection without an answer on wrong credentials: it may be refusing "
	}
	switch {
	case n.auth.CookieFile != "":
		return what + "the cookie in " + n.auth.CookieFile + "; is it the one that this node wrote at its last start?"
	case n.auth.User != "":
		return what + "the user name or the password"
	}
	return what + "requests without credentials; give Zebra's cookie file, or set rpc.enable_cookie_auth = false in Zebra"
}
