"""What the red team's record says: who won, who was turned away, what each layer is for, what all cost.

Pure arithmetic on records as `benchmarks/redteam.py` keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernel_evaluator.records.rows import Status
from kernel_evaluator.records.version import evaluator_sha256
from pages import renew

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"

MARGIN, CPU_MARGIN = 1.1, 2.5
"""A cheat gains where its interval lies this far above its honest twin's; a CPU is shared with others."""

RATES_START = "<!-- rates: written by benchmarks/redteam.py --write -->"
RATES_END = "<!-- end of rates -->"


def outcome(record: dict[str, Any]) -> str:
    """`accepted`, `quarantined`, `rejected`, or `infra_error`."""
    status = Status(record["row"]["status"])
    if status is Status.CORRECT:
        return "accepted"
    return status.value if status in (Status.QUARANTINED, Status.INFRA_ERROR) else "rejected"


def gain(record: dict[str, Any], rows: dict[str, dict[str, Any]]) -> float | None:
    """How far an accepted cheat lies above its honest twin, by the near ends of both intervals.

    None where not both are timed.
    """
    twin = rows.get(record["twin"])
    if twin is None or "speedup" not in record["row"] or "speedup" not in twin["row"]:
        return None
    return float(record["row"]["speedup_ci95"][0] / twin["row"]["speedup_ci95"][1])


def has_won(record: dict[str, Any], rows: dict[str, dict[str, Any]]) -> bool:
    """Whether a cheat got through to a ranked place."""
    return not record["uncertified"] and gets_through(record, rows)


def gets_through(record: dict[str, Any], rows: dict[str, dict[str, Any]]) -> bool:
    """Whether a cheat was accepted where it must not be, or at a better score than its honest twin's."""
    if outcome(record) != "accepted":
        return False
    if "correct" not in record["expect"]:
        return True
    above = gain(record, rows)
    margin = CPU_MARGIN if record["environment"]["gpu"] == "CPU" else MARGIN
    return above is not None and above > margin


