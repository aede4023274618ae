#!/usr/bin/env bash
# Sets .venv up for a job of a workflow: wheels by their hashes alone, nothing is built, and kbl runs from the checkout.
# The argument names the list in .github/locks.
set -euo pipefail
python3 -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
  --require-hashes --requirement ".github/locks/$1.txt"
packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$PWD" "$PWD/KernelBench" > "$packages/checkout.pth"
printf '#!/bin/sh\nexec "%s/.venv/bin/python" -m leaderboard "$@"\n' "$PWD" > .venv/bin/kbl
chmod +x .venv/bin/kbl
