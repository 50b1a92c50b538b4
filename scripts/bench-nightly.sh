#!/usr/bin/env bash
# The benchmark at a server of its own beside a simulated Zebra: an index built, a restart, and everything that is run by default. It keeps
# bench.csv and bench.json, which `zsidecar bench compare` takes.
# usage: scripts/bench-nightly.sh [FLAG of bench run...]
#   BLOCKS and KIND are those of `zsidecar bench chain`, OUT is the folder of the results.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${OUT:-.}
work=$(mktemp -d)
node=
finish() {
	[ -z "$node" ] || { kill "$node" 2>/dev/null && wait "$node" || true; }
	rm -rf "$work"
}
trap finish EXIT

mapfile -t ports < <(scripts/ports.sh 3)
rpc=${ports[0]} grpc=${ports[1]} http=${ports[2]}

go build -o "$work/zsidecar" ./cmd/zsidecar
: >"$work/chain.log"
"$work/zsidecar" bench chain --kind "${KIND:-testnet}" --blocks "${BLOCKS:-200000}" --listen "$rpc" >"$work/chain.log" 2>&1 &
node=$!
until grep -q "JSON-RPC is on" "$work/chain.log"; do
	kill -0 "$node" 2>/dev/null || { cat "$work/chain.log" >&2; exit 1; }
	sleep 0.2
done
mkdir -p "$out"
"$work/zsidecar" bench run --target "zsidecar=$grpc" --dir "zsidecar=$work/index" --complete "zsidecar=http://$http/healthz" \
	--start "zsidecar=$work/zsidecar start --zebra http://$rpc --grpc $grpc --http $http --data-dir {dir}" \
	--scenario index,restart,latency,ranges,concurrency,sync,stalled,mixed --csv "$out/bench.csv" --json "$out/bench.json" "$@"
