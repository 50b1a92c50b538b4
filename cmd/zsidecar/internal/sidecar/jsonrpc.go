package sidecar

import (
	"context"
	"fmt"
	"net"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/ops"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc"
	"github.com/zsidecar/zsidecar/pkg/passthrough"
)

// jsonServer is the JSON-RPC server with what belongs to it. A nil one is off.
type jsonServer struct {
	*jsonrpc.Server
	listener net.Listener
	cookie   *jsonrpc.Cookie // nil: everybody may ask
}

// newJSONServer makes the server and its cookie file for a port that is open already.
func (s *Sidecar) newJSONServer(l net.Listener) (*jsonServer, error) {
	j := &jsonServer{listener: l}
	var secret string
	if dir := s.Config.JSONRPCCookieDir; dir != "" {
		var err error
		if j.cookie, err = jsonrpc.WriteCookie(dir); err != nil {
			return nil, fmt.Errorf("%w: choose a folder that this user may write with --json-rpc-cookie-dir", err)
		}
		secret = j.cookie.Secret
	}
	var err error
	j.Server, err = jsonrpc.New(jsonrpc.Options{
		Source: s.joined, Node: passthrough.NewRelay(s.client), Secret: secret,
		Observe: ops.NewJSONCalls(s.registry).Observe, Logger: s.Log,
	})
	return j, err
}

// serve answers until stop.
func (j *jsonServer) serve(s *Sidecar) error {
	if exposed(j.listener) {
		s.Log.Warn("JSON-RPC is served in plain text on an address that others may reach: choose a private one (--json-rpc)",
			"addr", j.listener.Addr().String(), "auth", j.cookie != nil)
	}
	if j.cookie != nil {
		s.Log.Info("JSON-RPC asks for a password", "cookie", j.cookie.Path())
	}
	return j.Serve(j.listener)
}

// stop ends the requests, those in progress at the end of ctx.
func (j *jsonServer) stop(ctx context.Context) {
	if j != nil {
		j.Stop(ctx)
	}
}

// close removes the cookie file.
func (j *jsonServer) close() error {
	if j == nil || j.cookie == nil {
		return nil
	}
	return j.cookie.Remove()
}

// stats are zero while the server is off.
func (j *jsonServer) stats() jsonrpc.Stats {
	if j == nil {
		return jsonrpc.Stats{}
	}
	return j.Stats()
}

// JSONRPCAddr is where JSON-RPC is served; empty when it is off.
func (s *Sidecar) JSONRPCAddr() string {
	if s.json == nil {
		return ""
	}
	return s.json.listener.Addr().String()
}
