package zebrarpc

import (
	"strings"
	"testing"
	"time"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		o    Options
		want string
	}{
		{"no URL", Options{}, "zebra URL is empty: write it like http://127.0.0.1:8232"},
		{"no scheme", Options{URL: "127.0.0.1:8232"}, `zebra URL "127.0.0.1:8232" has no scheme: write it like http://127.0.0.1:8232`},
		{"no scheme, name", Options{URL: "zebra:8232"}, `zebra URL "zebra:8232" has no scheme: write it like http://127.0.0.1:8232`},
		{"other scheme", Options{URL: "ws://zebra:8232"},
			`zebra URL "ws://zebra:8232" has the scheme "ws", not http or https: write it like http://127.0.0.1:8232`},
		{"no host", Options{URL: "http://:8232"}, `zebra URL "http://:8232" names no host: write it like http://127.0.0.1:8232`},
		{"port 0", Options{URL: "http://zebra:0"}, `zebra URL "http://zebra:0" has the port 0, not one between 1 and 65535`},
		{"port too large", Options{URL: "http://zebra:65536"}, `zebra URL "http://zebra:65536" has the port 65536, not one between 1 and 65535`},
		{"port no number", Options{URL: "http://zebra:rpc"},
			`zebra URL "http://zebra:rpc": invalid port ":rpc" after host: write it like http://127.0.0.1:8232`},
		{"query", Options{URL: "http://zebra:8232/?token=s3cret"},
			`zebra URL "http://zebra:8232" must end after the path: write it like http://127.0.0.1:8232`},
		{"credentials", Options{URL: "http://user:s3cret@zebra:8232"},
			"zebra URL contains credentials: give them as user and password or as a cookie file"},
		{"credentials, no scheme", Options{URL: "user:s3cret@zebra:8232"},
			"zebra URL contains credentials: give them as user and password or as a cookie file"},
		{"in flight", Options{URL: fakeURL, InFlight: 49}, "zebra requests in flight: 49 is not between 1 and 48"},
		{"in flight negative", Options{URL: fakeURL, InFlight: -1}, "zebra requests in flight: -1 is not between 1 and 48"},
		{"read-ahead", Options{URL: fakeURL, ReadAhead: 1000}, "zebra read-ahead: 1000 bytes are fewer than 1048576"},
		{"reply limit", Options{URL: fakeURL, MaxReply: 1000}, "zebra reply limit: 1000 bytes are fewer than 65536"},
		{"poll", Options{URL: fakeURL, PollIdle: -time.Second}, "zebra poll intervals: 150ms and -1s must be positive"},
		{"two kinds of auth", Options{URL: fakeURL, Auth: Auth{User: "u", Password: "s3cret", CookieFile: "/c"}},
			"zebra authentication: give either a cookie file or user and password, not both"},
		{"no user", Options{URL: fakeURL, Auth: Auth{Password: "s3cret"}}, "zebra authentication: there is a password but no user"},
		{"no password", Options{URL: fakeURL, Auth: Auth{User: "u"}}, "zebra authentication: there is a user but no password"},
		{"colon", Options{URL: fakeURL, Auth: Auth{User: "u:v", Password: "s3cret"}},
			"zebra authentication: the user name must not contain a colon"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, err := New(test.o)
			if err == nil {
				c.Close()
				t.Fatal("New took it")
			}
			if err.Error() != test.want {
				t.Errorf("\n got: %s\nwant: %s", err, test.want)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Error("the error shows a secret")
			}
		})
	}
}

func TestNewTakes(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://127.0.0.1:8232", "http://[::1]:8232/", "https://zebra.example/rpc", "http://zebra"} {
		c, err := New(Options{URL: url})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if c.URL() != url {
			t.Errorf("URL is %s, want %s", c.URL(), url)
		}
		o := c.options
		if o.InFlight != 16 || o.ReadAhead != 64<<20 || o.MaxReply != 64<<20 || o.PollFollowing != 150*time.Millisecond || o.PollIdle != time.Second {
			t.Errorf("defaults: %+v", o)
		}
		c.Close()
	}
}
