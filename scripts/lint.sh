#!/usr/bin/env bash
# Format, vet, staticcheck, the house rules and documents (internal/lint), generated code, and a tidy go.mod.
# Golden files and generated tables are compared by the tests themselves.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

unformatted=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
	echo "not formatted: run gofmt -w on" >&2
	echo "$unformatted" >&2
	exit 1
fi
go vet ./...
CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 go vet ./... # so that it builds on other systems too
go tool -modfile=tools/go.mod staticcheck ./...
go test -count=1 ./internal/lint
scripts/proto.sh --check
go mod tidy -diff
