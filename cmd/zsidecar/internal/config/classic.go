package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// ClassicKey is one setting of Zaino's classic file (0.8 to 0.10.2), so that its file and its ZAINO_ environment can be used as they are.
type ClassicKey struct {
	Path   string // dotted; ZAINO_ in the environment with two underscores for each dot
	Means  string // the name of our key, or passwordKey; empty when it has no meaning here
	Note   string // for a key without a meaning: why
	Refuse bool   // the key asks for something whose silent absence would be a danger
	Secret bool
	conv   func(string) (string, error) // to our key's value; nil: as it is
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
		{Path: "backend", Note: "the index is always built over JSON-RPC"},
		{Path: "zebra_db_path", Note: "Zebra's database is never opened"},
		{Path: "ephemeral_finalised_state", Means: "no_index"},
		{Path: "network", Means: "network", conv: classicNetwork},
		{Path: "metrics_endpoint", Means: "http"},
		{Path: "donation_address", Means: "donation_address"},
		{Path: "json_server_settings.json_rpc_listen_address", Note: "this version serves no JSON-RPC"},
		{Path: "json_server_settings.cookie_dir", Note: "this version serves no JSON-RPC"},
		{Path: "grpc_settings.listen_address", Means: "grpc"},
		{Path: "grpc_settings.grpc_listen_address", Means: "grpc"},
		{Path: "grpc_settings.tls.cert_path", Refuse: true, Note: "this version serves plain text only: remove it and end TLS at a proxy"},
		{Path: "grpc_settings.tls.key_path", Refuse: true, Note: "this version serves plain text only: remove it and end TLS at a proxy"},
		{Path: "validator_settings.validator_jsonrpc_listen_address", Means: "zebra", conv: classicValidator},
		{Path: "validator_settings.validator_grpc_listen_address", Note: "the tip is polled over JSON-RPC"},
		{Path: "validator_settings.validator_cookie_path", Means: "zebra_cookie"},
		{Path: "validator_settings.validator_user", Means: "zebra_user"},
		{Path: "validator_settings.validator_password", Means: passwordKey, Secret: true},
		{Path: "service.timeout", Note: "streams have no time limit here"},
		{Path: "service.channel_size", Note: "streams are bound by the client's own flow control"},
		{Path: "storage.cache.capacity", Note: perIndex},
		{Path: "storage.cache.shard_power", Note: perIndex},
		{Path: "storage.database.path", Means: "data_dir", conv: classicStorage},
		{Path: "storage.database.size", Note: perIndex},
		{Path: "storage.database.sync_write_batch_size", Note: perIndex},
		{Path: "storage.database.accumulator_rebuild_memory_size", Note: perIndex},
		{Path: "storage.database.sync_checkpoint_interval", Note: "every commit is complete by itself"},
		{Path: "mempool.max_cost_bytes", Note: "the limits of our copy of the mempool are fixed"},
		{Path: "mempool.poll_interval_ms", Note: "the limits of our copy of the mempool are fixed"},
		{Path: "mempool.metadata_min_interval_ms", Note: "the limits of our copy of the mempool are fixed"},
		{Path: "mempool.max_exclude_count", Note: "the limits of our copy of the mempool are fixed"},
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
	if _, err := parseAddr(s); err != nil {
		return "", err
	}
	return "http://" + s, nil
}

// classicStorage keeps out of the way of Zaino's own database, which may be in the same folder.
func classicStorage(s string) (string, error) { return filepath.Join(s, "zsidecar"), nil }
