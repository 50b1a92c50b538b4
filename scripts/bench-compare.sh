#!/usr/bin/env bash
# Benchmarks of this checkout against those of a git revision, ten runs each, compared by benchstat.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# -ge 1 ] || { echo "usage: scripts/bench-compare.sh REVISION [PATTERN]" >&2; exit 2; }
pattern=${2:-.}
work=$(mktemp -d)
trap 'git worktree remove --force "$work/old" 2>/dev/null || true; rm -rf "$work"' EXIT
git worktree add -q --detach "$work/old" "$1"
# Interleaved, so that a machine that warms up or slows down treats both alike.
for _ in 1 2 3 4 5 6 7 8 9 10; do
	(cd "$work/old" && go test -run '^$' -bench "$pattern" -benchmem ./pkg/...) >>"$work/old.txt"
	go test -run '^$' -bench "$pattern" -benchmem ./pkg/... >>"$work/new.txt"
done
go tool -modfile=tools/go.mod benchstat "$work/old.txt" "$work/new.txt"
