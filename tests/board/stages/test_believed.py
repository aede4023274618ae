"""What a row must show before it is believed: forged rows, those made of honest ones, and honest rows."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from fake_engine import GPU, measured, timed_row
from kernel_evaluator.problems.jobs import Job
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import ResultFile, Row
from kernel_evaluator.records.version import evaluator_sha256
from kernel_evaluator.timing import suspicions

from leaderboard.files import store
from leaderboard.files.baseline_files import usual_reference_ms
from leaderboard.files.submission import load
from leaderboard.stages.believed import REFERENCE_WITHIN, doubts, worked_out
from leaderboard.stages.confirm import confirmed, needs_second
from leaderboard.stages.invariants import invariants
from leaderboard.stages.record import Case, RefusedError, case_of, figures_follow, read_work_file, record

ROOT = Path(__file__).resolve().parents[3]
SOURCE = "class ModelNew:\n    pass\n"
KEY = KernelKey(1, 1)


@pytest.fixture
def house(tmp_path):
    body = {"metadata": {"display_name": "mine"}, "kernels": {str(KEY): SOURCE}}
    (tmp_path / "mine.json").write_text(json.dumps(body))
    return tmp_path


def work_of(house, row):
    submission = load(house / "mine.json")
    name = store.environment_name(GPU)
    result = ResultFile(
        entry="mine",
        submission_sha256=submission.sha256,
        gpu="H200",
        sizes="full",
        profile="ranked",
        evaluator_version="1",
        started_at="2026-02-01T00:00:00Z",
        finished_at="2026-02-01T00:00:01Z",
        environments={name: GPU},
        rows=(replace(row, environment=name),),
        gpu_seconds=row.gpu_seconds,
    )
    path = house / "work.json"
    store.write_atomically(path, store.dump_result(result))
    return path


def honest_row():
    job = Job(key=KEY, source=SOURCE, problem=ProblemSet().load(1, 1))
    digests = {
        "key": KEY,
        "kernel_sha256": job.kernel_sha256,
        "problem_sha256": job.problem.sha256,
        "evaluator_sha256": evaluator_sha256(),
        "finished_at": "2026-02-01T00:00:00Z",
        "gpu_seconds": 1.0,
    }
    return confirmed(timed_row(digests, 2.0), timed_row(digests, 2.0, alone_ms=1.001))


def recorded(house, work, usual_ms=None):
    """What recording a work file says; empty where it is recorded."""
    try:
        submission = load(house / "mine.json")
        problems = {(1, 1): ProblemSet().load(1, 1)}
        case = Case(
            result=read_work_file(work), submission=submission, problems=problems, usual_ms=usual_ms or {}
        )
        record(case, work, data=house / "data")
    except (RefusedError, store.StoreError) as refused:
        assert not list((house / "data").rglob("*.json"))
        return str(refused)
    return ""


def of_rounds(row, found):
    """A row whose figures all follow from forged rounds, of both its evaluations."""
    suspicions.judge_all(found, "cuda")
    again = {**found.to_json(), "alone_ms": 1.001 * found.alone_ms}
    return replace(row, rounds=found.to_json(), second={**row.second, "rounds": again}, **found.fields())


def faster_first(row):
    """Twice as fast in the rounds of the first evaluation, and figures that follow from these."""
    return replace(of_rounds(row, consistent(2)), second=row.second)


def consistent(factor):
    """Forged rounds of a kernel so many times as fast, in every clock."""
    found = measured(2.0)
    found.rounds = [
        replace(r, candidate_ms=r.candidate_ms / factor, candidate_wall_ms=r.candidate_ms / factor + 0.1)
        for r in found.rounds
    ]
    return found


def slow_reference(factor):
    found = measured(2.0)
    found.rounds = [replace(r, reference_ms=r.reference_ms * factor) for r in found.rounds]
    found.alone_ms = factor
    return found


def one_round():
    found = measured(2.0)
    found.rounds = found.rounds[1:2]
    return found


def clocks_apart():
    found = measured(2.0)
    found.rounds = [replace(r, candidate_wall_ms=100 * r.candidate_ms) for r in found.rounds]
    return found


def wide():
    found = measured(2.0)
    found.rounds = [
        replace(r, candidate_ms=(ms := 0.5 + 0.2 * at), candidate_wall_ms=ms + r.overhead_ms)
        for at, r in enumerate(found.rounds)
    ]
    return found


def edited(**values):
    return lambda row: {**json.loads(json.dumps(row.to_json())), **values}


FORGED = {
    "a million times as fast, one round": (
        lambda row: of_rounds(row, replace_rounds(one_round(), 1e6)).to_json(),
        "rounds must be at least 6, got 1",
    ),
    "a thousand times as fast, and times that say two": (
        edited(speedup=1000.0, speedup_ci95=[999.0, 1001.0]),
        "speedup must follow from the rounds, which give 2, got 1000",
    ),
    "faster than numbers go": (edited(speedup=1e300), "got 1e"),
    "an interval of no width": (edited(speedup_ci95=[2.0, 2.0]), "speedup_ci95 must follow"),
    "a second clock that says otherwise": (edited(second_clock_ms=50.0), "second_clock_ms must follow"),
    "rounds and no figures": (
        lambda row: replace(row, speedup=None, speedup_ci95=None, runtime_ms=None).to_json(),
        "speedup must follow from the rounds, which give 2, got nothing",
    ),
    "no rounds": (lambda row: replace(row, rounds=None).to_json(), "rounds are missing"),
    "an evaluator that nobody knows": (edited(evaluator_sha256="f" * 64), "is not of an evaluator"),
    "a day before there was this evaluator": (
        edited(finished_at="1999-01-01T00:00:00Z"),
        "must not be before .* run kbl evaluate --again",
    ),
    "a day to come": (
        edited(finished_at="2999-01-01T00:00:00Z"),
        "lies ahead, got 2999-01-01T00:00:00Z: set the clock of that machine, and run kbl evaluate --again",
    ),
    "correct, with evidence against it": (
        edited(evidence={"violation": "FasterThanPossible"}),
        "must carry no failure and no evidence",
    ),
    "a thousand times as fast in every clock": (
        lambda row: of_rounds(row, consistent(1000)).to_json(),
        "waits in quarantine for a person",
    ),
    "below what the device needs": (
        lambda row: of_rounds(row, consistent(40)).to_json(),
        "that the device needs",
    ),
    "a reference four times as slow": (
        lambda row: of_rounds(row, slow_reference(4.0)).to_json(),
        "the reference takes about 1 on this GPU",
    ),
    "a reference four times as fast": (
        lambda row: of_rounds(row, slow_reference(0.25)).to_json(),
        "reference_ms is 0.25; the reference takes about 1 on this GPU",
    ),
    "clocks a hundred times apart": (
        lambda row: of_rounds(row, clocks_apart()).to_json(),
        "second.rounds say ClocksDisagree",
    ),
    "found once, and written down twice": (
        lambda row: replace(row, second={**row.second, "rounds": row.rounds}).to_json(),
        "second.rounds are those of the first",
    ),
    "faster the first time, which counts": (
        lambda row: faster_first(row).to_json(),
        "speedup must follow from the rounds, which give 2, got 4",
    ),
    "a second time before the first": (
        lambda row: replace(row, second={**row.second, "finished_at": "2026-01-31T00:00:00Z"}).to_json(),
        "second.finished_at must not be before",
    ),
    "a second time on a day to come": (
        lambda row: replace(row, second={**row.second, "finished_at": "2999-01-01T00:00:00Z"}).to_json(),
        "second.finished_at lies ahead",
    ),
    "a part of the panel": (
        lambda row: replace(row, checks={**row.checks, "panel_passed": 8}).to_json(),
        "checks.panel_passed must be panel_asked, 9, got 8",
    ),
    "looks by an absolute tolerance": (
        lambda row: replace(row, checks={**row.checks, "looks_are_relative": False}).to_json(),
        "checks.looks_are_relative must be true",
    ),
    "nothing said of pauses": (
        lambda row: replace(row, rounds={k: v for k, v in row.rounds.items() if k != "paused_ms"}).to_json(),
        "checks are missing: ran_ms",
    ),
    "ran while it was stopped": (
        lambda row: replace(row, rounds={**row.rounds, "paused_ms": [100.0, 40.0]}).to_json(),
        "rounds say RanWhileStopped",
    ),
    "a second time of few rounds": (
        lambda row: replace(row, second={**row.second, "rounds": few(row)}).to_json(),
        "second.rounds cannot be read: .* must be at least 6, got 1",
    ),
    "wider than any honest row": (lambda row: of_rounds(row, wide()).to_json(), "say Unsteady: .*to a side"),
}


def few(row):
    """The rounds of a row, and of each of their columns the first alone."""
    columns = {name for name, value in row.rounds.items() if isinstance(value, list) and len(value) > 2}
    return {name: value[:1] if name in columns else value for name, value in row.rounds.items()}


def replace_rounds(found, factor):
    found.rounds = [replace(r, candidate_ms=r.candidate_ms / factor) for r in found.rounds]
    return found


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_row_is_refused_with_its_reason(house, name):
    forge, message = FORGED[name]
    work = work_of(house, honest_row())
    whole = json.loads(work.read_text())
    whole["rows"][0] = {**forge(honest_row()), "environment": whole["rows"][0]["environment"]}
    work.write_text(json.dumps(whole))
    assert re.search(message, recorded(house, work, usual_ms={(1, 1): 1.0}))


def test_an_honest_row_is_recorded(house):
    assert recorded(house, work_of(house, honest_row()), usual_ms={(1, 1): 1.1}) == ""


def test_the_reference_is_held_against_what_was_measured_for_the_board(house):
    result = read_work_file(work_of(house, of_rounds(honest_row(), slow_reference(30.0))))
    case = case_of(result, load(house / "mine.json"), ProblemSet(), ROOT / "baselines")
    assert case.usual_ms == USUAL_MS
    assert [doubt for doubt in figures_follow(case) if "reference_ms is 30; the reference takes" in doubt]


def test_a_row_of_reduced_sizes_is_not_held_to_what_full_ones_need(house):
    row = of_rounds(honest_row(), consistent(40))
    full = read_work_file(work_of(house, row))
    said = [
        [doubt for doubt in doubts(row, replace(full, sizes=sizes), None) if "the device needs" in doubt]
        for sizes in ("full", "reduced")
    ]
    assert [1, 0] == list(map(len, said))


def test_work_put_off_is_charged_as_on_a_gpu_whatever_its_model_is_called(house):
    found = measured(2.0)
    late = replace(found.rounds[0].look, candidate_ms=[0.3])
    found.rounds = [replace(r, look=late) for r in found.rounds]
    row = replace(of_rounds(honest_row(), found), labels=("deferred-work",))
    result = read_work_file(work_of(house, row))
    uncharged = of_rounds(replace(row, labels=()), measured(2.0))
    for gpu in ("H200", "GB300"):
        on_it = replace(result, gpu=gpu)
        assert list(doubts(row, on_it, None)) == []
        claimed = replace(uncharged, rounds=row.rounds, second=row.second)
        assert any("speedup must follow from the rounds" in doubt for doubt in doubts(claimed, on_it, None))


def test_what_a_row_stands_on_follows_from_its_rounds():
    found = measured(2.0)
    found.rounds = [
        replace(r, overhead_ms=0.2, calls=2, look=r.look if at else None) for at, r in enumerate(found.rounds)
    ]
    found.calls, found.reference_calls = 2, 1
    found.alone_ms, found.paused_ms = 0.5, (10.0, 0.25)
    stands_on = invariants(replace(honest_row(), rounds=found.to_json()))
    assert (stands_on.paused_ms, stands_on.ran_ms) == (10.0, 0.25)
    assert (stands_on.overhead_over_alone, stands_on.reference_over_alone) == pytest.approx((2.0, 2.0))
    assert (stands_on.rounds_made, stands_on.rounds_looked_at, stands_on.evaluations) == (6, 5, 2)
    found.alone_overheads_ms = None
    once = invariants(replace(honest_row(), rounds=found.to_json(), second=None))
    assert (once.overhead_over_alone, once.evaluations) == (None, 1)


def test_a_row_whose_second_evaluation_was_on_a_machine_with_a_slower_clock_is_recorded(house):
    row = replace(honest_row(), finished_at="2026-02-01T12:00:00Z")
    row = replace(row, second={**row.second, "finished_at": "2026-02-01T11:56:00Z"})
    assert recorded(house, work_of(house, row), usual_ms={(1, 1): 1.1}) == ""


FIGURES = ("runtime_ms", "reference_ms", "speedup", "speedup_ci95", "second_clock_ms")


def mutated(row, draw):
    """An honest row with one of its figures, or one of its rounds' times, changed."""
    data = json.loads(json.dumps(row.to_json()))
    factor = draw.choice([1e-6, 0.1, 0.5, 0.9, 0.99, 1.01, 1.1, 2, 10, 1e6])
    places = [(data, name) for name in FIGURES]
    for rounds in (data["rounds"], *([data["second"]["rounds"]] if "second" in data else [])):
        places += [(rounds, name) for name in ("candidate_ms", "reference_ms")]
    holder, name = draw.choice(places)
    value = holder[name]
    if isinstance(value, dict):
        name, holder = draw.choice(["median", "min", "max", "mean"]), value
        holder[name] *= factor
    elif isinstance(value, list):
        holder[name] = [each * factor for each in value]
    else:
        holder[name] = value * factor
    return data


