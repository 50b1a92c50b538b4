#!/usr/bin/env bash
# Format, vet, staticcheck, the house rules (internal/lint), generated code and documents, and a tidy go.mod.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

unformatted=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
	echo "not formatted: run gofmt -w on" >&2
	echo "$unformatted" >&2
	exit 1
fi
go vet ./...
go tool -modfile=tools/go.mod staticcheck ./...
go test -count=1 ./internal/lint
scripts/golden.sh --check
scripts/proto.sh --check
go mod tidy -diff
(cd tools && go mod tidy -diff)
