#!/usr/bin/env bash
# Rewrites every file that tests compare with: tables in documents, golden files, recordings of a real zebrad. Review the difference.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Only the packages with an -update flag know it.
mapfile -t packages < <(git grep -l --untracked 'flag.Bool("update"' -- '*_test.go' | xargs -r -n1 dirname | sort -u | sed 's|^|./|')
[ ${#packages[@]} -gt 0 ] || { echo "no test has an -update flag" >&2; exit 1; }
ZSIDECAR_ZEBRAD=${ZSIDECAR_ZEBRAD:-$(scripts/zebrad.sh)}
export ZSIDECAR_ZEBRAD
go test -count=1 "${packages[@]}" -update
git status --short