REAL = [store.read_result(path) for path in sorted((ROOT / "tests/golden/rows-H200").glob("*.json"))]


def by_this_evaluator(row):
    """A row on file with the figures that follow from its rounds now."""
    return replace(row, **worked_out(row.rounds, "cuda").fields())


REAL_ROWS = [(result, by_this_evaluator(row)) for result in REAL for row in result.rows]
CONFIRMED = [
    (result, confirmed(row, replace(row, rounds={**row.rounds, "alone_ms": 0.999 * row.rounds["alone_ms"]})))
    for result, row in REAL_ROWS
    if needs_second(row)
]
USUAL_MS = usual_reference_ms(ROOT / "baselines", "H200")


def test_no_reference_on_record_is_refused_for_the_host_it_ran_on():
    ratios = {}
    for board in ("H100", "H100-bf16", "H200"):
        usual_ms = usual_reference_ms(ROOT / "baselines", board)
        results = (ROOT / "data/results" / board).glob("*.json")
        for path in (*results, *(ROOT / "data/history" / board).glob("*/*.json")):
            for row in store.read_result(path).rows:
                if row.reference_ms:
                    ratio = row.reference_ms.median / usual_ms[row.key.level, row.key.problem_id]
                    ratios[f"{path} {row.key}"] = ratio

    assert len(ratios) > 10_000
    assert [] == [
        row for row, ratio in ratios.items() if not 1 / REFERENCE_WITHIN <= ratio <= REFERENCE_WITHIN
    ]
    assert max(ratios.values()) > 2.5


