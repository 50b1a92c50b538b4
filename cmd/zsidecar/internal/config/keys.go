package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Kind is the TOML type of a setting.
type Kind uint8

// The kinds of settings.
const (
	Text Kind = iota
	Switch
	Number
)

// Key is one setting of ours: [zsidecar] Name in the file, ZSIDECAR_NAME in the environment, --name-with-dashes as a flag.
type Key struct {
	Name    string
	Kind    Kind
	Default string // as a user would write it
	Arg     string // the flag's argument in the help, such as URL
	HasFlag bool
	Doc     string // one sentence without the full stop
	set     func(*Config, string) error
}

// Flag is the flag's name without the leading dashes.
func (k Key) Flag() string { return strings.ReplaceAll(k.Name, "_", "-") }

// Env is the name of the environment variable.
func (k Key) Env() string { return envPrefix + strings.ToUpper(k.Name) }

// CacheDirPlaceholder stands for the user's cache folder in the default of data_dir.
const CacheDirPlaceholder = "<cache>"

// Keys returns every setting of ours. Its five tables are the only place that names them.
func Keys() []Key {
	return slices.Concat(nodeKeys(), listenKeys(), walletKeys(), indexKeys(), logKeys())
}

func nodeKeys() []Key {
	return []Key{
		{Name: "zebra", Default: "http://127.0.0.1:8232", Arg: "URL", HasFlag: true,
			Doc: "JSON-RPC URL of the Zebra node",
			set: func(c *Config, s string) (err error) { c.Zebra, err = parseURL(s); return err }},
		{Name: "zebra_cookie", Arg: "FILE", HasFlag: true,
			Doc: "cookie file that Zebra writes when `enable_cookie_auth` is on; read again when Zebra refuses it",
			set: func(c *Config, s string) error { c.ZebraCookie = s; return nil }},
		{Name: "zebra_user", Arg: "USER", HasFlag: true,
			Doc: "user name for a proxy before Zebra that asks for one; needs a password file",
			set: func(c *Config, s string) error { c.ZebraUser = s; return nil }},
		{Name: "zebra_password_file", Arg: "FILE", HasFlag: true,
			Doc: "file whose first line is the password of that user",
			set: func(c *Config, s string) error { c.ZebraPasswordFile = s; return nil }},
		{Name: "zebra_indexer", Arg: "ADDR", HasFlag: true,
			Doc: "host:port of Zebra's gRPC server for indexers (`indexer_listen_addr`), from which new blocks are heard of at once; empty: they are found by polling",
			set: func(c *Config, s string) (err error) {
				if c.ZebraIndexer = s; s != "" {
					c.ZebraIndexer, err = parseTarget(s)
				}
				return err
			}},
		{Name: "network", Arg: "NAME",
			Doc: "`main`, `test` or `regtest`: refuse a node on another network; empty takes the node's",
			set: func(c *Config, s string) (err error) {
				c.Network, err = parseChoice(s, "", "main", "test", "regtest")
				return err
			}},
	}
}

func listenKeys() []Key {
	return []Key{
		{Name: "grpc", Default: "127.0.0.1:8137", Arg: "ADDR", HasFlag: true,
			Doc: "host:port on which wallets are served (gRPC)",
			set: func(c *Config, s string) (err error) { c.GRPC, err = parseAddr(s); return err }},
		{Name: "tls_cert", Arg: "FILE", HasFlag: true,
			Doc: "PEM file with the certificate chain of the gRPC port, read again when it changes; without one the port speaks plain text",
			set: func(c *Config, s string) error { c.TLSCert = s; return nil }},
		{Name: "tls_key", Arg: "FILE", HasFlag: true,
			Doc: "PEM file with the private key of that certificate",
			set: func(c *Config, s string) error { c.TLSKey = s; return nil }},
		{Name: "strict_bind", Kind: Switch, Default: "false", HasFlag: true,
			Doc: "refuse to serve plain text on an address that is neither loopback nor private, instead of warning",
			set: func(c *Config, s string) (err error) { c.StrictBind, err = parseSwitch(s); return err }},
		{Name: "http", Default: "127.0.0.1:9998", Arg: "ADDR", HasFlag: true,
			Doc: "host:port of metrics and health, or `off`",
			set: func(c *Config, s string) (err error) { c.HTTP, err = parseAddrOrOff(s); return err }},
		{Name: "pprof", Default: off, Arg: "ADDR", HasFlag: true,
			Doc: "loopback host:port on which profiles of the program are read (`go tool pprof`), or `off`",
			set: func(c *Config, s string) (err error) { c.Pprof, err = parseLoopbackOrOff(s); return err }},
		{Name: "json_rpc", Default: off, Arg: "ADDR", HasFlag: true,
			Doc: "host:port of the JSON-RPC server, or `off`",
			set: func(c *Config, s string) (err error) { c.JSONRPC, err = parseAddrOrOff(s); return err }},
		{Name: "json_rpc_cookie_dir", Arg: "DIR", HasFlag: true,
			Doc: "folder for the file `.cookie`, whose password every JSON-RPC request must bring; empty lets everybody ask",
			set: func(c *Config, s string) error { c.JSONRPCCookieDir = s; return nil }},
	}
}

