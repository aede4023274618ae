"""What the documents claim: constants, links, commands and verbs are those of the code."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from commandline import kbl
from kernel_evaluator.records.version import evaluator_sha256
from typer.main import get_command

from leaderboard.cli import app
from leaderboard.files.notices import Notice
from leaderboard.files.store import read_result

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import clocks  # noqa: E402
import constants  # noqa: E402
import pictures  # noqa: E402
import summary  # noqa: E402
from pages import renew  # noqa: E402

VERBS = get_command(app)
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def written(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    if all(isinstance(item, int | float) for item in value.values()):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return ", ".join(value)


def true_row(match: re.Match[str]) -> str:
    """The row of a constant, named by its module within the evaluator and, from the first capital on, there."""
    module, attribute = match[1], match[2]
    value = attrgetter(attribute)(import_module(f"kernel_evaluator.{module}"))
    return f"| `{module}.{attribute}` | {written(value)} |"


def sentences(text: str) -> list[str]:
    """The sentences of some Markdown: neither tables, nor blocks of code, nor pictures; an item of a list ends one."""
    text = re.sub(r"```.*?```|!\[[^\]]*\]\([^)]*\)", "", text, flags=re.DOTALL)
    text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    blocks = re.split(r"\n\s*\n|^\s*(?:-|\d+\.) ", text, flags=re.MULTILINE)
    plain = [" ".join(block.replace("*", "").split()) for block in blocks]
    return [each for block in plain for each in re.split(r"(?<=[.?!]) (?=[A-Z`(])", block) if each]


def glossary() -> dict[str, str]:
    """What each word means, in the order of the glossary."""
    items = re.split(r"^- ", (ROOT / "docs/glossary.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    pairs = (re.match(r"\*\*(.+?)\*\*: ([^#]+)", item) for item in items)
    return {pair[1]: pair[2].strip() for pair in pairs if pair}


def uses(text: str, term: str) -> bool:
    """Whether a text has a term, be it in the plural."""
    return bool(re.search(rf"\b(?:{term}(?:s|es)?|{term[:-1]}ies)\b", text, re.IGNORECASE))


def test_the_standings_in_the_readme_are_those_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    path = ROOT / "README.md"
    before, _, rest = path.read_text("utf-8").partition("<!-- standings -->\n")
    shown, _, after = rest.partition("<!-- /standings -->")
    table = kbl("standings", "--gpu", "H200", "--format", "markdown").stdout
    true = "\n" + "\n".join(line for line in table.splitlines() if line.startswith("|")) + "\n\n"
    if "BLESS" in os.environ:
        path.write_text(f"{before}<!-- standings -->\n{true}<!-- /standings -->{after}", "utf-8")
        shown = true
    assert true == shown, "to renew it: make bless"


def test_each_word_of_the_way_is_a_module_or_a_folder() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    way = re.search(r"submissions/<entry>\.json → (.+) → the site", readme)
    assert way
    *stages, last = way[1].split(" → ")
    modules = [ROOT / "leaderboard/stages" / f"{word}.py" for word in stages]
    assert [] == [
        path for path in (*modules, ROOT / "leaderboard" / last / "__init__.py") if not path.is_file()
    ]
    assert set(stages[:5]) <= set(VERBS.commands)  # type: ignore[attr-defined]


def test_the_readme_names_every_verb_that_help_lists() -> None:
    listed = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [] == [verb for verb in listed if f"`{verb}`" not in readme and f"make {verb}" not in readme]


def test_what_ran_where_is_what_the_files_say() -> None:
    path = ROOT / "README.md"
    shown = path.read_text("utf-8").partition(summary.BEGIN)[2].partition(summary.END)[0]
    if "BLESS" in os.environ:
        renew(path, summary.BEGIN, summary.END, summary.table())
        shown = f"\n{summary.table()}\n"
    assert shown == f"\n{summary.table()}\n", "to renew it: make bless"


@pytest.mark.parametrize("gpu", summary.GPUS)
def test_what_is_left_to_judge_of_what_has_rows_is_what_the_readme_calls_due(
    gpu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    said = re.search(r"The present evaluator is `(\w+)`", (ROOT / "README.md").read_text("utf-8"))
    assert said and evaluator_sha256().startswith(said[1])
    recorded = sorted((ROOT / "data/results").glob(f"{gpu}*/*.json"))
    paths = [f"submissions/{path.name}" for path in recorded]
    told = kbl("plan", "--gpu", gpu, "--work", tmp_path, *paths).stdout.splitlines()
    shown = [line for line in told if line.startswith("submissions/")]
    assert len(shown) == len(recorded) > 0
    due = {
        path.stem
        for path in recorded
        if any(row.evaluator_sha256 != evaluator_sha256() for row in read_result(path).rows)
    }
    left = {
        Path(line.partition(":")[0]).stem
        for line in shown
        if not re.search(rf": 0 to judge on {gpu}(-bf16)?, \d+ still good$", line)
    }
    assert left == due


def test_readme_says_that_no_entry_names_a_model_as_long_as_none_does() -> None:
    entries = [json.loads(path.read_text("utf-8")) for path in (ROOT / "submissions").glob("*.json")]
    origins = [entry["metadata"].get("generation", {}) for entry in entries]
    stated = any(origin.get("model") or origin.get("scaffold") for origin in origins)
    said = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert ("No entry says yet that a model wrote it." in said) != stated


def test_what_is_missing_on_a_board_was_sent_to_it() -> None:
    named = {"": "", "bf16": "-bf16"}
    header, _, *rows = summary.table().splitlines()
    boards = [cell.strip() for cell in header.split("|")[2:-2]]
    missing = {
        (entry, board)
        for entry, *cells in ([cell.strip() for cell in row.split("|")[1:-2]] for row in rows)
        for board, cell in zip(boards, cells, strict=True)
        if cell == "missing"
    }
    for entry, board in missing:
        name = f"{entry}{named[board.partition('-')[2]]}"
        assert (ROOT / "submissions" / f"{name}.json").is_file(), (entry, board)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "benchmarks/results").glob("summary-*.json")), ids=lambda path: path.stem
)
def test_a_summary_is_that_of_the_rows(path: Path) -> None:
    said = json.loads(path.read_text("utf-8"))
    assert said == json.loads(json.dumps(summary.summary_of(said["gpu"]))), (
        f"to renew it: python benchmarks/summary.py {said['gpu']}"
    )


def test_the_page_on_tools_names_every_file_of_times_that_were_measured_here() -> None:
    page = (ROOT / "docs/tools.md").read_text("utf-8")
    assert [] == [path.name for path in (ROOT / "baselines").glob("*.json") if f"/{path.name}`" not in page]


def test_the_page_on_tools_says_what_the_server_took() -> None:
    said = " ".join((ROOT / "docs/tools.md").read_text("utf-8").split())
    calm, loaded = (
        json.loads((ROOT / f"benchmarks/results/{name}.json").read_text("utf-8"))
        for name in ("server-alone", "server")
    )
    new_s, repeated_s = (calm["alone"][name] for name in ("new_s", "repeated_s"))
    assert f"a new kernel took {new_s['p50']:.2f} s" in said
    assert (
        f"a repeated one {repeated_s['p50'] * 1e3:.1f} ms (p50, and {repeated_s['p95'] * 1e3:.1f} ms" in said
    )
    assert (loaded["sent"], loaded["lost"], loaded["wrong"], loaded["clients"]) == (
        loaded["answered"],
        0,
        0,
        8,
    )
    assert f"{loaded['answered']} verdicts came and none was lost or wrong" in said
    assert f"a repeated kernel took {loaded['latency_s']['repeated']['p50'] * 1e3:.0f} ms (p50)" in said


def test_maintainers_are_told_how_large_sites_are() -> None:
    records = [ROOT / f"benchmarks/results/{name}.json" for name in ("site", "site-10000")]
    figures = [json.loads(path.read_text("utf-8"))["figures"] for path in records]
    thousand, ten_thousand = (f"{each['size_bytes'] / 1e6:,.0f} MB" for each in figures)
    said = " ".join((ROOT / "docs/maintainers.md").read_text("utf-8").split())
    assert f"a thousand entries is {thousand}, one of ten thousand {ten_thousand}" in said
    record = (ROOT / "docs/decisions/0083-a-build-knows-what-it-worked-out.md").read_text("utf-8")
    costs = [each["one_changed_build_cpu_seconds"] for each in figures]
    assert (
        f"a thousand entries are {thousand} and ten thousand {ten_thousand}, "
        f"and one changed entry costs {costs[0]:.1f} and {costs[1]:.0f} seconds"
    ) in " ".join(record.split())


def test_the_constants_of_the_method_are_those_of_the_code() -> None:
    path = ROOT / "docs/method.md"
    body, heading, table = path.read_text("utf-8").partition("## Constants")

    true_table = re.sub(r"^\| `([a-z_.]+)\.([A-Z][\w.]*)` \| .+ \|$", true_row, table, flags=re.MULTILINE)
    if "BLESS" in os.environ:
        path.write_text(body + heading + true_table, "utf-8")

    assert true_table == path.read_text("utf-8").partition("## Constants")[2], "to renew it: make bless"
    assert "| `timing.stopping.HALF_WIDTH` |" in table


def test_each_constant_has_a_case_that_needs_it() -> None:
    recorded = json.loads(constants.RESULT.read_text("utf-8"))
    said = recorded["constants"]
    measured = tomllib.loads(constants.MEASURED.read_text("utf-8"))

    def is_needed(name: str) -> bool:
        rows = (said[name]["rows"] or {}).values()
        return name in measured or any(said[name]["tests"].values()) or any(any(n.values()) for n in rows)

    assert set(said) == set(constants.constants()), "to renew it: python benchmarks/constants.py --write"
    assert [] == [name for name in said if not is_needed(name)]
    assert set(measured) <= set(said)
    page = constants.PAGE.read_text("utf-8")
    assert constants.page(said, recorded["evaluations"], recorded["day"]) in page


def test_every_constant_that_the_method_and_trust_speak_of_is_in_the_table() -> None:
    body, _, table = (ROOT / "docs/method.md").read_text("utf-8").partition("## Constants")
    trust = (ROOT / "docs/trust.md").read_text("utf-8")

    assert [] == [name for name in re.findall(r"`([A-Z][A-Z_]+)`", body + trust) if f"{name}`" not in table]


def test_sentences_of_the_method_are_short() -> None:
    body, _, _ = (ROOT / "docs/method.md").read_text("utf-8").partition("## Constants")
    sections = re.split(r"^##+ ", body, flags=re.MULTILINE)
    words = {text.partition("\n")[0]: [len(each.split()) for each in sentences(text)] for text in sections}

    assert {} == {heading: counts for heading, counts in words.items() if sum(counts) > 18 * len(counts)}


def test_the_glossary_is_short_and_speaks_of_words_that_are_used() -> None:
    terms = glossary()
    pages = [(ROOT / "docs" / name).read_text("utf-8") for name in ("method.md", "library.md")]

    assert 20 < len(terms) <= 32
    assert [] == [term for term in terms if not any(uses(page, term) for page in pages)]
    assert [] == [term for term, meaning in terms.items() if len(sentences(meaning)) > 2]


def test_no_word_of_the_glossary_is_used_above_its_own_line() -> None:
    terms = glossary()
    names = list(terms)

    assert [] == [
        (name, later)
        for at, name in enumerate(names)
        for later in names[at + 1 :]
        if uses(terms[name], later)
    ]


def test_the_index_lists_every_decision_record_and_which_are_superseded() -> None:
    folder = ROOT / "docs/decisions"
    lines = re.findall(
        r"^\| \[(\d+)\]\((\S+)\) \|.+\|(.*)\|$", (folder / "README.md").read_text(), re.MULTILINE
    )
    records = sorted(path.name for path in folder.glob("[0-9]*.md"))

    assert records == [name for _, name, _ in lines]
    assert [int(name[:4]) for name in records] == [int(number) for number, _, _ in lines]
    numbers = {int(number) for number, _, _ in lines}
    assert all(
        int(number) < int(by) and int(by) in numbers
        for number, _, last in lines
        for by in re.findall(r"\d+", last)
    )


def test_a_record_of_a_constant_that_is_gone_is_superseded_in_part() -> None:
    folder = ROOT / "docs/decisions"
    index = (folder / "README.md").read_text("utf-8")
    superseded = dict(re.findall(r"^\| \[\d+\]\((\S+)\) \|.+\| *(.*?) *\|$", index, re.MULTILINE))
    packages = (ROOT / "KernelBench/kernel_evaluator", ROOT / "leaderboard")
    code = "\n".join(path.read_text("utf-8") for each in packages for path in each.rglob("*.py"))
    there = set(re.findall(r"\b[A-Z]+_[A-Z_]+\b", code))
    gone = {
        path.name: names
        for path in folder.glob("[0-9]*.md")
        if (names := set(re.findall(r"`([A-Z]+_[A-Z_]+)`", path.read_text("utf-8"))) - there)
    }

    assert "0017-two-speeds-are-told-apart.md" in gone
    assert {} == {name: names for name, names in gone.items() if not superseded[name]}


def test_decision_40_says_what_both_clocks_gave(capsys: pytest.CaptureFixture[str]) -> None:
    record = (ROOT / "docs/decisions/0040-the-oracles-clock-alone-is-too-coarse.md").read_text("utf-8")
    rows = re.findall(r"^\| (?:copies|kernels),.+$", record, re.MULTILINE)
    clocks.main()
    printed = [re.findall(r"([\d.]+)%", line) for line in capsys.readouterr().out.splitlines()]

    copies, alone, _, kernels = printed
    assert [copies, alone, kernels] == [re.findall(r"([\d.]+) %", row) for row in rows]


def test_decision_82_says_which_twins_the_tolerance_of_bf16_lets_pass() -> None:
    record = (ROOT / "docs/decisions/0082-eight-times-the-error-of-bf16.md").read_text("utf-8")
    said = [
        (int(usual), int(both)) for usual, both in re.findall(r"^\|.+\| (\d+) \| (\d+) \|.+\|$", record, re.M)
    ]
    found = json.loads((ROOT / "benchmarks/results/half-precision-cpu.json").read_text("utf-8"))["problems"]
    seen = [each for each in found.values() if "error" not in each]
    twins = seen[0]["upstream"]
    passed = [
        {kind: each[twin][0] <= 1 for kind, each in problem.items()} for twin in twins for problem in seen
    ]
    counts = [passed[at : at + len(seen)] for at in range(0, len(passed), len(seen))]

    assert len(seen) == 218
    assert said == [(sum(p["upstream"] for p in each), sum(all(p.values()) for p in each)) for each in counts]


def test_the_log_that_maintainers_are_shown_can_be_read() -> None:
    example = re.search(r"```json\n(.+?)```", (ROOT / "docs/maintainers.md").read_text("utf-8"), re.DOTALL)
    assert example and [Notice(**notice) for notice in json.loads(example[1])]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_inside_the_repository_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", document.read_text("utf-8"))
    inside = [(document.parent / path if path else document, at) for path, at in links if "://" not in path]

    assert [] == [(path, at) for path, at in inside if not path.exists() or (at and at not in anchors(path))]


def anchors(document: Path) -> set[str]:
    """What a link may name after `#`, as GitHub makes it of headings."""
    text = re.sub(r"^```.*?^```", "", document.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_verbs_in_documents_exist(document: Path) -> None:
    text = document.read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    commands = VERBS.commands  # type: ignore[attr-defined]

    assert set() == set(re.findall(r"\bkbl ([a-z]+)", text)) - set(commands)
    verbs = re.findall(r"(?:`|^    )make ([a-z-]+)", text, re.MULTILINE)
    assert set() == {verb for verb in verbs if f"\n{verb}:" not in makefile}


def options_of(words: list[str]) -> set[str]:
    """The options of the command that a line of words begins with."""
    command = VERBS
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]  # type: ignore[attr-defined]
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_options_of_commands_in_documents_exist(document: Path) -> None:
    """In blocks and between backticks: `kbl COMMAND … --option`."""
    text = document.read_text("utf-8")
    lines = re.findall(r"(?:^    |`)(?:\S*=\S* )*(?:\.venv/bin/)?kbl ([a-z][^`\n#]*)", text, re.MULTILINE)
    wrong = [
        (line, option)
        for line in lines
        for option in re.findall(r"(?<=\s)--[a-z][\w-]*", line)
        if option != "--help" and option not in options_of(line.split())
    ]

    assert [] == wrong


def test_what_contributors_look_for_is_where_they_are_told() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("### Where to look for what")[2]
    rows = re.findall(r"^\| … .+\? \| `([\w/.]+)` \| `(\w+)` \|$", text, re.MULTILINE)
    evaluator, board = rows[:-10], rows[-10:]

    assert len(evaluator) == 23
    for package, listed in (("KernelBench/kernel_evaluator", evaluator), ("leaderboard", board)):
        for path, name in listed:
            source = (ROOT / package / path).read_text("utf-8")
            assert re.search(rf"^(?:def|class) {name}\b|^{name}\b[^\n]* = ", source, re.MULTILINE), (
                path,
                name,
            )


def test_the_pictures_that_are_shown_are_those_that_one_command_takes() -> None:
    folder = ROOT / "docs" / "pages"
    shown = set(re.findall(r"\(([a-z-]+)\.png\)", (folder / "README.md").read_text("utf-8")))
    taken = {f"{name}-{look}" for name in pictures.PAGES for look in pictures.LOOKS}
    assert shown == taken | {f"shared-{name}" for name in pictures.SHARED}
    assert shown == {path.stem for path in folder.glob("*.png")}
