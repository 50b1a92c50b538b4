#!/usr/bin/env bash
# Profiles the program in one scenario of `zsidecar bench run`, or while it builds its index (scenario "build"), beside a simulated Zebra of
# its own, and writes what took processor time and memory as flame graphs that a browser shows.
# usage: scripts/profile.sh SCENARIO [FLAG of bench run...]
#   BLOCKS and KIND are those of `zsidecar bench chain`, SECONDS_OF_PROFILE is how long is sampled at most, OUT is the folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scenario=${1:?usage: scripts/profile.sh SCENARIO [FLAG of bench run...]; scenarios: build and those of zsidecar bench run --help}
shift
out=${OUT:-profiles}/$scenario
work=$(mktemp -d)
jobs=()
finish() {
	for job in "${jobs[@]}"; do
		kill "$job" 2>/dev/null && wait "$job" || true
	done
	rm -rf "$work"
}
trap finish EXIT

mapfile -t ports < <(scripts/ports.sh 5)
node=${ports[0]} grpc=${ports[1]} http=${ports[2]} pprof=${ports[3]} view=${ports[4]}

# await WHAT URL PID LOG waits until the URL is answered with 200, and fails when the process has ended.
await() {
	until curl -sf -o /dev/null "$2"; do
		kill -0 "$3" 2>/dev/null || { echo "$1 ended:" && tail -5 "$4"; exit 1; } >&2
		sleep 0.1
	done
}

go build -o "$work/zsidecar" ./cmd/zsidecar
: >"$work/chain.log"
"$work/zsidecar" bench chain --kind "${KIND:-testnet}" --blocks "${BLOCKS:-400000}" --listen "$node" >"$work/chain.log" 2>&1 &
jobs+=($!)
until grep -q "JSON-RPC is on" "$work/chain.log"; do
	kill -0 "${jobs[0]}" 2>/dev/null || { cat "$work/chain.log" >&2; exit 1; }
	sleep 0.2
done
"$work/zsidecar" start --zebra "http://$node" --grpc "$grpc" --http "$http" --pprof "$pprof" --data-dir "$work/data" >"$work/start.log" 2>&1 &
server=$!
jobs+=($server)
await "zsidecar start" "http://$pprof/debug/pprof/cmdline" $server "$work/start.log"

mkdir -p "$out"
# sample begins to sample the processor; the samples are written when that ends, or when the program is stopped.
sample() { curl -sf "http://$pprof/debug/pprof/profile?seconds=$1" -o "$out/cpu.pprof" & sampling=$!; }

if [ "$scenario" = build ]; then
	sample "${SECONDS_OF_PROFILE:-15}"
else
	until curl -sf "http://$http/metrics" | grep -q '^zsidecar_index_complete 1'; do
		kill -0 $server 2>/dev/null || { tail -5 "$work/start.log" >&2; exit 1; }
		sleep 0.5
	done
	"$work/zsidecar" bench run --target "zsidecar=$grpc" --pid "zsidecar=$server" --zebra "http://$node" \
		--scenario "$scenario" --json "$out/result.json" "$@" &
	bench=$!
	jobs+=($bench)
	sleep 2 # the warm-up
	sample "${SECONDS_OF_PROFILE:-15}"
fi
wait "$sampling"
curl -sf "http://$pprof/debug/pprof/allocs" -o "$out/allocs.pprof"
if [ "$scenario" != build ]; then
	wait $bench
fi

for profile in cpu allocs; do
	go tool pprof -http="$view" -no_browser "$work/zsidecar" "$out/$profile.pprof" >"$work/view.log" 2>&1 &
	viewer=$!
	jobs+=($viewer)
	await "go tool pprof" "http://$view/ui/flamegraph" $viewer "$work/view.log"
	curl -sf "http://$view/ui/flamegraph" -o "$out/$profile.html"
	pkill -P $viewer 2>/dev/null || true # what `go tool` has started
	kill $viewer 2>/dev/null && wait $viewer || true
	go tool pprof -top -cum "$work/zsidecar" "$out/$profile.pprof" >"$out/$profile.txt" 2>/dev/null
done
sed -n 5,30p "$out/cpu.txt"
echo "flame graphs: $out/cpu.html, $out/allocs.html; tables: $out/cpu.txt, $out/allocs.txt"
