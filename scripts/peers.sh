#!/usr/bin/env bash
# Measures zsidecar, zainod and Zebra's own wallet server side by side beside one real zebrad, on a regtest chain without NU7, which this
# zainod does not know. The chain is mined once (20,000 blocks take some four minutes) and kept in the cache folder.
# usage: scripts/peers.sh [FLAG of bench run...]
#   BLOCKS is the length of the chain, ROUNDS how often everything is measured, SCENARIOS what, OUT the folder of the results.
#   With MINE_ONLY=1 it ends when the chain is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
blocks=${BLOCKS:-20000}
out=${OUT:-peers}
zebrad=${ZSIDECAR_ZEBRAD:-$(scripts/zebrad.sh)}
zainod=${ZSIDECAR_ZAINOD:-$([ -n "${MINE_ONLY:-}" ] || scripts/zainod.sh)}
cache=${ZSIDECAR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zsidecar-ci}
address=tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNV
work=$(mktemp -d)
node=
finish() {
	[ -z "$node" ] || { kill "$node" 2>/dev/null && wait "$node" || true; }
	rm -rf "$work"
}
trap finish EXIT

mapfile -t ports < <(scripts/ports.sh 5)
rpc=${ports[0]} own=${ports[1]} ours=${ports[2]} http=${ports[3]} theirs=${ports[4]}

config() { # the folder of the state
	cat <<TOML
[network]
network = "Regtest"
listen_addr = "127.0.0.1:0"
cache_dir = false
initial_testnet_peers = []

[network.testnet_parameters.activation_heights]
Canopy = 1
NU5 = 2
NU6 = 3
"NU6.1" = 4
"NU6.2" = 5
"NU6.3" = 20

[state]
cache_dir = "$1"
ephemeral = false

[rpc]
listen_addr = "$rpc"
lightwalletd_listen_addr = "$own"
enable_cookie_auth = true
cookie_dir = "$work"

[tracing]
filter = "info"
TOML
}
config_hash=$(config STATE | sed "s,$rpc\|$own\|$work,,g" | cat - <(echo "$address") | sha256sum | cut -c1-12)
kept=$cache/peers-$blocks-$config_hash

call() { # METHOD [PARAMETERS]
	curl -sf -u "$(cat "$work/.cookie")" -H 'content-type: application/json' \
		-d '{"jsonrpc":"2.0","id":1,"method":"'"$1"'","params":'"${2:-[]}"'}' "http://$rpc"
}
height() { call getblockcount | sed -n 's/.*"result":\([0-9]*\).*/\1/p'; }
start_node() { # STATE
	config "$1" >"$work/zebrad.toml"
	rm -f "$work/.cookie"
	"$zebrad" -c "$work/zebrad.toml" start >"$work/zebrad.log" 2>&1 &
	node=$!
	until [ -f "$work/.cookie" ] && [ -n "$(height)" ]; do
		kill -0 "$node" 2>/dev/null || { echo "zebrad ended:" && tail -5 "$work/zebrad.log"; exit 1; } >&2
		sleep 0.1
	done
}
stop_node() {
	kill "$node" && wait "$node" || true
	node=
}

if [ ! -d "$kept" ]; then
	echo "mining $blocks blocks, which are kept in $kept" >&2
	mkdir -p "$cache"
	mining=$(mktemp -d "$cache/peers-mining-XXXXXX")
	trap 'finish; rm -rf "$mining"' EXIT
	start_node "$mining"
	while left=$((blocks - $(height))) && [ "$left" -gt 0 ]; do
		call generatetoaddress "[$((left < 250 ? left : 250)),\"$address\"]" >/dev/null
	done
	sleep 7 # Zebra writes the blocks that are not final every five seconds
	stop_node
	mv "$mining" "$kept" # what makes it valid
	trap finish EXIT
fi
[ -z "${MINE_ONLY:-}" ] || exit 0
cp -r "$kept" "$work/state"
start_node "$work/state"
for _ in $(seq 100); do
	[ "$(height)" != "$blocks" ] || break
	sleep 0.1
done
[ "$(height)" = "$blocks" ] || { echo "zebrad has $(height) blocks of $blocks: remove $kept to mine them again" >&2; exit 1; }

cat >"$work/zainod.toml" <<TOML
backend = "rpc"
network = "Regtest"

[validator_settings]
validator_jsonrpc_listen_address = "$rpc"
validator_cookie_path = "$work/.cookie"

[grpc_settings]
listen_address = "$theirs"

[storage.database]
path = "$work/zainod"
size = 1
TOML
go build -o "$work/zsidecar" ./cmd/zsidecar
mkdir -p "$out"
"$work/zsidecar" bench run --rounds "${ROUNDS:-5}" --scenario "${SCENARIOS:-index,restart,latency,ranges,concurrency,sync,tip}" \
	--zebra "http://$rpc" --zebra-cookie "$work/.cookie" --mine-to "$address" --logs "$out" \
	--target "zsidecar=$ours" --dir "zsidecar=$work/zsidecar-index" --complete "zsidecar=http://$http/healthz" \
	--start "zsidecar='$work/zsidecar' start --zebra http://$rpc --zebra-cookie '$work/.cookie' --grpc $ours --http $http --data-dir '{dir}'" \
	--target "zainod=$theirs" --dir "zainod=$work/zainod-index" \
	--start "zainod=env ZAINO_STORAGE__DATABASE__PATH='{dir}' '$zainod' start --config '$work/zainod.toml'" \
	--target "zebrad=$own" --pid "zebrad=$node" \
	--json "$out/peers.json" --csv "$out/peers.csv" --markdown "$out/peers.md" --html "$out/peers.html" "$@"
echo "results: $out/peers.json, peers.csv, peers.md, peers.html" >&2
