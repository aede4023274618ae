#!/usr/bin/env bash
# Publishes the tables that `kbl export board` wrote as a release of today's date; run again that day, it renews them.
# They lie in $RUNNER_TEMP/tables, as bytes: nothing in them is run.
set -euo pipefail
tables="$RUNNER_TEMP/tables"
tag="board-$(date -u +%Y-%m-%d)"
gh release view "$tag" > /dev/null 2>&1 ||
  gh release create "$tag" --title "The boards on ${tag#board-}" --notes-file "$tables/README.md" --latest=false
gh release upload "$tag" --clobber "$tables"/data/*.parquet "$tables/README.md"
