#!/usr/bin/env bash
# Brings fonts for the pictures of pages: Latin, Cyrillic and Arabic, many scripts of Asia, Chinese, Japanese and Korean.
# They come from the system's own archive, whose packages are signed.
set -euo pipefail
sudo apt-get update --quiet
sudo apt-get install --quiet --yes --no-install-recommends fonts-dejavu-core fonts-noto-core fonts-noto-cjk
