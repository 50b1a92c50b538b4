#!/usr/bin/env bash
# scripts/sbom.sh FILE [BINARY] writes what a binary is made of, as CycloneDX JSON; without one, the image's program for amd64 is built.
#
# It is read from what the Go toolchain noted in the binary: that is what was linked, and a checkout of any kind will do.
set -euo pipefail

file=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $# -gt 1 ]; then
	binary=$2
else
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	binary=$work/zsidecar
	deploy/image/build.sh amd64 "$binary"
fi
read -r _ version _ < <("$binary" version)
go tool -modfile=tools/go.mod cyclonedx-gomod bin -json -licenses -version "v${version%,}" -output "$file" "$binary"
