#!/usr/bin/env bash
# Installs kbl into .venv with the extras named, at the locked versions: what every job of a workflow starts with.
set -euo pipefail
python3 -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check \
  --constraint requirements.lock --editable ".${1:+[$1]}"
