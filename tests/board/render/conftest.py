"""A browser, and the site of the tests in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import sitehouse

from leaderboard.doctor import BROWSERS


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with sitehouse.served(sitehouse.site()) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    path = next(found for name in BROWSERS if (found := shutil.which(name)))
    with sync_api.sync_playwright() as running:
        started = running.chromium.launch(executable_path=path, args=sitehouse.CHROMIUM_FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def viewport() -> dict[str, int]:
    return {"width": 1360, "height": 900}


@pytest.fixture(scope="module")
def context(browser: Any, site: str, viewport: dict[str, int]) -> Iterator[Any]:
    """What the pages of a module share: one stays open, so that the next has a process that is warm.

    None glides to where it scrolls: a place that a test reads on the way is none.
    """
    shared = browser.new_context(viewport=viewport, reduced_motion="reduce")
    shared.new_page().goto(site)
    yield shared
    shared.close()


@pytest.fixture
def page(context: Any) -> Iterator[Any]:
    """A page whose every complaint fails the test: errors, blocked loads, violations of the policy, dialogs."""
    opened = context.new_page()
    complaints: list[str] = []
    opened.on(
        "console",
        lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None,
    )
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: (complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
    yield opened
    opened.close()
    context.pages[0].evaluate("localStorage.clear()")
    assert [] == complaints
