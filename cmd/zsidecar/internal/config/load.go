package config

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

const (
	envPrefix   = "ZSIDECAR_"
	zainoPrefix = "ZAINO_"
	// EnvFile is the environment variable that names the file when no flag does.
	EnvFile = envPrefix + "CONFIG"
)

// Sources are the places that Load reads.
type Sources struct {
	File     string         // path of the TOML file; empty: none
	Zaino    bool           // the program was started as zainod: Zaino's defaults hold
	Env      []string       // as os.Environ gives it
	Flags    *pflag.FlagSet // made by AddFlags and parsed; nil: none
	CacheDir string         // the user's cache folder; empty: there is none, and data_dir has no default
}

// Load returns the settings, and warnings about what was ignored. The error joins one ValueError per value that cannot be used.
func Load(src Sources) (Config, []string, error) {
	l, err := gather(src)
	return l.config, l.warnings, err
}

// gather reads every layer and checks the whole.
func gather(src Sources) (*loader, error) {
	l := &loader{keys: make(map[string]Key), file: src.File, env: src.Env, given: make(map[string]given)}
	for _, k := range Keys() {
		l.keys[k.Name] = k
	}
	l.defaults(src)
	if src.File != "" {
		if err := l.readFile(); err != nil {
			return l, err
		}
	}
	l.readEnv(src.Env)
	l.readFlags(src.Flags)
	l.check()
	return l, errors.Join(l.errs...)
}

// given remembers where the value in force came from.
type given struct {
	layer   Layer
	name    string
	value   string
	classic bool // from one of Zaino's keys
}

type loader struct {
	keys     map[string]Key
	file     string
	lines    map[string]int // of the file's keys, by dotted path
	env      []string
	config   Config
	given    map[string]given // by key name
	warnings []string
	errs     []error
}

// set puts one value in force, unless it cannot be read.
func (l *loader) set(key string, g given) {
	if key == passwordKey {
		l.config.ZebraPassword = Secret(g.value)
		l.given[key] = g
		return
	}
	if err := l.keys[key].set(&l.config, g.value); err != nil {
		l.refuse(g, err.Error())
		return
	}
	l.given[key] = g
}

func (l *loader) refuse(g given, problem string) { l.errs = append(l.errs, l.valueError(g, problem)) }

func (l *loader) valueError(g given, problem string) *ValueError {
	e := &ValueError{Layer: g.layer, Name: g.name, Value: withoutUserinfo(g.value), Problem: problem}
	if g.layer == FromFile {
		e.File = l.at(g.name)
	}
	return e
}

// at names the place of a key in the file, as FILE:LINE.
func (l *loader) at(path string) string {
	if line, known := l.lines[path]; known {
		return fmt.Sprintf("%s:%d", l.file, line)
	}
	return l.file
}

// withoutUserinfo cuts user and password out of a URL, since the text goes to the log.
func withoutUserinfo(s string) string {
	scheme, rest, isURL := strings.Cut(s, "://")
	if at := strings.LastIndexByte(rest, '@'); isURL && at >= 0 {
		return scheme + "://…" + rest[at:]
	}
	return s
}

func (l *loader) warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

func (l *loader) defaults(src Sources) {
	for _, k := range Keys() {
		if text := expandDefault(k.Default, src.CacheDir); text != "" {
			l.set(k.Name, given{layer: FromDefault, name: k.Name, value: text})
		}
	}
	if !src.Zaino {
		return
	}
	for _, k := range ClassicKeys() {
		if k.Means != "" && !k.Alias {
			g := given{layer: FromDefault, name: k.Path, value: expandDefault(k.Default, src.CacheDir), classic: true}
			l.setClassic(k, g, "default of "+k.Path)
		}
	}
}

// expandDefault returns a default with the cache folder in place, or "" when that is unknown.
func expandDefault(text, cacheDir string) string {
	rest, inCache := strings.CutPrefix(text, CacheDirPlaceholder)
	switch {
	case !inCache:
		return text
	case cacheDir == "":
		return ""
	}
	return filepath.Join(cacheDir, rest)
}

func (l *loader) readFlags(flags *pflag.FlagSet) {
	if flags == nil {
		return
	}
	for _, k := range Keys() {
		if f := flags.Lookup(k.Flag()); k.HasFlag && f != nil && f.Changed {
			l.set(k.Name, given{layer: FromFlag, name: k.Flag(), value: f.Value.String()})
		}
	}
}

