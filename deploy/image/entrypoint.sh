#!/bin/bash
# Starts the program under Zaino's name. The image has no other program than this shell, so every word here is one of its own.
set -euo pipefail

if [ "$EUID" -eq 0 ]; then
	echo "Error: this image does not run as root: leave the user to the image, or name one, such as 1000:1000" >&2
	exit 1
fi
if [ ! -w /app/data ]; then
	echo "warning: the user $EUID may not write to /app/data: give the volume to it (chown $EUID), or name another folder in the settings" >&2
fi
exec /usr/local/bin/zainod "$@"
