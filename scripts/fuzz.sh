#!/usr/bin/env bash
# Runs every fuzz target for the given time, 10s by default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time=${1:-10s}
found=0
for package in $(go list ./...); do
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		found=$((found + 1))
		echo "-- $package $target"
		go test -run "^$" -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "$package"
	done
done
[ $found -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
echo "$found fuzz targets, $time each"
