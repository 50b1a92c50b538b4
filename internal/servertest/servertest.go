// Package servertest holds what tests of servers need that run as processes of their own: addresses to listen on, and certificates.
package servertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"testing"
	"time"
)

// FreeAddr returns an address of loopback that nobody listens on, and that no outgoing connection will take before it is used: its port is
// below those that the kernel gives away.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10_000+mathrand.N(20_000))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	tb.Fatal("no free port")
	return ""
}

// WriteCertificate writes a certificate for 127.0.0.1 that has signed itself and expires at end, and its private key, as PEM. It returns
// what a client has to trust.
func WriteCertificate(tb testing.TB, certFile, keyFile, name string, end time.Time) *x509.CertPool {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: end.AddDate(0, -3, 0), NotAfter: end, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	// The key first: whoever follows both files then sees a pair that does not fit, and not an old key for the new certificate.
	for _, f := range []struct {
		path string
		text []byte
	}{{keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})}, {certFile, certPEM}} {
		if err := os.WriteFile(f.path, f.text, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return pool
}
