package sidecar

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"time"
)

// lookupLimit is for the name of the node.
const lookupLimit = 5 * time.Second

// warnOfPublicNode tells once that the node is asked in plain text over a network that is not private: what it says could be changed on
// the way, and its password read. Zaino refuses such an address. A name that cannot be resolved now says nothing.
func (s *Sidecar) warnOfPublicNode(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	if addr := publicAddress(ctx, s.client.URL(), net.DefaultResolver.LookupNetIP); addr.IsValid() {
		s.Log.Warn("zebra is asked in plain text at an address that is neither loopback nor private: "+
			"use a private one, a tunnel, or a proxy with https", "url", s.client.URL(), "addr", addr)
	}
}

// publicAddress is the first address of a URL's host that is neither loopback nor private; none when TLS protects the connection.
func publicAddress(ctx context.Context, text string, lookup func(context.Context, string, string) ([]netip.Addr, error)) netip.Addr {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" {
		return netip.Addr{}
	}
	var addrs []netip.Addr
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		addrs = append(addrs, addr)
	} else if addrs, err = lookup(ctx, "ip", u.Hostname()); err != nil {
		return netip.Addr{}
	}
	for _, addr := range addrs {
		if addr = addr.Unmap(); !addr.IsLoopback() && !addr.IsPrivate() && !addr.IsLinkLocalUnicast() && !addr.IsUnspecified() {
			return addr
		}
	}
	return netip.Addr{}
}
