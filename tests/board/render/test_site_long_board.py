"""A board longer than any screen: its first rows are drawn first, and every reader gets all of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import sitehouse
from kernel_evaluator.records.places import PROBLEM_SET

from leaderboard.render import build_site

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")

ENTRIES, FIRST = 45, 40
DRAWN = "[...document.querySelectorAll('#standings tbody tr')].filter((row) => row.getClientRects().length).length"
COUNT_WHEN_READ = f"addEventListener('DOMContentLoaded', () => {{ window.whenRead = {DRAWN}; }})"
STAND_STILL = "window.setTimeout = () => 0;"  # what comes by the clock alone never comes


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("long")
    sitehouse.write_repository(root, entries=ENTRIES, levels=(1,), most=1, source_length=200)
    (root / "problems/level1").mkdir(parents=True)
    shutil.copy(next((PROBLEM_SET / "level1").glob("1_*.py")), root / "problems/level1")
    build_site(sitehouse.read(root), root / "site")
    with sitehouse.served(root / "site") as address:
        yield f"{address}boards/H200.html"


@pytest.fixture
def opened(browser: Any, site: str) -> Iterator[Callable[..., Any]]:
    """Opens the board with scripts of the test's own; `address` follows the page's."""
    context = browser.new_context()

    def open_board(*scripts: str, address: str = "") -> Any:
        page = context.new_page()
        for script in (COUNT_WHEN_READ, *scripts):
            page.add_init_script(script)
        page.goto(site + address)
        page.wait_for_selector("#search", state="visible")
        return page

    yield open_board
    context.close()


def until_all_are_drawn(page: Any) -> None:
    for _ in range(200):
        if page.evaluate(DRAWN) == ENTRIES:
            return
        page.wait_for_timeout(50)
    pytest.fail(f"{page.evaluate(DRAWN)} of {ENTRIES} rows are drawn")


def test_the_first_rows_are_drawn_first_and_the_others_without_being_asked_for(
    opened: Callable[..., Any],
) -> None:
    page = opened()
    assert page.evaluate("whenRead") == FIRST
    until_all_are_drawn(page)


@pytest.mark.parametrize("move", ["wheel", "key"])
def test_a_move_towards_the_other_rows_draws_them(opened: Callable[..., Any], move: str) -> None:
    page = opened(STAND_STILL)
    assert page.evaluate(DRAWN) == FIRST
    act = {"wheel": partial(page.mouse.wheel, 0, 300), "key": partial(page.keyboard.press, "End")}[move]
    act()
    until_all_are_drawn(page)


def test_every_row_is_there_for_a_browser_that_returns_to_a_place(opened: Callable[..., Any]) -> None:
    assert opened(STAND_STILL, address="#curves").evaluate("whenRead") == ENTRIES
    page = opened(STAND_STILL)
    page.reload()
    page.wait_for_selector("#search", state="visible")
    assert page.evaluate("whenRead") == ENTRIES


def test_paper_gets_every_row_at_once(opened: Callable[..., Any]) -> None:
    page = opened(STAND_STILL)
    page.emulate_media(media="print")
    assert page.evaluate(DRAWN) == ENTRIES


def test_every_row_is_drawn_without_javascript(browser: Any, site: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site)
    assert page.locator("#standings tbody tr:visible").count() == ENTRIES
    context.close()
