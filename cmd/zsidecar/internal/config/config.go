package config

import (
	"fmt"
	"log/slog"
)

// Config is every setting, already checked. Load makes it.
type Config struct {
	Zebra             string // URL of the node's JSON-RPC port
	ZebraCookie       string // path of the node's cookie file; empty: no cookie
	ZebraUser         string
	ZebraPasswordFile string
	ZebraPassword     Secret // what ZebraPasswordFile, or Zaino's file, holds
	ZebraIndexer      string // host:port of the node's gRPC server for indexers; empty: the tip is polled only

	GRPC       string // host:port of the wallets' port
	TLSCert    string // path of its certificate chain; empty: plain text
	TLSKey     string // path of the certificate's private key
	StrictBind bool   // no plain text on an address that others may reach
	HTTP       string // host:port of the metrics and health port; empty: none
	Pprof      string // loopback host:port of the profiles' port; empty: none

	JSONRPC          string // host:port of the JSON-RPC server; empty: none
	JSONRPCCookieDir string // folder of its cookie file; empty: no authentication

	DataDir         string
	NoIndex         bool
	Network         string // "main", "test" or "regtest"; empty: whichever the node is on
	ChainName       string // replaces the chain name that wallets see; empty: the node's
	DonationAddress string
	GetBlockPools   string // "all" or "shielded"

	MaxUnaryReplyBytes int  // of GetAddressUtxos
	Ping               bool // answer the method Ping

	InFlight      int    // requests that may wait at the node at one time
	SealDepth     uint32 // blocks below the tip from which on a block is sealed
	SegmentBlocks int    // blocks in one sealed segment, at most
	MinFreeBytes  uint64 // free disk space below which the build pauses

	LogFormat string // "text" or "json"
	LogLevel  slog.Level
}

// Secret is text that no log and no error shows.
type Secret string

// String hides the text.
func (Secret) String() string { return "[hidden]" }

// GoString hides the text from %#v.
func (Secret) GoString() string { return "[hidden]" }

// LogValue hides the text from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue("[hidden]") }

// MarshalText hides the text from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte("[hidden]"), nil }

// Layer is where a value came from, weakest first.
type Layer uint8

// The layers in the order of their strength.
const (
	FromDefault Layer = iota
	FromFile
	FromZainoEnv
	FromEnv
	FromFlag
)

// ValueError is a setting that cannot be used.
type ValueError struct {
	Layer   Layer
	Name    string // the flag, the environment variable, or the dotted key of the file
	File    string // FILE:LINE, set when Layer is FromFile
	Value   string // as it was given; empty for secrets
	Problem string // what is wrong and what to write instead
}

func (e *ValueError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("%s: %s", e.where(), e.Problem)
	}
	return fmt.Sprintf("%s = %q: %s", e.where(), e.Value, e.Problem)
}

// where names the place as its user knows it.
func (e *ValueError) where() string {
	switch e.Layer {
	case FromFile:
		return e.File + ": " + e.Name
	case FromZainoEnv, FromEnv:
		return "environment variable " + e.Name
	case FromFlag:
		return "flag --" + e.Name
	}
	return e.Name
}
