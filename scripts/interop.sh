#!/usr/bin/env bash
# Compares zainod, zsidecar and zebrad on one chain, and the result with docs/differences.md; -update writes it. Then zainod reads a chain of
# `bench chain`. Arguments go to `go test`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ZSIDECAR_ZEBRAD=${ZSIDECAR_ZEBRAD:-$(scripts/zebrad.sh)}
ZSIDECAR_ZAINOD=${ZSIDECAR_ZAINOD:-$(scripts/zainod.sh)}
export ZSIDECAR_ZEBRAD ZSIDECAR_ZAINOD
go test -count=1 -timeout 30m -run '^(TestInterop|TestSwap|TestZainodReadsLongChain)$' -v ./integration "$@"
