#!/usr/bin/env bash
# Regenerates the Go packages in proto/ from proto/*.proto. With --check it changes nothing and fails, showing the difference, when the
# committed code is not what the generators make.
#
# Every generator is pinned: protoc by scripts/requirements.txt, the two plugins by tools/go.mod.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
module=github.com/zsidecar/zsidecar

case ${1:-} in
"") check=no ;;
--check) check=yes ;;
*)
	echo "usage: scripts/proto.sh [--check]" >&2
	exit 2
	;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python=$("$root/scripts/venv.sh")
cd "$root"
go build -modfile=tools/go.mod -o "$work/bin/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go
go build -modfile=tools/go.mod -o "$work/bin/protoc-gen-go-grpc" google.golang.org/grpc/cmd/protoc-gen-go-grpc

mkdir "$work/out"
"$python" -m grpc_tools.protoc --proto_path=proto \
	--plugin=protoc-gen-go="$work/bin/protoc-gen-go" --go_out="$work/out" --go_opt=module=$module \
	--plugin=protoc-gen-go-grpc="$work/bin/protoc-gen-go-grpc" --go-grpc_out="$work/out" --go-grpc_opt=module=$module \
	compact_formats.proto service.proto indexed_tip.proto zebra_indexer.proto

for package in walletrpc indexrpc zebraindexer; do
	if [ $check = no ]; then
		rm -rf "proto/$package"
		cp -r "$work/out/proto/$package" "proto/$package"
	elif ! diff -ruN "proto/$package" "$work/out/proto/$package"; then
		echo "proto/$package is stale: run scripts/proto.sh and commit the result" >&2
		exit 1
	fi
done
