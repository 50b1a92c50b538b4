#!/usr/bin/env bash
# Runs every fuzz target whose name matches PATTERN for TIME, by default all of them for 10s each, and says how often each was executed.
# usage: scripts/fuzz.sh [TIME [PATTERN]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time=${1:-10s}
found=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for package in $(go list ./...); do
	for target in $(go test -list "${2:-^Fuzz}" "$package" | grep '^Fuzz' || true); do
		found=$((found + 1))
		echo "-- $package $target"
		go test -run "^$" -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "$package" | tee "$log"
		echo "executions of $target: $(grep -o 'execs: [0-9]*' "$log" | tail -1 | cut -d' ' -f2)"
	done
done
[ $found -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
echo "$found fuzz targets, $time each"
