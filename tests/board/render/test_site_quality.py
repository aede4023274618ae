"""The site's pages against the accessibility engine axe and an HTML validator, as built and as scripts change them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import sitehouse

TOOLS = Path(__file__).resolve().parents[2] / "tools"
RULES = {
    "extends": ["html-validate:recommended"],
    "rules": {
        "doctype-style": "off",
        "void-style": "off",
        "prefer-native-element": "off",  # a scrolling region is a div with a name and a focus
        "no-trailing-whitespace": "off",
        "attribute-boolean-style": "off",  # a browser writes its own document back with empty values
        "attribute-empty-style": "off",
        "long-title": "off",
        "no-inline-style": "error",
    },
}
STATES = (
    "boards/H200.html?pick=hostile&sort=correct.down",
    "problems/1_1.html?board=H200&a=hostile",
    "problems/2_1.html",
    "compare.html?board=H200&a=hostile&b=torch-eager",
    "matrix/H200.html?add=hostile",
)


@pytest.fixture(scope="module")
def tools() -> Path:
    """Install what package-lock.json names, once; the test machine's registry serves it."""
    if shutil.which("npm") is None:
        pytest.skip("no npm: apt-get install npm")
    if not (TOOLS / "node_modules" / "axe-core").is_dir():
        done = subprocess.run(
            ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
            cwd=TOOLS,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"npm ci failed in tests/tools: {done.stderr.strip().splitlines()[-1:]}")
    return TOOLS / "node_modules"


WIDTHS = (1440, 390)


@pytest.fixture(scope="module")
def visited(
    browser: Any, site: str, tools: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[int, dict[str, list[str]]], list[Path]]:
    """Visit every kind of page once a width: what axe finds, by width, and the pages after their scripts ran."""
    engine = (tools / "axe-core" / "axe.min.js").read_text()
    folder = tmp_path_factory.mktemp("visited")
    found: dict[int, dict[str, list[str]]] = {width: {} for width in WIDTHS}
    for width in WIDTHS:
        page = browser.new_page(viewport={"width": width, "height": 900})
        for at, name in enumerate((*sitehouse.PAGE_KINDS, *a_comparison(), *STATES)):
            page.emulate_media(color_scheme="light")
            sitehouse.visit(page, site + name)
            path = folder / f"{at}-{name.split('?')[0].replace('/', '-')}"
            path.write_text(page.content())
            page.evaluate(engine)
            for scheme, rules in (
                ("light", "{}"),
                ("dark", "{ runOnly: ['color-contrast', 'link-in-text-block'] }"),
            ):
                page.emulate_media(color_scheme=scheme)
                for violation in page.evaluate(f"axe.run({rules}).then((result) => result.violations)"):
                    nodes = [node["html"][:160] for node in violation["nodes"][:3]]
                    found[width][f"{name}, {scheme}: {violation['id']}"] = nodes
        page.close()
    return found, sorted(folder.iterdir())


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_on_any_page_kind_light_or_dark(visited: Any, width: int) -> None:
    assert {} == visited[0][width]


def a_comparison() -> list[str]:
    out = sitehouse.site()
    return [path.relative_to(out).as_posix() for path in sorted(out.glob("compare/H200/*.html"))[:1]]


@pytest.mark.browser
def test_axe_finds_nothing_in_what_opens_in_place(browser: Any, site: str, tools: Path) -> None:
    page = browser.new_page(viewport={"width": WIDTHS[0], "height": 900})
    sitehouse.visit(page, f"{site}entries/H200/hostile.html")
    page.locator(".figures .what").first.click()
    page.wait_for_selector(".meaning:popover-open")
    page.evaluate((tools / "axe-core" / "axe.min.js").read_text())
    assert [] == page.evaluate("axe.run().then((result) => result.violations.map((item) => item.id))")
    page.close()


def validate(tools: Path, folder: Path, files: list[Path]) -> list[str]:
    """Validate HTML files; gives `file:line rule message` for each finding."""
    rules = folder / "rules.json"
    rules.write_text(json.dumps(RULES))
    command = [str(tools / ".bin" / "html-validate"), "--config", str(rules), "--formatter", "json"]
    report = folder / "report.json"
    with report.open("w") as stream:  # a pipe would be cut short: the tool leaves before it is drained
        subprocess.run([*command, *map(str, files)], stdout=stream, timeout=240, check=False)
    reports = json.loads(report.read_text())
    return [
        f"{Path(r['filePath']).name}:{m['line']} {m['ruleId']} {m['message']}"
        for r in reports
        for m in r["messages"]
    ]


def test_every_page_kind_is_valid_html(tools: Path, tmp_path: Path) -> None:
    files = [sitehouse.site() / name for name in (*sitehouse.PAGE_KINDS, *a_comparison())]
    assert [] == validate(tools, tmp_path, files)


@pytest.mark.browser
def test_pages_stay_valid_html_when_scripts_have_run(visited: Any, tools: Path, tmp_path: Path) -> None:
    assert len(visited[1]) >= len(sitehouse.PAGE_KINDS)
    assert [] == validate(tools, tmp_path, visited[1])


def test_the_validator_and_axe_are_able_to_complain(tools: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!doctype html><html lang=en><head><title>x</title></head><body><p><div></p></body></html>"
    )
    assert validate(tools, tmp_path, [bad])
