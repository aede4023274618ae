#!/usr/bin/env bash
# Writes what jobs of workflows and the board's image install, by version and hash, for their Python on their machines.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${1:-.venv/bin/python}"

platforms=(--platform manylinux2014_x86_64)
for minor in {5..39}; do platforms+=(--platform "manylinux_2_${minor}_x86_64"); done

lock() {
  file="$1"
  shift
  "$python" -m pip install --quiet --dry-run --ignore-installed --report - --constraint requirements.lock \
    --only-binary :all: --python-version 3.12 --implementation cp --target /nowhere "${platforms[@]}" "$@" |
    "$python" -c '
import json, sys
for item in json.load(sys.stdin)["install"]:
    about, hashes = item["metadata"], item["download_info"]["archive_info"]["hashes"]
    print(about["name"].lower() + "==" + about["version"], "--hash=sha256:" + hashes["sha256"])
' | LC_ALL=C sort > "$file"
}

needs() {
  "$python" -c 'import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
print(*project["dependencies"], *(project["optional-dependencies"][sys.argv[1]] if sys.argv[1:] else []), sep="\n")' "$@"
}

mapfile -t wanted < <(needs) && lock .github/locks/site.txt "${wanted[@]}"
mapfile -t wanted < <(needs export) && lock .github/locks/export.txt "${wanted[@]}"
mapfile -t wanted < <(needs github) && lock .github/locks/github.txt "${wanted[@]}"
mapfile -t wanted < <(needs modal) && lock .github/locks/modal.txt "${wanted[@]}"
mapfile -t wanted < <(PYTHONPATH=KernelBench "$python" -c '
from kernel_evaluator.engines.epoch import PARTS
print(*(part.pin for part in PARTS), sep="\n")') && lock KernelBench/kernel_evaluator/engines/image.txt "${wanted[@]}"
