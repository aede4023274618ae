"""Where the evaluator's own files lie: in a checkout, and where it was installed."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
"""The folder of this package; its parent is what has to be on the path to import it."""

_INSTALLED = PACKAGE / "problem_set"

PROBLEM_SET = _INSTALLED if _INSTALLED.is_dir() else PACKAGE.parent
"""The problem files, and the tables about them. An installed package brings them along."""
