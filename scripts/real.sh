#!/usr/bin/env bash
# The tests that need a real zebrad, a second client stack and real wallet software, with nothing skipped. Arguments go to `go test`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ZSIDECAR_ZEBRAD=${ZSIDECAR_ZEBRAD:-$(scripts/zebrad.sh)}
ZSIDECAR_PYTHON=${ZSIDECAR_PYTHON:-$(scripts/venv.sh)}
ZSIDECAR_WALLET=${ZSIDECAR_WALLET:-$(scripts/wallet.sh)}
export ZSIDECAR_ZEBRAD ZSIDECAR_PYTHON ZSIDECAR_WALLET ZSIDECAR_REQUIRE_REAL=1
# The simulated Zebra against the real one first: the rest of the suite is worth nothing if they differ.
go test -race -count=1 -timeout 10m "$@" ./pkg/zebrarpc/zebratest/...
# Here a skipped test counts as failed; zainod, which takes long to build, is for scripts/interop.sh alone.
go test -count=1 -timeout 30m -skip '^(TestInterop|TestSwap|TestZainodReadsLongChain)$' "$@" ./integration/...