func walletKeys() []Key {
	return []Key{
		{Name: "chain_name", Arg: "NAME", HasFlag: true,
			Doc: "chain name told to wallets instead of Zebra's `main` or `test`",
			set: func(c *Config, s string) (err error) { c.ChainName, err = parseWord(s, 32); return err }},
		{Name: "donation_address", Arg: "ADDRESS", HasFlag: true,
			Doc: "address told to wallets as the operator's donation address",
			set: func(c *Config, s string) (err error) { c.DonationAddress, err = parseAddress(s); return err }},
		{Name: "getblock_pools", Default: "all",
			Doc: "what GetBlock shows: `all` pools, or `shielded` as Zaino 0.10 does",
			set: func(c *Config, s string) (err error) {
				c.GetBlockPools, err = parseChoice(s, "all", "shielded")
				return err
			}},
		{Name: "max_unary_reply_bytes", Kind: Number, Default: "67108864",
			Doc: "size up to which GetAddressUtxos answers in one message; wallets with more outputs use GetAddressUtxosStream",
			set: func(c *Config, s string) (err error) {
				c.MaxUnaryReplyBytes, err = parseNumber[int](s, 1, math.MaxInt32)
				return err
			}},
		{Name: "ping_very_insecure", Kind: Switch, Default: "false", HasFlag: true,
			Doc: "answer the method Ping, with which anybody can keep the server busy; for tests of wallets alone",
			set: func(c *Config, s string) (err error) { c.Ping, err = parseSwitch(s); return err }},
	}
}

func indexKeys() []Key {
	return []Key{
		{Name: "data_dir", Default: CacheDirPlaceholder + "/zsidecar", Arg: "DIR", HasFlag: true,
			Doc: "folder of the index; it can always be rebuilt from Zebra",
			set: func(c *Config, s string) error { c.DataDir = s; return nil }},
		{Name: "no_index", Kind: Switch, Default: "false", HasFlag: true,
			Doc: "build no index: every answer comes from Zebra",
			set: func(c *Config, s string) (err error) { c.NoIndex, err = parseSwitch(s); return err }},
		{Name: "in_flight", Kind: Number, Default: "16",
			Doc: "requests that may wait at Zebra at one time while building, 1 to 48",
			set: func(c *Config, s string) (err error) { c.InFlight, err = parseNumber[int](s, 1, 48); return err }},
		{Name: "seal_depth", Kind: Number, Default: "1100",
			Doc: "blocks below the tip from which on a block never changes; keep it above Zebra's rollback window of 1,000",
			set: func(c *Config, s string) (err error) {
				c.SealDepth, err = parseNumber[uint32](s, 1, 1_000_000)
				return err
			}},
		{Name: "segment_blocks", Kind: Number, Default: "2048",
			Doc: "blocks in one sealed segment, at most",
			set: func(c *Config, s string) (err error) {
				c.SegmentBlocks, err = parseNumber[int](s, 1, 65_536)
				return err
			}},
		{Name: "min_free_bytes", Kind: Number, Default: "1073741824",
			Doc: "free bytes on the disk of data_dir below which the build pauses; serving goes on",
			set: func(c *Config, s string) (err error) {
				c.MinFreeBytes, err = parseNumber[uint64](s, 0, math.MaxInt64)
				return err
			}},
	}
}