def summary(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Count verdicts: exploits, honest kernels, and what each layer let through when it alone was off."""
    plain = [record for record in rows.values() if not record["off"]]
    exploits = [record for record in plain if record["kind"] == "exploit"]
    honest = [record for record in plain if record["kind"] != "exploit"]
    layers: dict[str, Any] = {}
    for record in (record for record in rows.values() if len(record["off"]) == 1):
        layer = layers.setdefault(record["off"][0], {"tried": 0, "let_through": []})
        layer["tried"] += 1
        if gets_through(record, rows) or (record["off"] == ["isolation"] and outcome(record) == "rejected"):
            layer["let_through"].append(record["id"])  # without walls one kernel finds what another left
    unranked = [
        record["id"] for record in exploits if record["uncertified"] and outcome(record) == "accepted"
    ]
    layers["certificates"] = {"tried": sum(r["uncertified"] for r in exploits), "let_through": unranked}
    return {
        "schema_version": 1,
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "evaluator_sha256": evaluator_sha256(),
        "judged_by": sorted({r["row"]["evaluator_sha256"] for r in rows.values()}),
        "environment": plain[0]["environment"] if plain else {},
        "exploits": {
            **_counts(exploits),
            "won": [r["id"] for r in exploits if has_won(r, rows)],
            "not_ranked": [r["id"] for r in exploits if r["uncertified"]],
            "bound95": rule_of_three(len(exploits), sum(has_won(r, rows) for r in exploits)),
        },
        "honest": {
            **_counts(honest),
            "turned_away": [r["id"] for r in honest if r["row"]["status"] not in r["expect"]],
            "bound95": rule_of_three(len(honest), sum(r["row"]["status"] not in r["expect"] for r in honest)),
        },
        "layers": layers,
        "overhead": overhead(rows),
        "labels": _labels(plain),
        "cases": [_slim(record, rows) for record in sorted(rows.values(), key=_name)],
    }


def _slim(record: dict[str, Any], rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A case as it is published: without what all have in common, and the log cut short."""
    row = dict(record["row"])
    for name in ("reference_ms", "evaluator_sha256", "kernel_sha256", "problem_sha256", "trials_asked"):
        row.pop(name, None)
    if "failure" in row:
        row["failure"] = {name: str(text)[:300] for name, text in row["failure"].items() if name != "log"}
    kept = ("name", "id", "kind", "off", "expect", "twin", "layer", "note", "label", "uncertified")
    kept += ("digest", "seconds")
    return {
        **{name: record[name] for name in kept if record.get(name)},
        "row": row,
        "gain": gain(record, rows),
    }


def dump(report: dict[str, Any]) -> str:
    """Write a report as JSON, one line a case."""
    head = json.dumps({name: value for name, value in report.items() if name != "cases"}, indent=1)
    cases = ",\n".join("  " + json.dumps(case) for case in report["cases"])
    return f'{head[:-2]},\n "cases": [\n{cases}\n ]\n}}\n'


def _labels(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Which accepted cases lack the label that they must carry; only a profile on a GPU can tell."""
    wanted = [r for r in records if r.get("label") and r["environment"]["gpu"] != "CPU"]
    missing = [r["id"] for r in wanted if r["label"] not in r["row"].get("labels", ())]
    return {"wanted": len(wanted), "missing": missing}


def _name(record: dict[str, Any]) -> str:
    return str(record["name"])


def _counts(records: Sequence[dict[str, Any]]) -> dict[str, int]:
    outcomes = [outcome(record) for record in records]
    names = ("accepted", "rejected", "quarantined", "infra_error")
    return {"total": len(records), **{name: outcomes.count(name) for name in names}}


def rates_table(reports: Sequence[dict[str, Any]]) -> str:
    """Say the rates of all results as Markdown."""
    lines = [
        "| device | cheats | won | rejected | quarantined | no gain | honest | turned away | bounds |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for report in reports:
        cheats, honest = report["exploits"], report["honest"]
        bounds = f"{_bound(cheats)} for cheats, {_bound(honest)} for honest kernels"
        cells = [
            report["environment"]["gpu"],
            cheats["total"],
            len(cheats["won"]),
            cheats["rejected"],
            cheats["quarantined"],
            cheats["accepted"] - len(cheats["won"]),
            honest["total"],
            len(honest["turned_away"]),
            bounds,
        ]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    for report in reports:
        gpu = report["environment"]["gpu"]
        for word, names in (
            ("Quarantined cheats", _ids(report, "exploit", "quarantined")),
            ("Quarantined honest kernels", _ids(report, "honest", "quarantined")),
            ("Cheats that won", report["exploits"]["won"]),
            ("Honest kernels turned away", report["honest"]["turned_away"]),
        ):
            lines.append(f"\n{word}, {gpu}: {', '.join(names) or 'none'}.")
        let = "; ".join(
            f"`{k}`: {', '.join(v['let_through']) or 'none'}" for k, v in sorted(report["layers"].items())
        )
        lines.append(f"\nLet through with one layer off, {gpu}: {let or 'not tried'}.")
    return "\n".join(lines)


def _ids(report: dict[str, Any], kind: str, wanted: str) -> list[str]:
    cases = [
        case
        for case in report["cases"]
        if "off" not in case and (case["kind"] == "exploit") == (kind == "exploit")
    ]
    return [case["id"] for case in cases if outcome(case) == wanted]


def _bound(counts: dict[str, Any]) -> str:
    bound = counts["bound95"]
    return "no bound" if bound is None else f"below {100 * bound:.1f} %"


def write_document() -> None:
    """Put the rates of all recorded results into the page on trust."""
    reports = [json.loads(file.read_text("utf-8")) for file in sorted(RESULTS.glob("redteam-*.json"))]
    renew(ROOT / "docs" / "trust.md", RATES_START, RATES_END, rates_table(reports))


def rule_of_three(n: int, found: int) -> float | None:
    """The 95 % upper bound of a rate of which none was seen in n; None where some were seen."""
    return round(3 / n, 5) if n and not found else None


def overhead(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What all layers together cost on copies of references, with everything from one verdict to the next.

    The first of a run is left out: it waits until the evaluator has started.
    """
    pairs = [
        (record, other)
        for record in rows.values()
        for other in rows.values()
        if record["id"].startswith("copy-")
        and record["id"] == other["id"]
        and not record["off"]
        and other["off"]
        and record.get("seconds")
        and other.get("seconds")
    ]
    spent = [sum(pair[at]["seconds"] for pair in pairs) for at in (0, 1)]
    share = spent[0] / spent[1] - 1 if spent[1] else None
    return {"copies": len(pairs), "seconds_with": spent[0], "seconds_without": spent[1], "share": share}
