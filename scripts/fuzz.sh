#!/usr/bin/env bash
# Runs every fuzz target whose name matches PATTERN for TIME, by default all of them for 10s each, and says how often each was executed.
# Each has one processor to itself: as many run at a time as there are.
#
# Go ends a worker whose one input has taken 10 s of the clock. So it does to all of them at once when the machine gives them no time for as
# long. An input that such an end leaves behind is therefore run by itself: one that is done within 5 s is no finding, and the target goes
# on for what is left of its time. All other failures stand.
# usage: scripts/fuzz.sh [TIME [PATTERN]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time=${1:-10s}
case $time in
*h) seconds=$((${time%h} * 3600)) ;;
*m) seconds=$((${time%m} * 60)) ;;
*s) seconds=${time%s} ;;
*) echo "TIME is a whole number of s, m or h, not $time" >&2 && exit 2 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# starved PACKAGE TARGET LOG: the run in the log ended as a starved one does, and the input that it left behind, which is removed, is soon done.
starved() {
	local input try log=$3
	grep -q 'failing input file\|panic:\|fatal error:' "$log" && return 1
	input=$(sed -n 's|.*Failing input written to \(testdata/fuzz/.*\)|\1|p' "$log" | tail -1)
	if [ -z "$input" ]; then
		grep -qE '^ +(context deadline exceeded|fuzzing process hung or terminated unexpectedly: exit status 2)$' "$log"
		return
	fi
	grep -q 'fuzzing process hung or terminated unexpectedly.*: \(exit status 2\|EOF\)' "$log" || return 1
	for try in 1 2 3; do
		if go test -run "^$2\$/^${input##*/}\$" -timeout 5s "$1"; then
			input=$(go list -f '{{.Dir}}' "$1")/$input
			rm "$input"
			rmdir -p --ignore-fail-on-non-empty "${input%/*}"
			return 0
		fi
		[ "$try" = 3 ] || sleep 10
	done
	return 1
}

# fuzz PACKAGE TARGET runs one target for its time.
fuzz() {
	local start=$SECONDS left=$seconds executions=0 losses=0 more log=$work/$2.log
	echo "-- $1 $2"
	while [ "$left" -gt 0 ]; do
		if go test -run "^$" -fuzz "^$2\$" -fuzztime "${left}s" -fuzzminimizetime 10x -parallel 1 "$1" 2>&1 | tee "$log"; then
			left=0
		elif [ $losses -lt 20 ] && starved "$1" "$2" "$log"; then
			losses=$((losses + 1))
			left=$((seconds - (SECONDS - start)))
			echo "the workers of $2 were given no time; its input is soon done; $left s are left"
		else
			return 1
		fi
		more=$({ grep -o 'execs: [0-9]*' "$log" || true; } | tail -1 | cut -d' ' -f2) # none while it is still looking at its corpus
		executions=$((executions + ${more:-0}))
	done
	echo "executions of $2: $executions in $((SECONDS - start)) s, $losses times without time"
}

found=0 running=0 failed=0
await_one() {
	wait -n || failed=1
	running=$((running - 1))
}
# Only a package with a target is built.
mapfile -t folders < <(git grep -l --untracked '^func Fuzz' -- '*_test.go' | xargs -r -n1 dirname | sort -u | sed 's|^|./|')
for package in $(go list "${folders[@]}"); do
	for target in $(go test -list "${2:-^Fuzz}" "$package" | grep '^Fuzz' || true); do
		found=$((found + 1))
		[ $running -lt "$(nproc)" ] || await_one
		fuzz "$package" "$target" 2>&1 | sed -u "s/^/$target: /" &
		running=$((running + 1))
	done
done
while [ $running -gt 0 ]; do
	await_one
done
[ $found -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
echo "$found fuzz targets, $time each"
exit $failed
