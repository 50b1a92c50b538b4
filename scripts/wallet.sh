#!/usr/bin/env bash
# Prints the path of the test wallet (integration/wallet), building it if the cache folder has none of these sources.
#
# The cache folder lies outside the checkout. A build directory is kept for the present Cargo.lock, so that a change of the wallet
# itself compiles in seconds; only a cold machine compiles the dependencies (about 5 minutes on two cores).
set -euo pipefail

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../integration/wallet" && pwd)
cache=${ZSIDECAR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zsidecar-ci}

hash_of() { cat "$@" | sha256sum | cut -c1-16; }
binary=$cache/wallet-$(hash_of "$source"/Cargo.toml "$source"/Cargo.lock "$source"/src/*.rs)/wallet
build=$cache/wallet-build-$(hash_of "$source"/Cargo.lock)

if [ ! -x "$binary" ]; then
	{
		echo "the test wallet is not on this machine: building it into $(dirname "$binary")"
		# SQLite and the curves bring C code.
		if ! command -v cc >/dev/null; then
			apt-get update -qq
			DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc libc6-dev
		fi
		# What was built for other sources is of no use any more.
		find "$cache" -maxdepth 1 -name 'wallet-*' ! -path "$build" -exec rm -rf {} +
		CARGO_TARGET_DIR=$build cargo build --locked --release --manifest-path "$source/Cargo.toml"
		mkdir -p "$(dirname "$binary")"
		cp "$build/release/wallet" "$binary.part"
		mv "$binary.part" "$binary"
	} >&2
fi
echo "$binary"
