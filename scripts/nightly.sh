#!/usr/bin/env bash
# What takes too long for every change. Every step runs, also after one that failed; their figures go to one file. The counts are
# settings, so that the recipe itself can be tried in minutes:
#   STEPS=2000 KILLS=8 CUTS=50 FUZZ=5s FUZZ_OTHERS=5s BLOCKS=20000 REAL=0 DEPENDENCIES=0 scripts/nightly.sh
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
figures=${FIGURES:-nightly.txt}
seed=${SEED:-$(date +%s)} # other scripts and other moments every night
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# step NAME FIGURES COMMAND... runs a command, and keeps the lines of its output that match FIGURES.
step() {
	local name=$1 pattern=$2 start=$SECONDS verdict=passed
	shift 2
	echo "== $name"
	if ! "$@" >"$work/log" 2>&1; then
		verdict=FAILED
		failed=1
		tail -100 "$work/log"
	fi
	{
		echo "== $name: $verdict after $((SECONDS - start)) s"
		grep -E "$pattern" "$work/log"
	} | tee -a "$figures"
}

# Of what comes from a disk or from Zebra, every byte may be wrong.
hostile='^Fuzz(DecodeRow|SegmentRun|ParseKey|Replies|DecodeReply)$'

newest_dependencies() {
	cp go.mod go.sum "$work/" &&
		go get -modfile="$work/go.mod" -u ./... &&
		go test -modfile="$work/go.mod" ./...
}

{
	echo "$(git describe --always --dirty), $(date -u +%FT%TZ), seed $seed, $(nproc) CPUs"
} | tee "$figures"
step "model test" "scripts of|seed" \
	go test -count=1 -timeout 24h -run 'TestModel$' -v ./pkg/index -model.steps "${STEPS:-1000000}" -model.seed "$seed"
step "kills" "kills,|KILL_SEED" \
	env ZSIDECAR_KILLS="${KILLS:-1000}" ZSIDECAR_KILL_SEED="$seed" go test -count=1 -timeout 6h -run 'TestKilled$' -v ./integration
step "power cuts" "cuts|^(ok|FAIL|---)" \
	go test -count=1 -timeout 6h -run 'TestPowerCut' -v ./pkg/index -power.cuts "${CUTS:-5000}" -power.seed "$seed"
step "fuzz rows and replies" "executions of|--- FAIL|go test -run=" scripts/fuzz.sh "${FUZZ:-1h}" "$hostile"
step "fuzz every target" "executions of|--- FAIL|go test -run=" scripts/fuzz.sh "${FUZZ_OTHERS:-${1:-10m}}"
step "an index of a million blocks" "^Benchmark" \
	go test -run '^$' -bench 'Open|Check|Repair' -benchmem -timeout 2h ./pkg/index
step "serving a million blocks" "^Benchmark" \
	env ZSIDECAR_BENCH_BLOCKS="${BLOCKS:-1000000}" \
	go test -run '^$' -bench 'Serve|Fairness|Unary|Memory|NewBlock$|Restart' -benchtime 5x -timeout 4h ./integration
step "zsidecar bench: bench.csv and bench.json" "^(FAULT|note|index|restart|latency|ranges|concurrency|sync|stalled|mixed) " \
	env BLOCKS="${BLOCKS:-1000000}" OUT="$(dirname "$figures")" scripts/bench-nightly.sh
if [ "${REAL:-1}" != 0 ]; then
	step "the real-node suite, ten times" "^(ok|FAIL|---)" env ZSIDECAR_WALLET_ALL=1 scripts/real.sh -count=10 -timeout 5h
	step "real-node tests in full length" "^(ok|FAIL|---)" \
		env ZSIDECAR_SLOW=1 scripts/real.sh -timeout 40m \
		-run 'TestConformancePatience$|TestStalledAddressReaders$|TestStopped|TestClockJumps|TestReorgUnderReaders$'
	if scripts/zainod.sh --cached >/dev/null; then # nobody builds it for this alone
		step "beside zainod" "^(ok|FAIL|---)" scripts/interop.sh
	fi
fi
[ "${DEPENDENCIES:-1}" = 0 ] || step "the newest dependencies" "^(FAIL|---)" newest_dependencies
echo "figures: $figures"
exit $failed
