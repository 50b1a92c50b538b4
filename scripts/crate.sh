#!/usr/bin/env bash
# scripts/crate.sh [--cached] NAME VERSION [ARGUMENTS of cargo install...] prints the path of a program of that version, building it
# once if the machine has none; with --cached it fails instead.
#
# Looked for in this order: $NAME in capital letters, the PATH, the cache folder, then `cargo install` into the cache folder.
# The cache folder lies outside the checkout, so only a cold machine pays for the build.
set -euo pipefail

build=yes
if [ "$1" = --cached ]; then
	build=no
	shift
fi
name=$1 version=$2
shift 2
cache=${ZSIDECAR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zsidecar-ci}
root=$cache/$name-$version-opt1
given=${name^^}

is_pinned() { [ -x "$1" ] && "$1" --version 2>/dev/null | grep -q "$name $version"; }

for candidate in "${!given:-}" "$(command -v "$name" || true)" "$root/bin/$name"; do
	if [ -n "$candidate" ] && is_pinned "$candidate"; then
		echo "$candidate"
		exit 0
	fi
done
[ $build = yes ] || exit 1

{
	echo "$name $version is not on this machine: building it into $root"
	# RocksDB's bindings are generated at build time, which needs libclang and a C++ compiler.
	if ! ls /usr/lib/llvm-*/lib/libclang.so* >/dev/null 2>&1; then
		apt-get update -qq
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq clang libclang-dev cmake pkg-config
	fi
	# opt-level 1 keeps the proofs usable and the build short; the binary is cached, the build directory is not.
	export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0
	export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_INCREMENTAL=0
	export CARGO_TARGET_DIR=$cache/$name-build
	cargo install --locked "$name" --version "$version" "$@" --root "$root"
	rm -rf "$CARGO_TARGET_DIR"
} >&2

is_pinned "$root/bin/$name" || { echo "the $name built at $root does not run" >&2; exit 1; }
echo "$root/bin/$name"
