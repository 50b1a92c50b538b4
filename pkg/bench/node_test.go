package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNodeLogin asks a node that wants a password, in both ways and without one.
func TestNodeLogin(t *testing.T) {
	t.Parallel()
	simulated := startRegtest(t, 3, t.TempDir())
	cookie, err := os.ReadFile(simulated.CookieFile())
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ := strings.Cut(string(cookie), ":")
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]NodeOptions{
		"":              {CookieFile: simulated.CookieFile()},
		" ":             {User: "somebody", PasswordFile: password},
		"  ":            {CookieFile: password}, // the password alone
		"EOF":           {},                     // it closes the connection
		"no such file":  {CookieFile: password + "x"},
		"or a cookie":   {User: "somebody", PasswordFile: password, CookieFile: simulated.CookieFile()},
		"a user and a ": {User: "somebody"},
	} {
		o.URL = simulated.URL()
		n, err := newNode(o, false)
		var tip blockRef
		if err == nil {
			tip, err = n.tip(t.Context())
			n.close()
		}
		if want = strings.TrimSpace(want); want == "" {
			if err != nil || tip.height != 3 {
				t.Errorf("%+v: tip %+v, %v", o, tip, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}
