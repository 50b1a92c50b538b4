package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// ClassicKey is one setting of Zaino's classic file (0.8 to 0.10.2), so that its file and its ZAINO_ environment can be used as they are.
type ClassicKey struct {
	Path    string // dotted; ZAINO_ in the environment with two underscores for each dot
	Kind    Kind
	Default string // Zaino's own; empty: unset
	Means   string // the name of our key, or passwordKey; empty when it has no meaning here
	Alias   bool   // another name of the key before it
	Note    string // for a key without a meaning: why
	Secret  bool
	conv    func(string) (string, error) // to our key's value; nil: as it is
}

// Env is the name of the environment variable.
func (k ClassicKey) Env() string {
	return zainoPrefix + strings.ToUpper(strings.ReplaceAll(k.Path, ".", "__"))
}

// passwordKey is where Zaino's password goes: a secret that only a file may hold, so it is no Key.
const passwordKey = "(password)"

// ClassicKeys returns every key of Zaino's classic file.
func ClassicKeys() []ClassicKey {
	const perIndex = "sizes of Zaino's own database mean nothing to this index"
	return []ClassicKey{
		{Path: "backend", Default: "rpc", Note: "the index is always built over JSON-RPC"},
		{Path: "zebra_db_path", Note: "Zebra's database is never opened"},
		{Path: "ephemeral_finalised_state", Kind: Switch, Default: "false", Means: "no_index"},
		{Path: "network", Default: "PubTestnet", Means: "network", conv: classicNetwork},
		{Path: "metrics_endpoint", Means: "http", conv: classicPort},
		{Path: "donation_address", Means: "donation_address"},
		{Path: "json_server_settings.json_rpc_listen_address", Means: "json_rpc", conv: classicPort},
		{Path: "json_server_settings.cookie_dir", Means: "json_rpc_cookie_dir"},
		{Path: "grpc_settings.listen_address", Default: "127.0.0.1:8137", Means: "grpc"},
		{Path: "grpc_settings.grpc_listen_address", Means: "grpc", Alias: true},
		{Path: "grpc_settings.tls.cert_path", Means: "tls_cert"},
		{Path: "grpc_settings.tls.key_path", Means: "tls_key"},
		{Path: "validator_settings.validator_jsonrpc_listen_address", Default: "127.0.0.1:18232", Means: "zebra", conv: classicValidator},
		// Zaino's default, 127.0.0.1:18230, holds for its direct backend only: here the stream has to be asked for.
		{Path: "validator_settings.validator_grpc_listen_address", Means: "zebra_indexer"},
		{Path: "validator_settings.validator_cookie_path", Means: "zebra_cookie"},
		{Path: "validator_settings.validator_user", Default: "xxxxxx", Means: "zebra_user"},
		{Path: "validator_settings.validator_password", Default: "xxxxxx", Means: passwordKey, Secret: true},
		{Path: "service.timeout", Kind: Number, Default: "30", Note: "streams have no time limit here"},
		{Path: "service.channel_size", Kind: Number, Default: "32", Note: "streams are bound by the client's own flow control"},
		{Path: "storage.cache.capacity", Kind: Number, Default: "10000", Note: perIndex},
		{Path: "storage.cache.shard_power", Kind: Number, Default: "4", Note: perIndex},
		{Path: "storage.database.path", Default: CacheDirPlaceholder + "/zaino", Means: "data_dir", conv: classicStorage},
		{Path: "storage.database.size", Kind: Number, Default: "384", Note: perIndex},
		{Path: "storage.database.sync_write_batch_size", Kind: Number, Default: "8", Note: perIndex},
		{Path: "storage.database.accumulator_rebuild_memory_size", Kind: Number, Default: "8", Note: perIndex},
		{Path: "storage.database.sync_checkpoint_interval", Kind: Number, Default: "120", Note: "every commit is complete by itself"},
		{Path: "mempool.max_cost_bytes", Kind: Number, Default: "134217728", Note: "the limits of our copy of the mempool are fixed"},
		{Path: "mempool.poll_interval_ms", Kind: Number, Default: "500", Note: "the limits of our copy of the mempool are fixed"},
		{Path: "mempool.metadata_min_interval_ms", Kind: Number, Note: "the limits of our copy of the mempool are fixed"},
		{Path: "mempool.max_exclude_count", Kind: Number, Default: "1024", Note: "the limits of our copy of the mempool are fixed"},
	}
}

// strictSections are the parts of the classic file in which Zaino refuses an unknown key, and so do we. "" is the top level.
func strictSection(section string) bool { return section == "" || section == "storage.database" }

// newSchemaTables are the top-level tables of the schema that replaces the classic one upstream.
func isNewSchema(table string) bool { return table == "source" || table == "serve" || table == "store" }

// secretName tells whether Zaino takes a variable's last part for a secret, which the environment may not hold.
func secretName(path string) bool {
	last := strings.ToLower(path[strings.LastIndexByte(path, '.')+1:])
	for _, suffix := range []string{"password", "secret", "token", "cookie", "private_key"} {
		if strings.HasSuffix(last, suffix) {
			return true
		}
	}
	return false
}

func classicNetwork(s string) (string, error) {
	switch s {
	case "Mainnet":
		return "main", nil
	case "Testnet", "PubTestnet":
		return "test", nil
	case "Regtest":
		return "regtest", nil
	}
	return "", fmt.Errorf("must be Mainnet, Testnet, PubTestnet or Regtest")
}

func classicValidator(s string) (string, error) {
	if _, err := parseTarget(s); err != nil {
		return "", err
	}
	return "http://" + s, nil
}

// classicPort turns an address that is not set into no port, as in Zaino.
func classicPort(s string) (string, error) {
	if s == "" {
		return off, nil
	}
	return s, nil
}

// classicStorage keeps out of the way of Zaino's own database, which may be in the same folder.
func classicStorage(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return filepath.Join(s, "zsidecar"), nil
}
