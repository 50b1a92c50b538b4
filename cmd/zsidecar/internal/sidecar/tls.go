package sidecar

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

const (
	certificateInterval = 5 * time.Second
	certificateNotice   = 14 * 24 * time.Hour // before it expires
)

// certificate is that of the gRPC port. It follows its two files, so that a renewed one is used without a restart; connections that
// are open keep the one they began with.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	current           atomic.Pointer[tls.Certificate]
	seen              [2]digest // of the files as they were last read
	notice            string    // what was last said of the expiry
}

// digest tells one content of a file from another. Times would not: two writes may come within one tick of the file system's clock.
type digest [sha256.Size]byte

// newCertificate reads the files. It refuses a certificate that has expired.
func newCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	c.seen = c.digests()
	return c, c.read(time.Now())
}

func (c *certificate) digests() (digests [2]digest) {
	for i, path := range []string{c.certFile, c.keyFile} {
		if text, err := os.ReadFile(path); err == nil {
			digests[i] = sha256.Sum256(text)
		}
	}
	return digests
}

// read puts what the files hold in force, unless it cannot be used.
func (c *certificate) read(now time.Time) error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("read the TLS certificate %s with the key %s: %w: give a PEM certificate chain and its private key (tls_cert, tls_key)",
			c.certFile, c.keyFile, err)
	}
	if end := pair.Leaf.NotAfter; !now.Before(end) {
		return fmt.Errorf("the TLS certificate %s expired on %s: renew it", c.certFile, end.UTC().Format(time.DateTime))
	}
	c.current.Store(&pair)
	return nil
}

// config is for the gRPC server.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// follow reads the files again whenever they change, until ctx ends.
func (c *certificate) follow(ctx context.Context) {
	ticker := time.NewTicker(certificateInterval)
	defer ticker.Stop()
	for {
		c.refresh(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// refresh takes up a change of the files. While they do not fit together, as in the middle of a renewal, the old certificate serves.
func (c *certificate) refresh(now time.Time) {
	if digests := c.digests(); digests != c.seen {
		c.seen = digests
		if err := c.read(now); err != nil {
			c.log.Error("the changed TLS certificate is not used, the one before it still is", "error", err)
		} else {
			c.log.Info("the TLS certificate was read again", "file", c.certFile, "expires", c.expiry())
		}
	}
	c.noteExpiry(now)
}

func (c *certificate) expiry() time.Time { return c.current.Load().Leaf.NotAfter.UTC() }

// noteExpiry says once that the certificate in force is about to expire, and once that it has.
func (c *certificate) noteExpiry(now time.Time) {
	notice := ""
	switch left := c.expiry().Sub(now); {
	case left <= 0:
		notice = "the TLS certificate has expired, wallets will refuse it: renew it"
	case left < certificateNotice:
		notice = "the TLS certificate expires soon: renew it"
	}
	if notice != "" && notice != c.notice {
		c.log.Warn(notice, "file", c.certFile, "expires", c.expiry())
	}
	c.notice = notice
}
