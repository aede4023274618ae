"""The site over a slow network: scripts and data come when a reader has chosen already, or late and out of order."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import sitehouse
from sitehouse import held, until

from leaderboard.render.parts import numbers

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")

ENTRY = "torch-eager"
CHOICES = {
    "board": ("boards/H200.html", {"#kind": "baseline"}, "#levels label:has-text('2')", "kind=baseline level=l2"),
    "compare": ("compare.html", {"#board": "H100", "#level": "2", "#outcome": "a"}, "", "board=H100 level=2 outcome=a"),
    "matrix": ("matrix/H200.html", {"#level": "2"}, "", "level=2"),
    "entry": (f"entries/H200/{ENTRY}.html", {"#level": "2", "#status": "correct"}, "", "level=2 status=correct"),
    "problems": ("problems/index.html?family=matmul", {"#family": "pooling"}, "", "family=pooling"),
    "problem": ("problems/1_1.html", {"#gpu": "H100"}, "", "board=H100"),
}  # fmt: skip
"""Of each page: what is chosen before its script comes, and what its address says of that in the end."""


def kernels(board: str, problem: str) -> dict[str, Any]:
    data = json.loads((sitehouse.site() / f"api/v1/problems/{board}/{problem}.json").read_text())
    return {kernel["entry"]: kernel for kernel in data["kernels"]}


def another() -> str:
    """Give an entry of the H200's board that is neither of the two that tests compare."""
    table = json.loads((sitehouse.site() / "boards/H200.table.json").read_text())["entries"]
    return next(entry["id"] for entry in table if entry["id"] not in (ENTRY, "hostile"))


def early(page: Any, address: str, there: str) -> None:
    """Go to a page whose scripts are held back."""
    page.goto(address, wait_until="commit")
    page.wait_for_selector(there, state="attached")


@pytest.mark.parametrize("name", CHOICES)
def test_what_was_chosen_before_the_script_came_holds(page: Any, site: str, name: str) -> None:
    address, fields, press, said = CHOICES[name]
    let_go = held(page, f"**/assets/{name}.js")
    early(page, site + address, "footer")
    for field, value in fields.items():
        page.select_option(field, value)
    if press:
        page.locator(press).click()
    let_go()
    for part in said.split():
        until(page, f"location.search.slice(1).split('&').includes({part!r})")
    assert {field: page.input_value(field) for field in fields} == fields


def test_a_board_shows_what_was_chosen_before_its_data_came(page: Any, site: str) -> None:
    let_go = held(page, "**/boards/H200.table.json")
    early(page, f"{site}boards/H200.html", "footer")
    assert page.is_disabled("#reset")
    page.fill("#search", "hostile")
    page.locator("#levels label", has_text="2").click()
    let_go()
    until(page, "document.querySelector('#found').textContent.startsWith('1 of')")
    assert page.locator("#standings tbody tr").count() == 1
    assert page.is_checked("#levels input[value=l2]")
    page.click("#reset")
    until(page, "!location.search && document.querySelectorAll('#standings tbody tr').length > 1")


@pytest.mark.parametrize(
    ("address", "script", "field", "added"),
    [
        (f"compare.html?board=H200&a={ENTRY}&b=hostile", "compare", "#also", "#pairs th:has-text('C: ')"),
        ("matrix/H200.html", "matrix", "#add", "#matrix th[data-added]"),
    ],
)
def test_an_entry_typed_before_the_script_came_is_added(
    page: Any, site: str, address: str, script: str, field: str, added: str
) -> None:
    let_go = held(page, f"**/assets/{script}.js")
    early(page, site + address, "footer")
    if script == "matrix":
        page.evaluate(
            f"document.querySelector('#matrix').tHead.querySelector('[data-id={another()}]').remove()"
        )
    page.fill(field, another())
    let_go()
    page.wait_for_selector(added)


def test_an_entry_asked_for_before_the_board_came_is_added_to_a_comparison(page: Any, site: str) -> None:
    let_go = held(page, "**/boards/H200.table.json")
    page.goto(f"{site}compare.html?board=H200&a={ENTRY}&b=hostile")
    page.fill("#also", another())
    page.press("#also", "Tab")
    let_go()
    page.wait_for_selector("#pairs th:has-text('C: ')")
    assert f"more={another()}" in page.url