// check holds what needs more than one key, or the disk.
func (l *loader) check() {
	l.checkAuth()
	l.checkTLS()
	if l.config.DataDir == "" && !l.config.NoIndex {
		l.refuse(given{layer: FromDefault, name: "data_dir"},
			"no folder is named and none could be chosen: give --data-dir DIR, or --no-index")
	}
	l.checkJSONRPC()
	l.checkPorts()
}

// defaultJSONRPC is where the JSON-RPC server listens when only its cookie's folder is given.
const defaultJSONRPC = "127.0.0.1:8237"

// checkJSONRPC fills in what is meant when only a part is given.
func (l *loader) checkJSONRPC() {
	dir := l.given["json_rpc_cookie_dir"]
	if dir.value == "" && dir.classic && dir.layer > FromDefault { // Zaino has a folder for this case
		runtime := "/tmp"
		for _, entry := range l.env {
			if path, ok := strings.CutPrefix(entry, "XDG_RUNTIME_DIR="); ok && path != "" {
				runtime = path
			}
		}
		dir.value = filepath.Join(runtime, "zaino", ".cookie")
		l.set("json_rpc_cookie_dir", dir)
	}
	if dir.value != "" && l.given["json_rpc"].layer == FromDefault {
		dir.value = defaultJSONRPC
		l.set("json_rpc", dir)
	}
}

// checkPorts refuses one address for two servers.
func (l *loader) checkPorts() {
	ports := []struct{ key, what, addr string }{
		{"grpc", "gRPC", l.config.GRPC}, {"http", "HTTP", l.config.HTTP}, {"json_rpc", "JSON-RPC", l.config.JSONRPC},
		{"pprof", "profiles'", l.config.Pprof},
	}
	for i, b := range ports {
		for _, a := range ports[:i] {
			if a.addr != b.addr || a.addr == "" || strings.HasSuffix(a.addr, ":0") {
				continue
			}
			g := l.given[b.key]
			if l.given[a.key].layer > g.layer {
				g = l.given[a.key]
			}
			l.refuse(g, "the "+a.what+" and the "+b.what+" port must differ")
		}
	}
}

// checkTLS wants both files or none. What is in them is read at the start.
func (l *loader) checkTLS() {
	switch cert, key := l.given["tls_cert"], l.given["tls_key"]; {
	case cert.value != "" && key.value == "":
		l.refuse(cert, "give the file of its private key too (tls_key)")
	case key.value != "" && cert.value == "":
		l.refuse(key, "give the file of the certificate too (tls_cert)")
	}
}

// checkAuth settles which way of authentication is in force: that of the stronger layer. In one layer of ours they exclude each
// other; of Zaino's keys the cookie wins, wherever each of them is written.
func (l *loader) checkAuth() {
	cookie, byCookie := l.given["zebra_cookie"]
	user, byUser := l.given["zebra_user"]
	file, byFile := l.given["zebra_password_file"]
	byCookie, byUser, byFile = byCookie && cookie.value != "", byUser && user.value != "", byFile && file.value != ""
	strongest := max(user.layer, file.layer)
	switch {
	case byCookie && (byUser || byFile) && cookie.layer == strongest && !cookie.classic && !user.classic:
		l.refuse(cookie, "give either a cookie file or a user with a password file, not both")
		return
	case byCookie && (cookie.layer >= strongest || cookie.classic && user.classic && !byFile):
		l.config.ZebraUser, l.config.ZebraPasswordFile, l.config.ZebraPassword = "", "", ""
		return
	}
	if byUser || byFile {
		l.config.ZebraCookie = ""
	}
	_, byPassword := l.given[passwordKey]
	switch {
	case byFile && !byUser:
		l.refuse(file, "give the user name too (zebra_user)")
	case byUser && !byFile && !byPassword:
		l.refuse(user, "give the file that holds the password too (zebra_password_file)")
	case byFile:
		password, err := readPassword(file.value)
		if err != nil {
			l.refuse(file, err.Error())
			return
		}
		l.config.ZebraPassword = Secret(password)
	}
}

// readPassword returns the first line of a file.
func readPassword(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot be read (%w): give a file whose first line is the password", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	if !lines.Scan() || lines.Text() == "" {
		if err := lines.Err(); err != nil {
			return "", fmt.Errorf("cannot be read (%w): give a file whose first line is the password", err)
		}
		return "", errors.New("the first line is empty: it must be the password")
	}
	return lines.Text(), nil
}

func (l *loader) ownNames() []string {
	var names []string
	for _, k := range Keys() {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	return names
}
