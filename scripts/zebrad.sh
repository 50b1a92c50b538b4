#!/usr/bin/env bash
# Prints the path of a zebrad binary of the pinned version, building it once if the machine has none.
#
# Looked for in this order: $ZEBRAD, the PATH, the cache folder, then `cargo install` into the cache folder.
# The cache folder lies outside the checkout, so only a cold machine pays for the build (about 13 minutes on two cores).
set -euo pipefail

version=7.0.0
cache=${ZSIDECAR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zsidecar-ci}
root=$cache/zebrad-$version-opt1

is_pinned() { [ -x "$1" ] && "$1" --version 2>/dev/null | grep -q "zebrad $version"; }

for candidate in "${ZEBRAD:-}" "$(command -v zebrad || true)" "$root/bin/zebrad"; do
	if [ -n "$candidate" ] && is_pinned "$candidate"; then
		echo "$candidate"
		exit 0
	fi
done

{
	echo "zebrad $version is not on this machine: building it into $root"
	# RocksDB's bindings are generated at build time, which needs libclang and a C++ compiler.
	if ! ls /usr/lib/llvm-*/lib/libclang.so* >/dev/null 2>&1; then
		apt-get update -qq
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq clang libclang-dev cmake pkg-config
	fi
	# opt-level 1 keeps the proofs usable and the build short; the binary is cached, the build directory is not.
	export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0
	export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_INCREMENTAL=0
	export CARGO_TARGET_DIR=$cache/zebrad-build
	cargo install --locked zebrad --version "$version" --no-default-features --root "$root"
	rm -rf "$CARGO_TARGET_DIR"
} >&2

is_pinned "$root/bin/zebrad" || { echo "the zebrad built at $root does not run" >&2; exit 1; }
echo "$root/bin/zebrad"
