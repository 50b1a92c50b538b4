#!/usr/bin/env bash
# Rewrites every file that tests compare with (documents' tables, golden files). With --check it only compares.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
"") update=-update ;;
--check) update= ;;
*)
	echo "usage: scripts/golden.sh [--check]" >&2
	exit 2
	;;
esac
# Only the packages with an -update flag know it.
mapfile -t packages < <(git grep -l --untracked 'flag.Bool("update"' -- '*_test.go' | xargs -r -n1 dirname | sort -u | sed 's|^|./|')
[ ${#packages[@]} -gt 0 ] || { echo "no test has an -update flag" >&2; exit 1; }
go test -count=1 "${packages[@]}" ${update:+"$update"}
