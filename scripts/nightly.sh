#!/usr/bin/env bash
# What takes too long for every change: long fuzzing, the real-node suite ten times, tests of patience in full length, and the newest
# dependencies.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/fuzz.sh "${1:-10m}"
ZSIDECAR_WALLET_ALL=1 scripts/real.sh -count=10 -timeout 5h
ZSIDECAR_SLOW=1 scripts/real.sh -timeout 40m -run 'TestConformancePatience$|TestStalledAddressReaders$|TestStopped|TestReorgUnderReaders$'
go test -count=1 -timeout 2h -run TestPowerCut ./pkg/index -power.cuts 5000 -power.seed "$(date +%s)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp go.mod go.sum "$work/"
go get -modfile="$work/go.mod" -u ./...
go test -modfile="$work/go.mod" ./...