func logKeys() []Key {
	return []Key{
		{Name: "log_format", Default: "text", Arg: "FORMAT", HasFlag: true,
			Doc: "form of the log lines on stderr: `text` or `json`",
			set: func(c *Config, s string) (err error) { c.LogFormat, err = parseChoice(s, "text", "json"); return err }},
		{Name: "log_level", Default: "info", Arg: "LEVEL", HasFlag: true,
			Doc: "least level that is logged: `debug`, `info`, `warn` or `error`",
			set: setLogLevel},
	}
}

// off is what turns a port off.
const off = "off"

func parseAddrOrOff(s string) (string, error) {
	if s == off {
		return "", nil
	}
	addr, err := parseAddr(s)
	if err != nil {
		return "", fmt.Errorf("%w, or %s", err, off)
	}
	return addr, nil
}

// parseLoopbackOrOff refuses what others could reach. A name is taken only when it is localhost, which nothing has to look up.
func parseLoopbackOrOff(s string) (string, error) {
	addr, err := parseAddrOrOff(s)
	if addr == "" {
		return "", err
	}
	host, _, err := net.SplitHostPort(addr)
	if ip, parsed := netip.ParseAddr(host); err != nil || host != "localhost" && (parsed != nil || !ip.IsLoopback()) {
		return "", errors.New("profiles are shown on a loopback address only, such as 127.0.0.1:6060")
	}
	return addr, nil
}

func setLogLevel(c *Config, s string) error {
	name, err := parseChoice(s, "debug", "info", "warn", "error")
	if err != nil {
		return err
	}
	return c.LogLevel.UnmarshalText([]byte(name))
}

func parseURL(s string) (string, error) {
	const want = "must be a URL such as http://127.0.0.1:8232"
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return "", fmt.Errorf("%s", want)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%s, with http or https", want)
	case u.User != nil:
		return "", fmt.Errorf("must not hold a user or password: use zebra_user and zebra_password_file")
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("%s, without a query", want)
	}
	return s, nil
}

func parseAddr(s string) (string, error) {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("must be host:port such as 127.0.0.1:8137")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || port != strconv.FormatUint(n, 10) {
		return "", fmt.Errorf("the port must be a number from 0 (any free port) to 65535")
	}
	return s, nil
}

// parseTarget takes an address to connect to.
func parseTarget(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || portErr != nil || n == 0 || strings.ContainsAny(host, "/@ ") {
		return "", fmt.Errorf("must be host:port such as 127.0.0.1:8230")
	}
	return s, nil
}

func parseSwitch(s string) (bool, error) {
	switch s {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, fmt.Errorf("must be true or false")
}

func parseChoice(s string, choices ...string) (string, error) {
	for _, c := range choices {
		if s == c {
			return s, nil
		}
	}
	var named []string
	for _, c := range choices {
		if c != "" {
			named = append(named, c)
		}
	}
	last := len(named) - 1
	return "", fmt.Errorf("must be %s or %s", strings.Join(named[:last], ", "), named[last])
}

func parseNumber[T int | uint32 | uint64](s string, low, high uint64) (T, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("must be a whole number from %d to %d", low, high)
	}
	return T(n), nil
}

// parseAddress takes a Zcash address, since nobody would notice that a wrong one gets no donations. Empty means none.
func parseAddress(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	if _, err := parseWord(s, 512); err != nil {
		return "", err
	}
	if err := chain.CheckAddress(s); err != nil {
		return "", fmt.Errorf("must be a Zcash address: %w", err)
	}
	return s, nil
}

// parseWord takes printable ASCII without spaces, since the text is sent to every wallet.
func parseWord(s string, limit int) (string, error) {
	if len(s) > limit {
		return "", fmt.Errorf("must have at most %d characters, not %d", limit, len(s))
	}
	for _, r := range s {
		if r <= ' ' || r > '~' {
			return "", fmt.Errorf("must be letters, digits and punctuation without spaces")
		}
	}
	return s, nil
}
