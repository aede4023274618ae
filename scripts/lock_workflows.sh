#!/usr/bin/env bash
# Writes .github/locks: what jobs of workflows install, by version and hash, for their Python on their machines.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${1:-.venv/bin/python}"

lock() {
  name="$1"
  shift
  "$python" -m pip install --quiet --dry-run --ignore-installed --report - --constraint requirements.lock \
    --only-binary :all: --python-version 3.12 --implementation cp --target /nowhere \
    --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux_2_28_x86_64 "$@" |
    "$python" -c '
import json, sys
for item in json.load(sys.stdin)["install"]:
    about, hashes = item["metadata"], item["download_info"]["archive_info"]["hashes"]
    print(about["name"].lower() + "==" + about["version"], "--hash=sha256:" + hashes["sha256"])
' | LC_ALL=C sort > ".github/locks/$name.txt"
}

needs() {
  "$python" -c 'import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
print(*project["dependencies"], *(project["optional-dependencies"][sys.argv[1]] if sys.argv[1:] else []), sep="\n")' "$@"
}

mapfile -t wanted < <(needs) && lock site "${wanted[@]}"
mapfile -t wanted < <(needs github) && lock github "${wanted[@]}"
mapfile -t wanted < <(needs modal) && lock modal "${wanted[@]}"
