#!/usr/bin/env bash
# The tests under the race detector, all but those of scripts/real.sh. Arguments go to `go test`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mapfile -t packages < <(go list ./... | grep -Ev '/(integration|zebratest)$')
go test -race -count=1 "$@" "${packages[@]}"
