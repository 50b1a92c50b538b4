package sidecar

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
)

func TestCertificateErrors(t *testing.T) {
	t.Parallel()
	now := time.Now()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	servertest.WriteCertificate(t, path("good.pem"), path("good.key"), "good", now.AddDate(1, 0, 0))
	servertest.WriteCertificate(t, path("other.pem"), path("other.key"), "other", now.AddDate(1, 0, 0))
	servertest.WriteCertificate(t, path("old.pem"), path("old.key"), "old", time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC))
	if err := os.WriteFile(path("text"), []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ cert, key, want string }{
		{"none.pem", "good.key", "none.pem: no such file or directory: give a PEM certificate chain and its private key (tls_cert, tls_key)"},
		{"good.pem", "none.key", "none.key: no such file or directory: give a PEM"},
		{"text", "good.key", "failed to find any PEM data in certificate input: give a PEM"},
		{"good.pem", "other.key", "private key does not match public key: give a PEM"},
		{"old.pem", "old.key", "old.pem expired on 2025-03-01 12:00:00: renew it"},
	} {
		_, err := newCertificate(path(tt.cert), path(tt.key), slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s, %s: got %v, want one line with %q", tt.cert, tt.key, err, tt.want)
		}
	}
}

// A renewed certificate is taken up; one that is half written is not, and is said once.
func TestCertificateFollowsItsFiles(t *testing.T) {
	t.Parallel()
	now := time.Now()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	var log bytes.Buffer
	servertest.WriteCertificate(t, certFile, keyFile, "first", now.AddDate(0, 0, 20))
	c, err := newCertificate(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	name := func() string { return c.current.Load().Leaf.Subject.CommonName }
	c.refresh(now)
	if name() != "first" || log.Len() > 0 {
		t.Errorf("%s, %s", name(), log.String())
	}

	servertest.WriteCertificate(t, certFile, filepath.Join(dir, "later"), "second", now.AddDate(0, 1, 0))
	c.refresh(now)
	c.refresh(now)
	if name() != "first" || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "the one before it still is") {
		t.Errorf("half renewed: %s, %s", name(), log.String())
	}
	log.Reset()
	if err := os.Rename(filepath.Join(dir, "later"), keyFile); err != nil {
		t.Fatal(err)
	}
	c.refresh(now)
	if name() != "second" || !strings.Contains(log.String(), "was read again") {
		t.Errorf("renewed: %s, %s", name(), log.String())
	}

	for _, tt := range []struct {
		day  int
		want string
	}{{10, ""}, {25, "expires soon"}, {26, ""}, {40, "has expired"}, {41, ""}} {
		log.Reset()
		c.refresh(now.AddDate(0, 0, tt.day))
		if got := log.String(); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("day %d: %q, want %q", tt.day, got, tt.want)
		}
	}
}
