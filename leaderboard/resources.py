"""Where the board's own files lie: in a checkout, and where it was installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "shipped"
_SHIPPED = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent
"""What a checkout has beside the packages; an installed package brings it along."""

CHECKOUT = _PACKAGE.parent
"""Where the packages lie side by side with the rest, if they do."""
SCHEMAS = _PACKAGE / "schemas"
SITE = _SHIPPED / "site"
CPU_DEMO = _SHIPPED / "submissions" / "cpu-demo.json"
