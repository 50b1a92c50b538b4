#!/usr/bin/env bash
# Prints the path of a Python that has the packages of requirements.txt, creating its virtual environment when there is none.
#
# The environment lies in the cache folder, outside the checkout. Its name holds a digest of requirements.txt, so that a changed
# pin never meets an old environment.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
requirements=$here/requirements.txt
cache=${ZSIDECAR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zsidecar-ci}
digest=$(sha256sum "$requirements" | cut -c1-12)
venv=$cache/venv/$digest
python=$venv/bin/python

if [ ! -e "$venv/complete" ]; then
	{
		echo "creating the Python environment $venv"
		mkdir -p "$cache/venv"
		exec 9>"$cache/venv/lock"
		flock 9
		if [ ! -e "$venv/complete" ]; then
			rm -rf "$venv"
			if ! python3 -m venv "$venv"; then
				# Debian packs the venv module apart.
				apt-get update -qq
				DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv
				python3 -m venv --clear "$venv"
			fi
			"$python" -m pip install --quiet --disable-pip-version-check --only-binary :all: -r "$requirements"
			touch "$venv/complete"
		fi
	} >&2
fi

echo "$python"