def said_of(doubt):
    """What a doubt is about: a field, or that checks are missing."""
    return doubt.partition(":")[0].removeprefix("second.").partition(" must")[0]


ROWS = [*REAL_ROWS, *CONFIRMED]


@pytest.mark.parametrize(("result", "row"), ROWS, ids=[f"{r.entry}-{x.key}" for r, x in ROWS])
def test_every_row_that_an_h200_gave_is_believed_but_for_what_must_now_be_there(result, row):
    found = list(doubts(row, result, USUAL_MS[row.key.level, row.key.problem_id]))
    assert {said_of(doubt) for doubt in found} - {"rounds.lone"} == {"checks are missing"}


@pytest.mark.parametrize("seed", range(160))
def test_no_real_row_that_was_changed_afterwards_is_believed(seed):
    result, row = ROWS[seed % len(ROWS)]
    draw = random.Random(seed)
    while (changed := Row.from_json(mutated(row, draw))) and not tells(row, changed):
        pass
    assert any("must follow" in doubt for doubt in doubts(changed, result, None))


def test_a_row_that_hides_what_its_rounds_show_was_put_off_is_not_believed():
    record = json.loads((ROOT / "benchmarks/results/redteam-H100.json").read_text("utf-8"))
    (said,) = (case["row"] for case in record["cases"] if case["name"] == "x03")
    figures = worked_out(said["rounds"], "cuda").fields()
    known = dict.fromkeys(("kernel_sha256", "problem_sha256", "evaluator_sha256"), "0" * 64)
    known |= {"trials_asked": said["trials_passed"], "reference_ms": said["runtime_ms"]}
    row = replace(Row.from_json({**said, **known}), reference_ms=figures["reference_ms"])
    (result,) = (result for result, _ in REAL_ROWS[:1])
    asked = "its rounds ask for the label deferred-work"
    assert asked not in doubts(row, result, None)
    assert asked in doubts(replace(row, labels=()), result, None)


def tells(row, changed):
    """Whether a change is of what counts: of two evaluations the faster one's rounds say nothing."""
    if row.second is None or any(getattr(row, name) != getattr(changed, name) for name in FIGURES):
        return True
    return slowest(changed) != slowest(row)


def slowest(row):
    return min(
        worked_out(rounds, "cuda").fields()["speedup"] for rounds in (row.rounds, row.second["rounds"])
    )
