"""The red team: the corpus is complete, its record is clean, and the evaluator still rules as recorded.

What is judged here is a telling part; `make redteam` judges everything.
"""

import ast
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from evaluating import CALMER_TRIES, is_late, is_without_verdict
from kernel_evaluator.engines import epoch
from kernel_evaluator.labels.static_check import validate_kernel_static
from kernel_evaluator.records.rows import BUSY_HOST, Row

from leaderboard.render.cheats import read_cheats

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "tests" / "redteam"
sys.path.insert(0, str(ROOT / "benchmarks"))

import redteam  # noqa: E402
import redteam_report  # noqa: E402

MANIFEST = json.loads((CORPUS / "manifest.json").read_text("utf-8"))["cases"]
RECORDS = sorted((ROOT / "benchmarks" / "results").glob("redteam-*.json"))


def numbers(prefix):
    return {
        int("".join(c for c in case["id"][1:] if c.isdigit())) for case in MANIFEST if case["id"][0] == prefix
    }


def test_every_known_exploit_and_every_honest_oddity_is_a_file():
    assert set(range(1, 87)) <= numbers("e")
    assert set(range(1, 67)) <= numbers("h")
    assert len(numbers("x")) >= 30, "attacks on this evaluator in particular"


def test_the_manifest_and_the_folder_hold_the_same_files():
    named = [case["file"] for case in MANIFEST if "/" not in case["file"]]
    assert sorted(named) == sorted(path.name for path in CORPUS.glob("*.py"))
    assert len({case["id"] for case in MANIFEST}) == len(MANIFEST)


def test_every_language_of_the_image_has_an_honest_case():
    sources = [(CORPUS / case["file"]).read_text("utf-8") for case in MANIFEST if case["kind"] == "honest"]
    for backend in set(epoch.BACKENDS) - {"pytorch", "c++"}:
        assert any(validate_kernel_static(source, backend)[0] for source in sources), backend


@pytest.mark.parametrize("case", MANIFEST, ids=lambda case: case["id"])
def test_a_case_can_be_read_and_says_what_it_is(case):
    source = (CORPUS / case["file"]).read_text("utf-8")
    tree = ast.parse(source)
    assert any(isinstance(node, ast.ClassDef) and node.name == "ModelNew" for node in tree.body)
    assert case["what"] and case["expect"] and case["layer"] and case["needs"] in ("cpu", "gpu")
    if "twin" in case:
        assert (CORPUS / case["twin"]).is_file()


def test_every_exploit_that_may_be_accepted_has_a_twin_or_is_not_ranked():
    loose = [
        c["id"] for c in MANIFEST if c["kind"] == "exploit" and "correct" in c["expect"] and "twin" not in c
    ]
    assert loose == []


def is_explained(name: str) -> bool:
    """Whether docs/trust.md names it below the rates, where it says what a record does not show by itself."""
    told = (ROOT / "docs" / "trust.md").read_text("utf-8").partition(redteam_report.RATES_END)[2]
    return f"`{name}`" in told


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_no_cheat_won_and_no_honest_kernel_was_rejected(path):
    record = json.loads(path.read_text("utf-8"))
    assert record["exploits"]["won"] == []
    assert record["honest"]["infra_error"] == 0
    unsaid = [case for case in record["cases"] if case["row"]["status"] == "infra_error"]
    assert {case["row"]["failure"]["name"] for case in unsaid} <= {BUSY_HOST}
    assert [case["name"] for case in unsaid if not is_explained(case["name"])] == []
    for name in record["honest"]["turned_away"]:
        (case,) = (case for case in record["cases"] if case["name"] == name)
        assert case["row"]["status"] == "quarantined"
        assert is_explained(name)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_recorded_verdict_is_one_that_the_manifest_expects(path):
    expected = {case["id"]: case["expect"] for case in MANIFEST}
    plain = [case for case in json.loads(path.read_text("utf-8"))["cases"] if not case.get("off")]
    found = {case["id"]: case["row"]["status"] for case in plain if not is_explained(case["name"])}
    odd = {name: status for name, status in found.items() if status not in expected.get(name, [status])}
    assert odd == {}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_every_layer_that_is_there_stops_something(path):
    layers = json.loads(path.read_text("utf-8"))["layers"]
    idle = [name for name, found in layers.items() if found["tried"] and not found["let_through"]]
    others = [json.loads(other.read_text("utf-8"))["layers"] for other in RECORDS if other != path]
    for name in idle:
        assert any(each[name]["let_through"] for each in others if name in each), "it shows on another device"
        assert is_explained(name)


def test_the_page_on_trust_shows_the_recorded_rates():
    text = (ROOT / "docs" / "trust.md").read_text("utf-8")
    shown = text[
        text.index(redteam_report.RATES_START) + len(redteam_report.RATES_START) : text.index(
            redteam_report.RATES_END
        )
    ]
    records = [json.loads(path.read_text("utf-8")) for path in RECORDS]
    assert not records or shown.strip() == redteam_report.rates_table(records).strip()


