#!/usr/bin/env bash
# Builds the program for one architecture (amd64, arm64) into a file, statically and reproducibly: the same source and the same
# Go release give the same bytes on every machine.
set -euo pipefail

arch=$1
out=$2
cd "$(dirname "$0")/../.."
# The commit is noted in the binary, also where the checkout belongs to another user.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$PWD
CGO_ENABLED=0 GOOS=linux GOARCH=$arch GOFLAGS=-mod=readonly go build -trimpath -ldflags='-s -w -buildid=' -o "$out" ./cmd/zsidecar