def test_another_board_and_a_level_in_one_go_compare_that_board(page: Any, site: str) -> None:
    page.goto(f"{site}compare.html?board=H200&a={ENTRY}&b=hostile")
    page.wait_for_selector("#pairs")
    let_go = held(page, "**/boards/H100.table.json")
    page.select_option("#board", "H100")
    page.select_option("#level", "1")
    let_go()
    until(page, "location.search.includes('board=H100')")
    until(page, "location.search.includes('level=1')")
    until(page, "!document.querySelector('#found').textContent.includes('arrive')")


def test_a_kernel_shown_is_of_the_board_that_is_chosen(page: Any, site: str) -> None:
    page.goto(f"{site}problems/1_1.html?board=H100")
    page.wait_for_selector("#shown pre.code")
    shown = page.input_value("#a")
    let_go = held(page, "**/api/v1/problems/H200/1_1.json")
    page.select_option("#gpu", "H200")
    assert page.is_disabled("#a")
    page.select_option("#gpu", "H100")
    let_go()
    until(page, "!document.querySelector('#a').disabled")
    page.wait_for_selector("#facts dt:has-text('Speedup')")
    speedup = numbers.speedup(kernels("H100", "1_1")[shown]["speedup"])
    assert page.locator("#facts dd").first.inner_text().startswith(speedup)


def test_what_is_saved_is_the_file_that_its_name_says(page: Any, site: str) -> None:
    page.goto(f"{site}problems/1_1.html?board=H200&a={ENTRY}")
    page.wait_for_selector("#save:enabled")
    let_go = held(page, "**/api/v1/entries/H200/hostile.json.gz")
    page.select_option("#a", "hostile")
    assert (page.is_disabled("#save"), page.is_disabled("#copy")) == (True, True)
    let_go()
    page.wait_for_selector("#save:enabled")
    with page.expect_download() as saved:
        page.click("#save")
    assert saved.value.suggested_filename == "hostile-1_1.py"
    assert "alert(6)" in saved.value.path().read_text()


def test_who_reads_an_entrys_table_stays_where_they_are(page: Any, site: str) -> None:
    let_go = held(page, "**/api/v1/entries/H200/torch-eager.json.gz")
    page.set_viewport_size({"width": 1360, "height": 420})
    page.goto(f"{site}entries/H200/{ENTRY}.html")
    link = page.locator("#table tbody a").nth(5)
    name, top = link.inner_text(), "document.activeElement.getBoundingClientRect().top"
    link.scroll_into_view_if_needed()
    link.focus()
    before = page.evaluate(top)
    let_go()
    until(page, "document.querySelector('#table tr[data-level]')")
    assert page.evaluate("document.activeElement.textContent") == name
    assert abs(page.evaluate(top) - before) < 20


def test_an_address_leads_to_the_code_and_does_not_pull_back_who_went_on(page: Any, site: str) -> None:
    let_go = held(page, "**/api/v1/problems/H200/1_1.json")
    page.set_viewport_size({"width": 1360, "height": 420})
    page.goto(f"{site}problems/1_1.html?board=H200&a={ENTRY}#code")
    top = "document.querySelector('{}').getBoundingClientRect().top"
    until(page, f"Math.abs({top.format('#code')}) < 80")
    page.evaluate("document.querySelector('#reference').scrollIntoView()")
    let_go()
    page.wait_for_selector("#shown pre.code")
    assert abs(page.evaluate(top.format("#reference"))) < 80


def test_a_step_back_within_a_page_leaves_the_address_true(page: Any, site: str) -> None:
    page.goto(f"{site}entries/H200/{ENTRY}.html")
    until(page, "document.querySelector('#table tr[data-level]')")
    page.locator("a[href='#history']").click()
    page.select_option("#level", "2")
    until(page, "location.search.includes('level=2')")
    page.go_back()
    until(page, "!location.hash")
    assert ("level=2" in page.url, page.input_value("#level")) == (True, "2")


@pytest.mark.parametrize(
    ("address", "lost"),
    [
        ("boards/H200.html", "**/H200.table.json"),
        (f"entries/H200/{ENTRY}.html", "**/api/v1/entries/**"),
        ("compare.html?board=H200", "**/H200.table.json"),
        ("matrix/H200.html?add=hostile", "**/api/v1/entries/**"),
    ],
)
def test_what_did_not_arrive_is_said(browser: Any, site: str, address: str, lost: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.route(lost, lambda route: route.abort())
    page.goto(site + address)
    page.wait_for_selector("#found:has-text('did not arrive')")
    assert re.search("Reload the page", page.inner_text("#found"))
    context.close()
