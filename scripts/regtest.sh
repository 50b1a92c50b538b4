#!/usr/bin/env bash
# Runs a zebrad on an empty regtest chain until it is interrupted, and says how to mine on it and how to run zsidecar beside it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
zebrad=${ZSIDECAR_ZEBRAD:-$(scripts/zebrad.sh)}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/zebrad.toml" <<TOML
[network]
network = "Regtest"
listen_addr = "127.0.0.1:0"
cache_dir = false

[network.testnet_parameters.activation_heights]
Canopy = 1
NU5 = 2
NU6 = 3
"NU6.1" = 4
"NU6.2" = 5
"NU6.3" = 20
NU7 = 40

[state]
ephemeral = true

[rpc]
listen_addr = "127.0.0.1:18232"
enable_cookie_auth = true
cookie_dir = "$dir"
TOML
cat <<TEXT
zebrad listens on http://127.0.0.1:18232, its cookie is $dir/.cookie
  mine:     curl -u "\$(cat $dir/.cookie)" -d '{"method":"generatetoaddress","params":[100,"tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNV"],"id":1}' -H 'content-type: application/json' http://127.0.0.1:18232
  zsidecar: go run ./cmd/zsidecar start --zebra http://127.0.0.1:18232 --zebra-cookie $dir/.cookie --data-dir $dir/index
TEXT
"$zebrad" -c "$dir/zebrad.toml" start
