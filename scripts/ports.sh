#!/usr/bin/env bash
# scripts/ports.sh N prints N addresses of this machine, one a line, on whose ports nobody listens now: different ones, below those that the
# kernel gives to clients.
set -euo pipefail
declare -A ports=()
while [ ${#ports[@]} -lt "$1" ]; do
	port=$((10000 + RANDOM % 20000))
	(: </dev/tcp/127.0.0.1/$port) 2>/dev/null || ports[$port]=free
done
printf '127.0.0.1:%s\n' "${!ports[@]}"
