#!/usr/bin/env bash
# Lays out the files of the image: OUT/root for those of root, OUT/user for those of the image's user.
#
#   rootfs.sh OUT BINARY BASH CERTIFICATES
set -euo pipefail

out=$1 binary=$2 bash=$3 certificates=$4
here=$(dirname "$0")
root=$out/root user=$out/user

mkdir -p "$root"/{bin,etc/ssl/certs,usr/local/bin}
install -m 0755 "$binary" "$root/usr/local/bin/zsidecar"
ln -sf zsidecar "$root/usr/local/bin/zainod"
# Health checks of compose files are `bash -c 'echo > /dev/tcp/127.0.0.1/8137'`.
install -m 0755 "$bash" "$root/bin/bash"
ln -sf bash "$root/bin/sh"
install -m 0755 "$here/entrypoint.sh" "$root/entrypoint.sh"
install -m 0644 "$certificates" "$root/etc/ssl/certs/ca-certificates.crt"
echo 'root:x:0:0:root:/:/bin/sh
container_user:x:1000:1000::/home/container_user:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:
container_user:x:1000:' >"$root/etc/group"
install -d -m 1777 "$root/tmp"

# Settings and data are under /app; the places where the program looks lead there.
mkdir -p "$user"/app/{config,data} "$user"/home/container_user/{.config,.cache}
ln -sfn /app/config "$user/home/container_user/.config/zaino"
ln -sfn /app/data "$user/home/container_user/.cache/zaino"
