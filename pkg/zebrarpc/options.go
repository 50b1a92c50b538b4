package zebrarpc

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Limits and defaults of Options.
const (
	// MaxInFlight bounds all requests of a Client at Zebra together, which shares 100 permits among all its clients.
	MaxInFlight = 48

	DefaultInFlight      = 16
	DefaultReadAhead     = 64 << 20
	DefaultMaxReply      = 64 << 20
	DefaultPollFollowing = 150 * time.Millisecond
	DefaultPollIdle      = time.Second

	minReadAhead = 1 << 20
	minMaxReply  = 64 << 10
)

// Options of a Client. Only URL is required; 0 means the default.
type Options struct {
	URL  string // of Zebra's RPC, like http://127.0.0.1:8232; http or https, no credentials, no query
	Auth Auth

	InFlight  int   // bulk requests in flight at most, 1 to MaxInFlight; default 16
	ReadAhead int64 // bytes of bodies in flight and of blocks that wait for their reader; default 64 MiB, at least 1 MiB
	MaxReply  int64 // bytes of one reply; default 64 MiB, at least 64 KiB

	Encoder chain.EncoderOptions // for the blocks of Blocks

	PollFollowing time.Duration // of Watch while following the tip; default 150 ms
	PollIdle      time.Duration // of Watch otherwise, and while Zebra cannot be asked; default 1 s

	Logger *slog.Logger // nil: nothing is logged
}

// Auth says how Zebra is told that we may ask. The zero value is no authentication (Zebra's rpc.enable_cookie_auth = false).
type Auth struct {
	User, Password string // HTTP basic authentication, for proxies; Zebra has no such setting

	// CookieFile is the file that Zebra writes at each start, <rpc.cookie_dir>/.cookie. It is read when first needed, and again
	// when Zebra refuses what it held.
	CookieFile string
}

// complete fills in defaults and says what is wrong.
func (o *Options) complete() error {
	o.InFlight = cmp.Or(o.InFlight, DefaultInFlight)
	o.ReadAhead = cmp.Or(o.ReadAhead, DefaultReadAhead)
	o.MaxReply = cmp.Or(o.MaxReply, DefaultMaxReply)
	o.PollFollowing = cmp.Or(o.PollFollowing, DefaultPollFollowing)
	o.PollIdle = cmp.Or(o.PollIdle, DefaultPollIdle)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.InFlight < 1 || o.InFlight > MaxInFlight:
		return fmt.Errorf("zebra requests in flight: %d is not between 1 and %d", o.InFlight, MaxInFlight)
	case o.ReadAhead < minReadAhead:
		return fmt.Errorf("zebra read-ahead: %d bytes are fewer than %d", o.ReadAhead, minReadAhead)
	case o.MaxReply < minMaxReply:
		return fmt.Errorf("zebra reply limit: %d bytes are fewer than %d", o.MaxReply, minMaxReply)
	case o.PollFollowing < 0 || o.PollIdle < 0:
		return fmt.Errorf("zebra poll intervals: %v and %v must be positive", o.PollFollowing, o.PollIdle)
	}
	return o.Auth.check()
}

func (a Auth) check() error {
	switch {
	case a.CookieFile != "" && (a.User != "" || a.Password != ""):
		return errors.New("zebra authentication: give either a cookie file or user and password, not both")
	case a.User == "" && a.Password != "":
		return errors.New("zebra authentication: there is a password but no user")
	case a.User != "" && a.Password == "":
		return errors.New("zebra authentication: there is a user but no password")
	case strings.Contains(a.User, ":"):
		return errors.New("zebra authentication: the user name must not contain a colon")
	}
	return nil
}

const urlExample = "write it like http://127.0.0.1:8232"

// parseURL checks the address of the RPC. Its errors never repeat an address that holds credentials.
func parseURL(s string) (*url.URL, error) {
	if s == "" {
		return nil, errors.New("zebra URL is empty: " + urlExample)
	}
	scheme, rest, found := strings.Cut(s, "://")
	if authority, _, _ := strings.Cut(rest, "/"); strings.Contains(authority, "@") || !found && strings.Contains(s, "@") {
		return nil, errors.New("zebra URL contains credentials: give them as user and password or as a cookie file")
	}
	if !found {
		return nil, fmt.Errorf("zebra URL %q has no scheme: %s", s, urlExample)
	}
	if scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("zebra URL %q has the scheme %q, not http or https: %s", s, scheme, urlExample)
	}
	u, err := url.Parse(s)
	if err != nil {
		if inner := (*url.Error)(nil); errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, fmt.Errorf("zebra URL %q: %w: %s", s, err, urlExample)
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("zebra URL %q names no host: %s", s, urlExample)
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("zebra URL %q has the port %s, not one between 1 and 65535", s, p)
		}
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, fmt.Errorf("zebra URL %q must end after the path: %s", strings.TrimRight(s[:strings.IndexAny(s, "?#")], "/"), urlExample)
	}
	return u, nil
}
