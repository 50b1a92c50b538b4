#!/usr/bin/env bash
# Builds the program for one architecture (amd64, arm64) into a file, statically and reproducibly: the same source and the same
# Go release give the same bytes on every machine.
set -euo pipefail

arch=$1
out=$2
cd "$(dirname "$0")/../.."
git config --global --get-all safe.directory 2>/dev/null | grep -qx "$PWD" || git config --global --add safe.directory "$PWD"
CGO_ENABLED=0 GOOS=linux GOARCH=$arch GOFLAGS=-mod=readonly go build -trimpath -ldflags='-s -w -buildid=' -o "$out" ./cmd/zsidecar
