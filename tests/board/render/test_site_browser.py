"""The site in a real browser: what a visitor does, with and without JavaScript, and what hostile text cannot do."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import sitehouse

from leaderboard.render.parts import numbers

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")

PHONE = {"width": 390, "height": 844}


GOOD_SUBMISSION = json.dumps(
    {"metadata": {"display_name": "Mine"}, "kernels": {"level_1_problem_19_sample_0": "class ModelNew: pass"}}
).encode()


def entry_data(board: str, entry: str) -> dict[str, Any]:
    packed = sitehouse.site() / f"api/v1/entries/{board}/{entry}.json.gz"
    data: dict[str, Any] = json.loads(gzip.decompress(packed.read_bytes()))
    return data


def board(page: Any, site: str) -> None:
    page.goto(f"{site}boards/H200.html")
    page.wait_for_selector("#standings thead button")


def names(page: Any) -> list[str]:
    return page.eval_on_selector_all(
        "#standings tbody .name a", "nodes => nodes.map((node) => node.textContent)"
    )


def column(page: Any, selector: str) -> list[str]:
    return page.eval_on_selector_all(selector, "nodes => nodes.map((node) => node.firstChild.textContent)")


def test_the_benchmark_weighs_every_script_that_the_index_loads(page: Any, site: str) -> None:
    spec = importlib.util.spec_from_file_location("site_benchmark", sitehouse.ROOT / "benchmarks" / "site.py")
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    loaded = set()
    page.on("request", lambda request: loaded.add(request.url.rpartition("/")[2]))
    page.goto(site)
    page.wait_for_selector("#standings thead button")
    weighed = {path.name for path in benchmark.index_scripts(sitehouse.site())}
    assert weighed == {name for name in loaded if name.endswith(".js")}


def test_a_click_on_a_header_sorts_and_announces_it(page: Any, site: str) -> None:
    board(page, site)
    page.get_by_role("button", name="Correct").click()
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Correct")
    rates = [float(text.rstrip("%\u202f ")) for text in column(page, "#standings tbody td:nth-child(10)")]
    assert rates == sorted(rates, reverse=True)
    assert "sort=correct.down" in page.url


def test_the_line_under_a_header_is_whole_wherever_it_lies_and_stays_with_it(page: Any, site: str) -> None:
    from PIL import Image

    page.set_viewport_size({"width": 1440, "height": 500})
    board(page, site)
    header, rows = page.locator("#standings thead tr"), page.locator("#standings tbody tr")
    border = header.locator("th").first.evaluate("cell => getComputedStyle(cell).borderBottomColor")
    line = tuple(map(int, re.findall(r"\d+", border)))
    for lower_px in (0, 0.3, 0.5, 0.8):
        page.evaluate(f"document.querySelector('#standings').style.marginTop = '{lower_px}px'")
        for row in (rows.first, rows.last):
            header.scroll_into_view_if_needed()
            row.scroll_into_view_if_needed()
            box = header.bounding_box() | {"y": header.locator("th").first.bounding_box()["y"]}
            assert box["y"] >= 0, "the header stays in view"
            clip = {"x": box["x"], "y": box["y"] + box["height"] - 3, "width": box["width"], "height": 4}
            drawn = Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB")
            counts = [
                sum(drawn.getpixel((x, y)) == line for x in range(drawn.width)) for y in range(drawn.height)
            ]
            assert max(counts) >= box["width"] - 2, (lower_px, counts)


def test_the_keyboard_sorts_both_ways(page: Any, site: str) -> None:
    board(page, site)
    page.locator("th[data-sort=name] button").focus()
    page.keyboard.press("Enter")
    first = names(page)
    page.keyboard.press("Enter")
    assert page.locator("th[data-sort=name]").get_attribute("aria-sort") == "descending"
    assert first == names(page)[::-1]


def test_search_finds_by_name_and_says_how_many(page: Any, site: str) -> None:
    board(page, site)
    page.fill("#search", "pytorch as")
    sitehouse.until(page, "document.querySelectorAll('#standings tbody tr').length === 1")
    assert ["PyTorch as it is"] == names(page)
    assert page.inner_text("#found") == "1 of 8 rows"


def test_a_search_without_a_hit_says_so_and_reset_brings_all_back(page: Any, site: str) -> None:
    board(page, site)
    page.fill("#search", "nobody is called this")
    page.wait_for_selector("text=No entry fits")
    page.get_by_role("button", name="Reset").click()
    assert len(names(page)) == 8


def test_a_sorted_board_still_says_what_is_incomplete(page: Any, site: str) -> None:
    page.goto(site + "boards/H200.html")
    before = page.locator("#standings em").all_inner_texts()
    assert "baseline, incomplete" in before[0]
    page.locator("th[data-sort=name] button").click()
    assert sorted(before) == sorted(page.locator("#standings em").all_inner_texts())


def test_filters_leave_what_fits(page: Any, site: str) -> None:
    board(page, site)
    page.select_option("#kind", "baseline")
    assert ["PyTorch as it is"] == names(page)


@pytest.mark.parametrize("field", ["model", "scaffold"])
def test_entries_are_filtered_by_what_wrote_them(page: Any, site: str, field: str) -> None:
    board(page, site)
    value = page.locator(f"#{field} option").nth(1).text_content()
    page.select_option(f"#{field}", value)
    sitehouse.until(page, f"new URLSearchParams(location.search).get('{field}') === {json.dumps(value)}")
    rows = page.locator("#standings tbody tr")
    assert 0 < rows.count() < 8
    assert all(value in text for text in rows.locator("th").all_text_contents())
    page.reload()
    page.wait_for_selector("#standings thead button")
    assert value == page.input_value(f"#{field}")


def test_an_address_shows_what_was_chosen(page: Any, site: str) -> None:
    board(page, site)
    page.fill("#search", "a")
    page.locator("#levels label", has_text="2").click()
    page.get_by_role("button", name="fast@2").click()
    sitehouse.until(page, "location.search.includes('q=a')")
    before, address = names(page), page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("#standings thead button")
    assert before == names(page)
    assert page.input_value("#search") == "a"
    assert page.locator("#levels input:checked").get_attribute("value") == "l2"
    assert page.locator("th[data-sort=fast2]").get_attribute("aria-sort") == "descending"


def test_the_level_switch_shows_the_figures_of_that_level(page: Any, site: str) -> None:
    board(page, site)
    page.locator("#levels label", has_text="3").click()
    data = json.loads((sitehouse.site() / "api/v1/boards/H200.json").read_text())
    shown = column(page, "#standings tbody td.main")
    known = {item["entry"]: item["levels"]["3"]["deployed_speedup"] for item in data["standings"]}
    rows = page.eval_on_selector_all("#standings tbody tr", "rows => rows.map((row) => row.dataset.id)")
    assert [numbers.speedup(known[entry]) for entry in rows] == shown


def test_the_curve_reads_what_the_records_say_at_every_p(page: Any, site: str) -> None:
    board(page, site)
    page.locator("#curves").scroll_into_view_if_needed()
    page.wait_for_selector("#curve .keys .n")
    slider = page.locator("#p")
    slider.focus()
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    sitehouse.until(page, "location.search.includes('p=')")
    p = float(page.inner_text("#p-value"))
    assert p > 1
    data = json.loads((sitehouse.site() / "api/v1/boards/H200.json").read_text())
    best = next(entry["entry"] for entry in data["standings"] if entry["rank"])
    rows = entry_data("H200", best)["rows"]
    fast = sum(
        row["status"] == "correct" and row["speedup"] >= p
        for row in rows
        if not row["key"].startswith("level_4")
    )
    sitehouse.until(
        page, f"document.querySelector('#curve .keys small').textContent.startsWith('{fast} of 250')"
    )


def test_the_curve_counts_at_the_very_speedup_that_it_shows(page: Any, site: str) -> None:
    board(page, site)
    counted = page.evaluate(
        "import('../assets/curve.js').then((m) => [...Array(1001).keys()].map((at) => m.fromSlider(at)))"
    )
    assert counted == [round(p, 2) for p in counted]
    assert {0.25, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 8.0, 16.0} <= set(counted)


def test_chosen_entries_are_drawn_and_lead_to_their_comparison(page: Any, site: str) -> None:
    board(page, site)
    boxes = page.locator("#standings .pick input")
    boxes.nth(1).check()
    boxes.nth(4).check()
    sitehouse.until(page, "document.querySelectorAll('#curve .lines path').length === 2")
    chosen = names(page)
    sitehouse.follow(page.get_by_role("link", name="Compare the first two"))
    page.wait_for_selector("#pairs")
    assert chosen[1] in page.inner_text("#result")
    assert chosen[4] in page.inner_text("#result")


def test_a_choice_taken_back_is_not_drawn_when_its_data_come_late(page: Any, site: str) -> None:
    let_go = sitehouse.held(page, "**/api/v1/entries/H200/hostile.json.gz")
    board(page, site)
    page.locator("tr[data-id=torch-eager] .pick input").check()
    box = page.locator("tr[data-id=hostile] .pick input")
    box.check()
    box.uncheck()
    sitehouse.until(page, "document.querySelectorAll('#curve .lines path').length === 1")
    let_go()
    page.evaluate("import('../assets/data.js').then(({ entryData }) => entryData('H200', 'hostile'))")
    assert page.inner_text("#picked").startswith("1 chosen")
    assert page.locator("#curve .lines path").count() == 1


def compare(page: Any, site: str) -> tuple[dict[str, Any], dict[str, Any]]:
    found = sorted((sitehouse.site() / "api/v1/entries/H100").glob("*.json.gz"))
    first, second = (path.name.removesuffix(".json.gz") for path in found[:2])
    page.goto(f"{site}compare.html?board=H100&a={first}&b={second}")
    page.wait_for_selector("#pairs")
    return entry_data("H100", first), entry_data("H100", second)


def test_a_comparison_counts_wins_losses_and_ties(page: Any, site: str) -> None:
    rows = [{row["key"]: row for row in data["rows"]} for data in compare(page, site)]
    wins = [0, 0, 0]
    for key in set(rows[0]) | set(rows[1]):
        a, b = (side.get(key, {}) for side in rows)
        if not (a or b)["counted"]:
            continue
        low, high = a.get("speedup_ci95"), b.get("speedup_ci95")
        if low and high:
            wins[0 if low[0] > high[1] else 1 if high[0] > low[1] else 2] += 1
    shown = [int(text) for text in page.locator(".score strong").all_inner_texts()[:3]]
    assert wins == shown
    assert "1/1 Square matrix multiplication" == page.inner_text("#pairs tbody th >> nth=0")
    assert page.locator(".scatter circle").count() == sum(
        "speedup" in rows[0].get(key, {}) and "speedup" in rows[1].get(key, {}) for key in rows[0]
    )


def test_a_comparison_can_be_filtered_and_swapped(page: Any, site: str) -> None:
    compare(page, site)
    wins = page.locator(".score strong").nth(0).inner_text()
    page.select_option("#outcome", "a")
    sitehouse.until(page, f"document.querySelectorAll('#pairs tbody tr').length === {wins}")
    page.get_by_role("button", name="Swap").click()
    sitehouse.until(page, f"document.querySelectorAll('.score strong')[1].textContent === '{wins}'")


def test_a_board_or_entry_that_is_not_there_is_named(page: Any, site: str) -> None:
    page.goto(f"{site}compare.html?board=H200&a=nobody")
    page.wait_for_selector("text=no “nobody” on this board")
    page.goto(f"{site}compare.html?board=B300&a=torch-eager&b=hostile")
    page.wait_for_selector("text=There is no board B300")
    assert page.locator("#result table").count() == 0
    page.goto(f"{site}problems/1_1.html?a=nobody#code")
    page.wait_for_selector("text=“nobody” has no kernel for this problem on this board")
    assert "a=nobody" in page.url


def test_the_matrix_adds_what_its_address_names(page: Any, site: str) -> None:
    page.goto(f"{site}matrix/H200.html?add=hostile")
    sitehouse.until(page, "document.querySelector('#found').textContent.includes('there already')")


def test_a_column_asked_for_before_the_list_of_entries_came_is_added_once_it_did(
    page: Any, site: str
) -> None:
    let_go = sitehouse.held(page, "**/boards/H200.table.json")
    page.goto(f"{site}matrix/H200.html")
    page.evaluate("document.querySelector('#matrix').tHead.querySelector('[data-id=hostile]').remove()")
    for _ in range(2):
        page.fill("#add", "hostile")
        page.press("#add", "Tab")
    let_go()
    sitehouse.until(page, "document.querySelector('#matrix [data-added=hostile]')")
    assert page.locator("#matrix th[data-added=hostile]").count() == 1


def test_a_comparison_leads_to_the_kernels_that_there_are(page: Any, site: str) -> None:
    page.goto(f"{site}compare.html?board=H200&a=torch-eager&b=hostile")
    page.wait_for_selector("#pairs tbody tr")
    links = page.eval_on_selector_all(
        "#pairs tbody tr",
        "rows => rows.map((row) => [row.cells[1].textContent, row.cells[2].textContent, row.querySelector('a').search])",
    )
    for first, second, link in links:
        known = {"torch-eager": first != "not sent", "hostile": second != "not sent"}
        assert [f"={entry}" in link for entry in known] == list(known.values()), link
    assert any("not sent" in figures for figures in links)


def test_a_file_that_is_refused_leaves_nothing_to_check(page: Any, site: str) -> None:
    page.goto(f"{site}submit.html")
    good = {"name": "a.json", "mimeType": "application/json", "buffer": GOOD_SUBMISSION}
    page.set_input_files("#file", files=[good])
    page.wait_for_selector("text=This fits the schema")
    page.set_input_files("#file", files=[{**good, "buffer": GOOD_SUBMISSION.decode().encode("utf-16")}])
    page.wait_for_selector("text=The file is not UTF-8")
    page.click("#check")
    page.wait_for_selector("text=There is nothing to check")
    padded = GOOD_SUBMISSION + b" " * 300_000
    page.set_input_files("#file", files=[{**good, "buffer": padded}])
    page.wait_for_selector("text=This fits the schema")
    page.evaluate("document.querySelector('#verdict').replaceChildren()")
    page.click("#check")
    page.wait_for_selector("text=This fits the schema")


def test_the_matrix_shows_the_level_that_the_address_names(page: Any, site: str) -> None:
    page.goto(f"{site}matrix/H200.html?level=2")
    sitehouse.until(page, "document.querySelector('#found').textContent.includes('3 problems')")
    assert page.locator("#matrix tbody tr:visible").count() == 3


def test_a_filter_set_before_the_rows_came_holds_once_they_did(page: Any, site: str) -> None:
    let_go = sitehouse.held(page, "**/api/v1/entries/H200/hostile.json.gz")
    page.goto(f"{site}entries/H200/hostile.html")
    page.select_option("#level", "2")
    let_go()
    sitehouse.until(page, "document.querySelector('#found').textContent.startsWith('3 of')")
    assert page.locator("#table tbody tr:visible").count() == 3
    assert "level=2" in page.url


def test_a_column_that_is_added_looks_like_those_of_the_page(page: Any, site: str) -> None:
    page.goto(f"{site}matrix/H200.html")
    sitehouse.until(page, "document.querySelector('#found').textContent.includes('columns')")
    of_the_page = page.evaluate("""() => {
        const table = document.querySelector('#matrix'), heads = [...table.tHead.rows[0].cells];
        const at = heads.findIndex((head) => head.dataset.id === 'hostile');
        return [...table.rows].map((row) => row.cells[at]).map((cell, i) => {
            cell.remove();
            return i ? [cell.className, cell.textContent] : [];
        });
    }""")
    page.fill("#add", "hostile")
    page.press("#add", "Tab")
    sitehouse.until(page, "document.querySelector('#matrix [data-added=hostile]')")
    added = page.evaluate("""() => [...document.querySelectorAll('#matrix td[data-added=hostile]')]
        .map((cell) => [cell.className, cell.textContent])""")
    assert of_the_page[1:] == added
    assert {"up2", "even", "bad"} <= {tone for tone, _ in added}


def test_a_kernel_is_shown_beside_the_reference_with_what_differs(page: Any, site: str) -> None:
    page.goto(f"{site}problems/1_1.html?b=reference")
    page.wait_for_selector(".diff")
    assert page.locator(".diff thead th").all_inner_texts()[0] == "PyTorch reference"
    assert page.locator(".diff td.add").count() > 3
    assert page.locator(".diff td.del").count() > 3
    assert "def get_inputs" in page.inner_text(".diff")


def test_the_names_over_a_diff_stay_at_the_top_of_its_box(page: Any, site: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 300})
    page.goto(f"{site}problems/1_1.html?b=reference")
    page.wait_for_selector(".diff")
    from_top = """(box) => {
        box.scrollTop = 60;
        return [box.scrollTop, ...[box, box.querySelector('thead')].map((node) => node.getBoundingClientRect().top)];
    }"""
    scrolled, box_top, names_top = page.locator(".diff").evaluate(from_top)
    assert scrolled == 60
    assert 0 <= names_top - box_top <= 2


def test_two_kernels_are_compared_and_the_address_keeps_them(page: Any, site: str) -> None:
    page.goto(f"{site}problems/2_1.html")
    page.wait_for_selector("#shown pre.code")
    values = page.eval_on_selector_all("#a option", "nodes => nodes.map((node) => node.value)")
    page.select_option("#a", values[1])
    page.select_option("#b", values[2])
    sitehouse.until(
        page, "document.querySelector('.diff thead')?.textContent.includes('reference') === false"
    )
    address, shown = page.url, page.inner_text(".diff")
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(".diff")
    assert shown == page.inner_text(".diff")


def test_a_diff_is_right_line_by_line(page: Any, site: str) -> None:
    page.goto(f"{site}problems/1_1.html")
    rows = page.evaluate(
        """async () => {
          const { align } = await import("../assets/diff.js");
          const sides = [["a", "b", "c", "d", "e"], ["a", "x", "c", "e", "f"]];
          return align(...sides);
        }"""
    )
    assert [[0, 0], [1, None], [None, 1], [2, 2], [3, None], [4, 3], [None, 4]] == rows


def test_a_diff_of_long_sources_keeps_every_line(page: Any, site: str) -> None:
    page.goto(f"{site}problems/1_1.html")
    whole = page.evaluate(
        """async () => {
          const { align } = await import("../assets/diff.js");
          const a = Array.from({ length: 6000 }, (_, at) => `line ${at % 900} ${at % 7 ? "" : at}`);
          const b = a.filter((_, at) => at % 11).concat(["end"]);
          const pairs = align(a, b);
          const same = pairs.every(([i, j]) => i === null || j === null || a[i] === b[j]);
          const lefts = pairs.filter(([i]) => i !== null).map(([i]) => i);
          const rights = pairs.filter(([, j]) => j !== null).map(([, j]) => j);
          return same && lefts.every((i, at) => i === at) && rights.every((j, at) => j === at) && lefts.length === a.length && rights.length === b.length;
        }"""
    )
    assert whole


def test_a_failed_kernel_shows_its_log(page: Any, site: str) -> None:
    rows = json.loads((sitehouse.site() / "api/v1/problems/H200/1_2.json").read_text())["kernels"]
    data = [
        json.loads((sitehouse.site() / f"api/v1/problems/H200/{i}_{j}.json").read_text())
        for i in (1, 2, 3)
        for j in (1, 2, 3)
    ]
    found = next(
        (d["problem"], k["entry"]) for d in data for k in d["kernels"] if k["status"] == "compile_error"
    )
    assert rows
    page.goto(f"{site}problems/{found[0]}.html?board=H200&a={found[1]}")
    page.wait_for_selector("pre.log")
    assert "is undefined" in page.inner_text("pre.log")


def test_an_entry_page_leads_to_the_sample_it_lists(page: Any, site: str) -> None:
    page.goto(f"{site}entries/H200/torch-eager.html")
    sitehouse.follow(page.locator("#table a", has_text="1/1 #1"))
    page.wait_for_selector("#shown pre.code:has-text('# the second sample')")
    assert "sample 1" in page.locator("#a option:checked").inner_text()


def test_links_to_kernels_are_the_same_before_the_script_put_its_rows_in_place(page: Any, site: str) -> None:
    let_go = sitehouse.held(page, "**/api/v1/entries/H200/torch-eager.json.gz")
    links = "Array.from(document.querySelectorAll('#table tbody a'), (link) => link.getAttribute('href'))"
    page.goto(f"{site}entries/H200/torch-eager.html")
    first = page.evaluate(links)
    let_go()
    sitehouse.until(page, "document.querySelector('#table tr[data-level]')")
    assert page.evaluate(links) == first
    assert "../../problems/1_1.html?board=H200&a=torch-eager&sample=1#code" in first


def test_an_address_names_a_sample_only_while_that_sample_is_shown(page: Any, site: str) -> None:
    page.goto(f"{site}problems/1_1.html?board=H200&a=torch-eager&sample=1&b=reference")
    page.wait_for_selector(".diff")
    page.select_option("#a", "hostile")
    sitehouse.until(page, "location.search.includes('a=hostile')")
    assert "sample" not in page.evaluate("location.search")
    page.select_option("#a", "torch-eager")
    sitehouse.until(page, "location.search.includes('sample=1')")
    page.wait_for_selector(".diff thead:has-text('sample 1')")


def test_a_kernel_says_what_its_row_stands_on(page: Any, site: str) -> None:
    packed = (sitehouse.site() / "api/v1/entries/H200/torch-eager.json.gz").read_bytes()
    row = next(row for row in json.loads(gzip.decompress(packed))["rows"] if "stands_on" in row)
    _, level, _, number, *_ = row["key"].split("_")
    page.goto(f"{site}problems/{level}_{number}.html?board=H200&a=torch-eager#code")
    page.click("#facts .stands summary")
    terms = page.locator("#facts .stands dt").all_text_contents()
    shown = dict(zip(terms, page.locator("#facts .stands dd").all_text_contents(), strict=True))
    found = row["stands_on"]
    made = f"{found['rounds_counted']} of {found['rounds_made']}, {found['rounds_looked_at']} looked at"
    assert shown["Panel of inputs"] == "9 of 9"
    assert shown["Rounds counted"] == made
    assert shown["Tolerance of timed outputs"] == "relative to their size"
    assert shown["Found by"] == "one evaluation"


def test_hostile_code_log_and_evidence_are_shown_as_text(page: Any, site: str) -> None:
    page.goto(f"{site}problems/1_1.html?board=H200&a=hostile")
    page.wait_for_selector("#shown pre.code")
    assert "</pre></script><script>alert(6)</script>" in page.inner_text("#shown pre.code")
    page.wait_for_selector("pre.log")
    assert "<script>alert(8)</script>" in page.inner_text("#facts")
    assert "<script>alert(9)</script>" in page.inner_text("#facts")
    page.select_option("#b", "reference")
    page.wait_for_selector(".diff")
    assert page.evaluate("document.querySelectorAll('#code script, #code img, #code iframe').length") == 0


def test_a_kernel_that_is_one_long_word_does_not_hold_its_reader_up(page: Any, site: str) -> None:
    page.goto(f"{site}problems/1_1.html")
    # A way that begins anew at each letter would outlast the test's own limit many times over.
    found = page.evaluate("""() => import('../assets/listing.js').then(({ launches }) =>
        launches('f'.repeat(1_000_000) + '\\nkernel <<<1, 2>>>(x)'))""")

    assert ["kernel <<<1, 2>>>"] == found


def test_a_diff_draws_five_thousand_lines_and_more_where_somebody_asks(page: Any, site: str) -> None:
    page.goto(f"{site}problems/1_1.html")
    page.wait_for_selector("#shown pre.code")
    page.evaluate("""() => import('../assets/diff.js').then(({ drawDiff }) => document.querySelector('#shown')
        .replaceChildren(drawDiff({ name: 'a', source: 'x\\n'.repeat(12_000) }, { name: 'b', source: 'y' }, { all: false })))""")
    rows, button = page.locator(".diff tbody tr"), page.locator(".diff .skip-row button")
    for drawn, left in ((5001, "7001 more lines"), (10001, "2001 more lines")):
        assert (drawn, left) == (rows.count(), button.inner_text())
        button.click()

    assert (12_001, 0) == (rows.count(), button.count())


def test_a_kernel_of_very_many_lines_can_be_read(page: Any, site: str) -> None:
    page.goto(f"{site}problems/1_1.html")
    page.wait_for_selector("#shown pre.code")
    drawn = page.evaluate("""() => import('../assets/listing.js').then(({ drawCode }) => {
        const code = drawCode({ name: 'a', source: 'x\\n'.repeat(45_000) });
        const seen = () => [code.querySelectorAll('.row').length, code.querySelector('button')?.textContent ?? ''];
        return [0, 1, 2].map(() => { const now = seen(); code.querySelector('button')?.click(); return now; });
    })""")

    assert [[20_000, "25000 more lines"], [40_000, "5000 more lines"], [45_000, ""]] == drawn


def test_hostile_names_stay_text_wherever_scripts_write_them(page: Any, site: str) -> None:
    for address, drawn in (
        ("boards/H200.html?q=script", "#standings thead button"),
        ("compare.html?board=H200&a=hostile&b=torch-eager", "#pairs"),
        ("matrix/H200.html", "#entries option"),
    ):
        page.goto(site + address)
        page.wait_for_selector(drawn, state="attached")
        assert (
            page.evaluate(
                "document.querySelectorAll('main script, main img, main iframe, main svg[onload]').length"
            )
            == 0
        )
        assert "<script>alert(1)</script>" in page.inner_text("main")


def check(page: Any, site: str, text: str) -> str:
    page.goto(f"{site}submit.html")
    page.fill("#text", text)
    page.click("#check")
    page.wait_for_selector("#verdict .verdict")
    return page.inner_text("#verdict")


GOOD = {
    "metadata": {"display_name": "Mine"},
    "kernels": {"level_1_problem_1_sample_0": "class ModelNew: pass"},
}


def test_the_validator_accepts_what_fits(page: Any, site: str) -> None:
    said = check(page, site, json.dumps(GOOD))
    assert "This fits the schema" in said
    assert "level 1: 1 of 100 problems" in said
    assert "Not checked here" not in said


@pytest.mark.parametrize("source", ["", "x = 1", "class Model: ..."])
def test_the_validator_takes_a_kernel_as_it_is_and_says_what_will_become_of_it(
    page: Any, site: str, source: str
) -> None:
    said = check(page, site, json.dumps({**GOOD, "kernels": {"level_1_problem_1_sample_0": source}}))
    assert "This fits the schema" in said
    assert "1 will fail to compile, since they never name ModelNew: level_1_problem_1_sample_0." in said


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            '{"metadata": {"display_name": "a"}, "kernels": {"level_1_problem_101_sample_0": "ModelNew"}}',
            "level_1_problem_101",
        ),
        ('{"metadata": {"display_name": "a", "display_name": "b"}, "kernels": {}}', "stands twice"),
        (
            '{"metadata": {}, "kernels": {"level_1_problem_1_sample_0": "ModelNew"}}',
            'lacks the field "display_name"',
        ),
        (
            '{"metadata": {"display_name": "a", "colour": 1}, "kernels": {"level_1_problem_1_sample_0": "ModelNew"}}',
            '"colour" is not known',
        ),
        (
            '{"metadata": {"display_name": 5}, "kernels": {"level_1_problem_1_sample_0": "ModelNew"}}',
            "must be string, found 5",
        ),
        (
            '{"metadata": {"display_name": "a"},\n "kernels": {"level_1_problem_1_sample_0": NaN}}',
            "line 2, column 44",
        ),
        (
            '{"metadata": {"display_name": "\ufeff"}, "kernels": {"level_1_problem_1_sample_0": ""}}',
            "must match",
        ),
        (
            '{"metadata": {"display_name": "a", "url": "https://a.example/\x85"}, "kernels": {"level_1_problem_1_sample_0": ""}}',
            "must match",
        ),
        ("[" * 100_000, "nested"),
        ("", "nothing to check"),
    ],
)
def test_the_validator_names_the_place_the_rule_and_the_mend(
    page: Any, site: str, text: str, complaint: str
) -> None:
    assert complaint in check(page, site, text)


def test_the_validator_reads_a_file_and_refuses_one_that_is_not_utf8(
    page: Any, site: str, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(GOOD))
    bad.write_bytes(json.dumps(GOOD).encode().replace(b"Mine", b"\xff\xfe"))
    page.goto(f"{site}submit.html")
    page.set_input_files("#file", good)
    page.wait_for_selector("text=This fits the schema")
    page.set_input_files("#file", bad)
    page.wait_for_selector("text=The file is not UTF-8")


def test_every_real_submission_of_the_repository_passes_the_validator(
    page: Any, site: str, repository: Path
) -> None:
    for path in sorted((repository / "submissions").glob("*.json")):
        page.goto(f"{site}submit.html")
        page.set_input_files("#file", path)
        page.wait_for_selector("#verdict .verdict")
        assert "This fits the schema" in page.inner_text("#verdict"), path


def test_browser_and_build_write_figures_alike(page: Any, site: str) -> None:
    page.goto(f"{site}about.html")
    values = [0.0004, 0.0421, 0.083, 0.5, 0.9994, 1.0, 1.005, 1.834, 9.995, 12.34, 123.4, 4321.0]
    values += [1.125, 0.625, 2.125, 12.25, 100.5, 0.1225]  # exact ties, the last as a percentage
    written = page.evaluate(
        """async (values) => {
          const { speedup, ms, percent, interval } = await import("./assets/format.js");
          return values.map((value) => [speedup(value), ms(value), percent(value), interval([value, value])]);
        }""",
        values,
    )
    ours = [
        [numbers.speedup(v), numbers.milliseconds(v), numbers.percent(v), numbers.interval((v, v))]
        for v in values
    ]
    assert ours == written


def test_the_theme_is_kept_from_page_to_page(page: Any, site: str) -> None:
    board(page, site)
    page.get_by_role("button", name="Theme: auto").click()
    page.get_by_role("button", name="Theme: light").click()
    page.goto(f"{site}method.html")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor") == "rgb(20, 22, 26)"


def test_without_javascript_every_page_still_reads(browser: Any, site: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(f"{site}boards/H200.html")
    assert opened.locator("#standings tbody tr").count() == 8
    assert not opened.locator(".controls").is_visible()
    assert opened.locator("#curve path").count() >= 5
    opened.goto(f"{site}problems/1_1.html")
    assert "class Model(" in opened.inner_text("main")
    sitehouse.follow(opened.locator("section.static a").first)
    assert opened.url.startswith(f"{site}kernels/1_1/")
    opened.goto(f"{site}entries/H200/hostile.html")
    assert opened.locator("#table tbody tr").count() == len(entry_data("H200", "hostile")["rows"])
    assert "rejected" in opened.inner_text("#table")
    opened.goto(f"{site}compare.html")
    assert "needs JavaScript" in opened.inner_text("main")
    context.close()


@pytest.mark.parametrize("name", ["index.html", "compare.html", "problems/index.html", "submit.html"])
def test_a_page_that_is_opened_as_a_file_offers_nothing_that_needs_a_server_and_says_so(
    browser: Any, name: str
) -> None:
    context = browser.new_context()
    opened = context.new_page()
    opened.goto((sitehouse.site() / name).as_uri())
    assert "kbl site serve" in opened.inner_text("main > .notice")
    offered = opened.locator("button, input, select, textarea").all()
    assert ["theme"] == [each.get_attribute("id") for each in offered if each.is_visible()]
    assert opened.locator("main a").count()
    context.close()


UNSEEN_OR_MISNAMED_ON_A_CARD = """() => {
    const label = (cell) => getComputedStyle(cell, '::before').content.replace(/^"|"$/g, '').toLowerCase();
    const header = (cell) => cell.closest('table').tHead.rows[0].cells[cell.cellIndex].textContent.toLowerCase();
    return [...document.querySelectorAll('.cards tbody tr > :not([colspan])')]
        .filter((cell) => cell.getClientRects().length && (cell.getBoundingClientRect().right > innerWidth
            || (label(cell) === 'none' ? cell.matches('.n') : !header(cell).includes(label(cell)))))
        .map((cell) => `${label(cell)}: ${cell.outerHTML}`);
}"""


@pytest.mark.parametrize("name", sitehouse.PAGE_KINDS)
def test_no_page_is_wider_than_a_phone_and_every_figure_on_a_card_has_its_columns_name(
    page: Any, site: str, name: str
) -> None:
    page.set_viewport_size(PHONE)
    sitehouse.visit(page, site + name)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate(UNSEEN_OR_MISNAMED_ON_A_CARD) == []


TOO_SMALL = """() => [...document.querySelectorAll('main :is(button, .what, input, select, .crumbs a, th > a)')]
    .map((node) => [node, node.getBoundingClientRect()])
    .filter(([node, box]) => box.width && !node.matches('.segments input') && Math.min(box.width, box.height) < 23.5)
    .map(([node]) => node.outerHTML)"""


def test_a_finger_sorts_a_board_and_reads_code_on_a_phone(browser: Any, site: str) -> None:
    context = browser.new_context(viewport=PHONE, is_mobile=True, has_touch=True)
    page = context.new_page()
    board(page, site)
    before = names(page)
    page.get_by_role("button", name="Entry").tap()
    assert names(page) == sorted(before, key=str.lower)
    assert page.evaluate(TOO_SMALL) == []
    page.goto(f"{site}problems/1_1.html")
    page.wait_for_selector("#shown pre.code")
    assert page.locator("#shown pre.code").bounding_box()["width"] > 300
    assert page.evaluate(TOO_SMALL) == []
    context.close()


LINK_BELOW_HEAD = """(selector) => {
    const links = [...document.querySelectorAll(`${selector} tbody tr:nth-child(n + 4) a`)];
    const box = links[0].closest('.scroll');
    const scrolled = box.scrollHeight > box.clientHeight + 1 ? box : document.scrollingElement;
    const top = box === scrolled ? box.getBoundingClientRect().top : 0;
    links[1].focus({ preventScroll: true });
    scrolled.scrollTop += links[0].getBoundingClientRect().top - top - 2;
}"""
IS_SEEN = """() => { const box = document.activeElement.getBoundingClientRect();
    return document.activeElement.contains(document.elementFromPoint(box.left + box.width / 2, box.top + 4)); }"""


@pytest.mark.parametrize(
    ("name", "selector"), [("problems/index.html", "#table"), ("matrix/H200.html", "#matrix")]
)
def test_what_gets_the_focus_is_not_below_the_head_of_its_table(
    page: Any, site: str, name: str, selector: str
) -> None:
    page.set_viewport_size({"width": 1440, "height": 360})
    sitehouse.visit(page, site + name)
    page.evaluate(LINK_BELOW_HEAD, selector)
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(IS_SEEN)


def test_who_presses_a_button_that_goes_stays_where_it_was(page: Any, site: str) -> None:
    board(page, site)
    page.locator(".pick input").first.check()
    page.get_by_role("button", name="Clear").press("Enter")
    assert page.evaluate("document.activeElement.id") == "picked"
    page.goto(f"{site}problems/1_1.html?board=H200&a=hostile&b=hostile")
    page.locator(".skip-row button").press("Enter")
    assert page.evaluate("document.activeElement.matches('.diff tbody tr.same:first-child')")


def test_forced_colours_keep_apart_what_colour_alone_tells(browser: Any, site: str) -> None:
    context = browser.new_context(forced_colors="active")
    page = context.new_page()
    background = "(nodes) => nodes.map((node) => getComputedStyle(node).backgroundColor)"
    board(page, site)
    chosen, other = (
        set(page.eval_on_selector_all(f"#levels input{which} + span", background))
        for which in (":checked", ":not(:checked)")
    )
    assert not chosen & other
    page.goto(f"{site}problems/index.html")
    tones = page.eval_on_selector_all(".keyline .cell:not(.open)", background)
    assert len(set(tones)) == len(tones) > 3
    context.close()


def test_the_page_for_a_file_fits_the_narrowest_phone(page: Any, site: str) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    sitehouse.visit(page, f"{site}submit.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_page_fetches_one_small_file_to_show_one_kernel(page: Any, site: str) -> None:
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(f"{site}problems/1_1.html")
    page.wait_for_selector("#shown pre.code")
    assert 1 == sum("/kernels/" in url for url in fetched)


def test_a_kernel_can_be_had_as_it_is(page: Any, site: str) -> None:
    page.goto(f"{site}problems/1_1.html")
    page.wait_for_selector("#shown pre.code")
    address = page.get_by_role("link", name="raw file").evaluate("link => link.href")
    shown = page.locator("#shown .row").evaluate_all("rows => rows.map((row) => row.textContent)")
    assert page.request.get(address).text().rstrip("\n") == "".join(shown).rstrip("\n")


def test_what_a_figure_means_opens_where_it_stands(page: Any, site: str) -> None:
    page.goto(f"{site}entries/H200/hostile.html")
    page.wait_for_selector("#table .status")
    before = page.url
    page.locator(".figures .what").first.click()
    page.wait_for_selector(".meaning:popover-open")
    assert "geometric mean over all ranked problems" in page.inner_text(".meaning")
    page.keyboard.press("Escape")
    page.wait_for_selector(".meaning", state="detached")
    assert page.url == before
    assert page.evaluate("document.activeElement.className") == "what"


def test_a_chart_can_be_taken_along_as_one_file(page: Any, site: str) -> None:
    page.goto(f"{site}compare.html")
    page.wait_for_selector(".scatter circle")
    with page.expect_download() as started:
        page.get_by_role("button", name="Save as SVG").first.click()
    text = Path(started.value.path()).read_text()
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "class=" not in text
    assert re.search(r"Compare entries · .+ · \d{4}-\d\d-\d\d · 127\.0\.0\.1", text)


def test_the_dots_of_a_chart_are_one_stop_of_the_tab_key_and_arrows_go_among_them(
    page: Any, site: str
) -> None:
    page.goto(f"{site}compare.html")
    page.wait_for_selector(".scatter circle")
    where = "document.activeElement.querySelector('circle')?.getAttribute('cx')"
    across = sorted(
        page.eval_on_selector_all(
            ".scatter circle", "all => all.map((dot) => Number(dot.getAttribute('cx')))"
        )
    )
    assert len(across) > 2
    page.locator(".scatter a[tabindex='0']").focus()
    seen = [page.evaluate(where)]
    for key in ("ArrowLeft", "ArrowRight", "End", "ArrowRight", "Home"):
        page.keyboard.press(key)
        seen.append(page.evaluate(where))
    assert [across[at] for at in (0, 0, 1, -1, -1, 0)] == list(map(float, seen))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    assert "Save as SVG" == page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Shift+Tab")
    assert across[1] == float(page.evaluate(where))


def test_nothing_is_loaded_from_elsewhere(page: Any, site: str) -> None:
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    for name in sitehouse.PAGE_KINDS:
        sitehouse.visit(page, site + name)
    assert [] == [url for url in fetched if not url.startswith(site)]


def test_the_picture_command_takes_a_page_of_the_size_asked(tmp_path: Path) -> None:
    from PIL import Image
    from typer.testing import CliRunner

    from leaderboard.cli import app

    out = tmp_path / "docs" / "board.png"
    options = ["--site", str(sitehouse.site()), "--out", str(out), "--width", "800", "--height", "600"]
    result = subprocess.run(
        [sys.executable, "-m", "leaderboard", "site", "picture", *options], capture_output=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert Image.open(out).size == (800, 600)
    command = [sys.executable, "-m", "leaderboard", "site", "picture", *options, "--page", "matrix.html"]
    taken = out.read_bytes()
    mistyped = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (mistyped.returncode, out.read_bytes()) == (2, taken)
    assert "no page matrix.html" in mistyped.stderr
    missing = CliRunner().invoke(app, ["site", "picture", "--site", str(tmp_path), "--out", str(out)])
    assert missing.exit_code == 2
    assert "kbl site build" in missing.output


UNDER_A_LINE = """() => [...document.querySelectorAll('svg.chart')].flatMap((chart) => {
    const texts = [...chart.querySelectorAll('text')].filter((text) => text.getClientRects().length);
    const boxes = texts.map((text) => text.getBoundingClientRect()).sort((a, b) => a.top - b.top || a.left - b.left);
    return boxes.slice(1).map((box, at) => [boxes[at], box]).filter(([a, b]) => Math.abs(a.top - b.top) < 1).map(([a, b]) => b.left - a.right);
})"""


@pytest.mark.parametrize("name", ["records/H200.html", "entries/H200/hostile.html", "index.html"])
def test_on_a_phone_the_marks_under_a_line_have_room_beside_each_other(
    page: Any, site: str, name: str
) -> None:
    page.set_viewport_size(PHONE)
    sitehouse.visit(page, site + name)
    gaps = page.evaluate(UNDER_A_LINE)
    assert len(gaps) > 1
    assert min(gaps) > 0


COLLIDING = """() => [...document.querySelectorAll('svg.chart')].flatMap((chart) => {
    const texts = [...chart.querySelectorAll('text')].filter((text) => text.getClientRects().length);
    const found = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
    return found.flatMap(([one, a], at) => found.slice(at + 1).filter(([, b]) =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
        .map(([other]) => [one, other]));
})"""


@pytest.mark.parametrize("name", ["index.html", "problems/index.html", "problems/1_1.html"])
def test_on_a_phone_no_two_labels_of_a_chart_lie_over_each_other(page: Any, site: str, name: str) -> None:
    page.set_viewport_size(PHONE)
    sitehouse.visit(page, site + name)
    assert page.locator("svg.chart text").count() > 1
    assert page.evaluate(COLLIDING) == []


def test_the_matrix_breaks_no_word_of_usual_length(page: Any, site: str) -> None:
    page.goto(f"{site}matrix/H200.html")
    page.locator("#matrix thead th a").last.evaluate("(link) => { link.textContent = 'torch.compile'; }")
    lines = page.evaluate("""() => [...document.querySelectorAll('#matrix thead th a')].flatMap(({ firstChild: text }) =>
        [...text.data.matchAll(/\\S+/g)].filter(([word]) => word.length < 14).map((found) => {
            const range = document.createRange();
            range.setStart(text, found.index);
            range.setEnd(text, found.index + found[0].length);
            return [found[0], new Set([...range.getClientRects()].map((box) => box.top)).size];
        }))""")
    assert len(lines) > 10
    assert [word for word, number in lines if number > 1] == []


@pytest.mark.parametrize("name", ["problems/index.html", "entries/H200/hostile.html", "matrix/H200.html"])
def test_paper_gets_whole_tables_in_dark_ink(page: Any, site: str, name: str) -> None:
    page.emulate_media(color_scheme="dark")
    sitehouse.visit(page, site + name)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.set_viewport_size({"width": 760, "height": 300})
    page.emulate_media(media="print", color_scheme="dark")
    found = page.evaluate("""() => [...document.querySelectorAll('.scroll')].map((box) => ({
        left: box.scrollHeight - box.clientHeight, overflow: getComputedStyle(box).overflowY }))""")
    assert found
    assert all(box["overflow"] == "visible" and box["left"] <= 1 for box in found)
    ink = page.evaluate("getComputedStyle(document.querySelector('h1')).color")
    assert max(map(int, re.findall(r"\d+", ink))) < 64


def test_between_a_phone_and_a_desktop_a_comparison_stands_below_its_drawing(page: Any, site: str) -> None:
    page.set_viewport_size({"width": 768, "height": 900})
    page.goto(f"{site}compare.html?board=H200&a=hostile&b=torch-eager")
    page.wait_for_selector("#pairs tbody tr")
    drawing, score = (page.locator(f".versus > {part}").bounding_box() for part in ("figure", "div"))
    assert score["y"] >= drawing["y"] + drawing["height"]
    assert score["width"] > 400