def test_the_page_on_trust_says_what_lies_above_its_twin_and_how_many_copies_there_are():
    above = {
        rates.device: {
            cheat.id: round(cheat.gain, 2)
            for cheat in rates.cases
            if cheat.status == "correct" and (cheat.gain or 0) > redteam_report.MARGIN
        }
        for rates in read_cheats(ROOT / "benchmarks" / "results", CORPUS)
    }
    assert above == {"CPU": {}, "H100": {}, "H200": {}}
    copies = {}
    for path in RECORDS:
        cases = json.loads(path.read_text("utf-8"))["cases"]
        copies[path.stem] = sum(case["id"].startswith("copy-") and not case.get("off") for case in cases)
    assert (copies["redteam-H100"], copies["redteam-H200"]) == (82, 82)


def row_of(record):
    return Row.from_json(record["row"])


def is_unforeseen(record):
    """Whether the verdict is another than what a case expects, or than correct where a layer is off."""
    return record["row"]["status"] not in (["correct"] if record["off"] else record["expect"])


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Verdicts on a part of the corpus, as the evaluator of this checkout gives them."""
    wanted = "twin_relu e07 e43 e55 e63b e72 x11 x14 x26 h17 h44b h46 h50"
    without = "e43-without-panel e44-without-affine x44-without-format"
    cases = redteam.read_cases("cpu")
    chosen = [c for c in cases if c.id in wanted.split()]
    chosen += [c for c in redteam.layer_cases(cases) if c.name in without.split()]
    done = redteam.Done(tmp_path_factory.mktemp("redteam") / "done.jsonl")
    redteam.run(chosen, "cpu", done, float("inf"))
    # Tests run beside, which makes clocks late; as with builds beside, what hangs on time is judged again.
    records = dict(done.rows)
    late = [
        case for case in chosen if is_unforeseen(records[case.name]) and is_late(row_of(records[case.name]))
    ]
    for _ in range(CALMER_TRIES):
        again = redteam.Done(tmp_path_factory.mktemp("redteam") / "again.jsonl")
        redteam.run(late, "cpu", again, float("inf"))
        records |= again.rows
        late = [case for case in late if is_without_verdict(row_of(again.rows[case.name]))]
        if not late:
            break
    return records


@pytest.mark.timeout(900)
def test_cheats_do_not_win_and_honest_kernels_are_accepted(judged):
    plain = {name: record for name, record in judged.items() if not record["off"]}
    assert [name for name, record in plain.items() if redteam_report.has_won(record, judged)] == []
    odd = {name: record["row"]["status"] for name, record in plain.items() if record["kind"] != "exploit"}
    assert set(odd.values()) == {"correct"}, odd
    assert {name: record["row"]["status"] for name, record in plain.items() if is_unforeseen(record)} == {}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["e43-without-panel", "e44-without-affine", "x44-without-format"])
def test_a_layer_that_is_off_lets_its_case_through(judged, name):
    assert judged[name]["row"]["status"] == "correct"


@pytest.mark.timeout(900)
def test_a_rejection_carries_a_counter_example_or_a_violation(judged):
    rejected = [r["row"] for r in judged.values() if r["row"]["status"] in ("rejected", "quarantined")]
    assert rejected
    for row in rejected:
        evidence = row["evidence"]
        assert "violation" in evidence or {"seed", "distribution", "index", "expected", "found"} <= set(
            evidence["counter_example"]
        )


def summary(records):
    """The report of these records as it is read from a file."""
    return json.loads(redteam_report.dump(redteam_report.summary(records)))


@pytest.mark.timeout(900)
def test_what_a_report_says_of_the_same_cases_need_not_be_judged_again(judged, tmp_path):
    cases = [case for case in redteam.read_cases("cpu") if case.name in judged]
    plain = {name: record for name, record in judged.items() if not record["off"]}
    report = summary(plain)
    done = redteam.Done(tmp_path / "done.jsonl")
    changed = replace(cases[0], source=f"{cases[0].source}\n# changed")
    done.take(report, [changed, *cases[1:]])
    assert not done.has(changed)
    assert all(done.has(case) for case in cases[1:])
    done.take(report, cases)
    again = summary(redteam.current(done.rows))
    assert again["cases"] == report["cases"]
    assert again["judged_by"] == report["judged_by"]


def test_the_page_on_trust_says_by_what_rule_a_cheat_wins():
    said = (ROOT / "site" / "templates" / "trust.html").read_text("utf-8")
    on_gpu, on_cpu = round(100 * (redteam_report.MARGIN - 1)), redteam_report.CPU_MARGIN
    assert f"on a GPU by {on_gpu} %, on a CPU, which others share, by a factor of {on_cpu}" in said
    assert "<em>No gain</em> is what is accepted otherwise" in said
    assert "<em>Rejected</em> is every other verdict but quarantine" in said
    fates = {case.fate for rates in read_cheats(RECORDS[0].parent, CORPUS) for case in rates.cases}
    assert "accepted, no gain" in fates
    assert not any("nothing" in fate for fate in fates)
