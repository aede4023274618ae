"""From rows to standings: what counts, what does not, and who shares a rank."""

import csv
import dataclasses
import io
import json
import math
import statistics

import pytest
from fake_engine import GPU, rows_found_twice
from kernel_evaluator.problems.jobs import Job
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import ResultFile, Status
from sitehouse import DECIDING
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.files import store
from leaderboard.files.submission import Submission, load
from leaderboard.github.outcome import would_be_standing
from leaderboard.light.roofline import roofs
from leaderboard.show.tables import as_csv, as_table
from leaderboard.stages import upkeep
from leaderboard.stages.aggregate import aggregate
from leaderboard.stages.boards import read_certificates, read_deals


def key(level, problem_id, sample=0):
    return KernelKey(level, problem_id, sample)


def submission(entry, kernels, **metadata):
    return Submission(
        entry=entry, sha256="0" * 64, metadata={"display_name": entry, **metadata}, kernels=kernels
    )


def result(entry, kernels, gpu="H200", sizes="full"):
    jobs = [
        Job(
            key=k,
            source=kernels[k],
            problem=Problem(level=k.level, problem_id=k.problem_id, name="", source=""),
        )
        for k in sorted(kernels)
    ]
    environment = dataclasses.replace(GPU, gpu=gpu)
    name = store.environment_name(environment)
    rows = tuple(dataclasses.replace(row, environment=name) for row in rows_found_twice(jobs, environment))
    return ResultFile(
        entry=entry,
        submission_sha256="0" * 64,
        gpu=gpu,
        sizes=sizes,
        profile="ranked",
        evaluator_version="1",
        started_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T01:00:00Z",
        environments={name: environment},
        rows=rows,
    )


NONE = {"fp32": {}}
"""All problems are ranked."""


def deciding(folder, **said):
    """Write what says which problems are ranked, nothing where it is not told; give the certificates' path."""
    for name in DECIDING:
        (folder / name).write_text(json.dumps({"problems": said.get(name.removesuffix(".json"), {})}))
    return folder / "certificates.json"


def standings(*entries, certificates=None):
    """Aggregate entries given as (name, kernels, metadata) on one board."""
    (board,) = aggregate(
        [result(name, kernels) for name, kernels, _ in entries],
        {name: submission(name, kernels, **metadata) for name, kernels, metadata in entries},
        {"fp32": certificates or {}},
    )
    return {standing.entry: standing for standing in board.standings}


def whole(speedup, levels=((1, 100), (2, 100), (3, 50))):
    return {key(level, i): f"# speedup {speedup}\n" for level, n in levels for i in range(1, n + 1)}


FAILED = "# status runtime_error\n"


def test_missing_and_failed_kernels_count_in_every_rate():
    kernels = {key(1, 1): "# speedup 4.0\n", key(1, 2): FAILED, key(1, 3): "# status compile_error\n"}
    scores = standings(("a", kernels, {}))["a"].overall
    assert (scores.problems, scores.submitted, scores.compiled, scores.correct) == (250, 3, 2, 1)
    assert (scores.correct_rate, scores.compile_rate) == (1 / 250, 2 / 250)
    assert scores.fast == {1.0: 1 / 250, 1.5: 1 / 250, 2.0: 1 / 250}
    assert (scores.geomean_speedup, scores.geomean_n) == (pytest.approx(4.0), 1)
    assert scores.deployed_speedup == pytest.approx(4.0 ** (1 / 250))


def test_each_level_has_its_own_denominator():
    levels = standings(("a", {key(3, 1): "# speedup 2.0\n"}, {}))["a"].levels
    assert {level: scores.problems for level, scores in levels.items()} == {1: 100, 2: 100, 3: 50}
    assert levels[3].deployed_speedup == pytest.approx(2.0 ** (1 / 50))
    assert [{1: 0.0}, {1: 0.0}, {1: 1 / 50}] == [scores.pass_at_k for scores in levels.values()]


def test_level_four_is_shown_and_never_in_the_ranking():
    kernels = {key(1, 1): "# speedup 2.0\n", key(4, 1): "# speedup 9.0\n"}
    standing = standings(("a", kernels, {}))["a"]
    assert (standing.levels[4].problems, standing.levels[4].correct) == (20, 1)
    assert standing.overall.correct == 1


def test_level_four_is_in_the_csv_without_a_reference_but_eager():
    kernels = {key(1, 1): "# speedup 2.0\n", key(4, 1): "# speedup 9.0\n"}
    sent = {"a": submission("a", kernels), "base": submission("base", kernels, baseline=True)}
    text = as_csv(aggregate([result(name, kernels) for name in sent], sent, NONE))
    lines = {line["level"]: line for line in csv.DictReader(io.StringIO(text)) if line["entry"] == "a"}
    assert (lines["4"]["correct"], lines["4"]["deployed_speedup_vs_best"]) == ("1", "")
    assert float(lines["1"]["deployed_speedup_vs_best"]) == 1.0


def test_an_entry_without_a_kernel_that_ranks_and_one_judged_by_other_rules_have_no_rank():
    kernels = {key(4, 1): "# speedup 9.0\n", key(1, 80): "# speedup 9.0\n"}
    certified = {"fp32": {"1_80": "x"}}
    (board,) = aggregate([result("four", kernels)], {"four": submission("four", kernels)}, certified)
    [alone] = board.standings
    assert (None, "no kernel on a problem that ranks") == (alone.rank, alone.unranked_because)
    kernels = whole(2.0)
    compat = dataclasses.replace(result("mine", kernels), profile="compat")
    (board,) = aggregate([compat], {"mine": submission("mine", kernels)}, NONE)
    [standing] = board.standings
    assert (None, "judged by the profile compat") == (standing.rank, standing.unranked_because)


def test_a_time_in_quarantine_counts_for_nothing():
    kernels = whole(2.0, ((1, 100),))
    waiting = result("mine", kernels)
    rows = (
        dataclasses.replace(waiting.rows[0], status=Status.QUARANTINED, speedup=50.0, evidence={"clock": 2}),
        *waiting.rows[1:],
    )
    (board,) = aggregate(
        [dataclasses.replace(waiting, rows=rows)], {"mine": submission("mine", kernels)}, NONE
    )
    overall = board.standings[0].overall
    assert 2.0 == pytest.approx(overall.geomean_speedup)
    assert 2.0 ** (99 / 250) == pytest.approx(overall.deployed_speedup)


def test_only_the_first_sample_counts_for_speed_and_all_count_for_pass_at_k():
    kernels = {key(1, 1): FAILED, key(1, 1, 1): "# speedup 9.0\n", key(1, 2): "# speedup 2.0\n"}
    overall = standings(("a", kernels, {}))["a"].overall
    assert (overall.correct, overall.geomean_speedup) == (1, pytest.approx(2.0))
    assert overall.pass_at_k == {1: pytest.approx((0.5 + 1.0) / 250)}


def test_samples_of_a_problem_that_does_not_rank_pass_nothing():
    kernels = {key(1, 23, sample): "# speedup 2.0\n" for sample in range(5)} | {key(1, 2): "# speedup 2.0\n"}
    overall = standings(("a", kernels, {}), certificates={"1_23": "zeros pass"})["a"].overall
    assert overall.pass_at_k == {1: pytest.approx(1 / 249)}


def test_pass_at_5_is_shown_from_five_samples_on():
    kernels = {key(1, 1, sample): FAILED for sample in range(4)} | {key(1, 1, 4): "# speedup 2.0\n"}
    overall = standings(("a", {**kernels, key(1, 2): "# speedup 2.0\n"}, {}))["a"].overall
    assert overall.pass_at_k == pytest.approx({1: 1.2 / 250, 5: 2 / 250})


def test_a_quarantined_kernel_is_not_correct():
    row = result("a", {key(1, 1): "# speedup 2.0\n"}).rows[0]
    quarantined = dataclasses.replace(row, status=Status.QUARANTINED, evidence={"clock": 2})
    file = dataclasses.replace(result("a", {key(1, 1): "# speedup 2.0\n"}), rows=(quarantined,))
    (board,) = aggregate([file], {"a": submission("a", {key(1, 1): "# speedup 2.0\n"})}, NONE)
    assert board.standings[0].overall.correct == 0
    assert board.standings[0].failures == {"quarantined": 1, "missing": 249}


def test_what_holds_on_other_shapes_is_counted_among_the_correct_kernels_that_were_tried_there():
    kernels = {key(1, i): f"# speedup {1 + i}\n" for i in range(1, 6)}
    found = result("a", kernels)
    tried = {"elsewhere": {"rows": "passed"}}
    fields = (
        *[{**tried, "labels": ("general",)}] * 2,
        tried,
        {},
        {**tried, "status": Status.FRAGILE, "speedup": None, "evidence": {"counter_example": {}}},
    )
    rows = tuple(dataclasses.replace(row, **each) for row, each in zip(found.rows, fields, strict=True))
    (board,) = aggregate([dataclasses.replace(found, rows=rows)], {"a": submission("a", kernels)}, NONE)
    overall = board.standings[0].overall
    assert (overall.general, overall.tried_elsewhere, overall.correct) == (2, 3, 4)


def test_a_threshold_inside_an_interval_is_counted_as_straddling():
    overall = standings(("a", {key(1, 1): "# speedup 1.01\n", key(1, 2): "# speedup 1.3\n"}, {}))["a"].overall
    assert overall.straddling == {1.0: 1, 1.5: 0, 2.0: 0}


def test_a_threshold_where_another_gpu_may_put_the_kernel_is_counted_as_straddling():
    near, far = 1.5 * 1.02 * 1.02, 1.5 * 1.02 * 1.03
    overall = standings(("a", {key(1, 1): f"# speedup {near}\n", key(1, 2): f"# speedup {far}\n"}, {}))[
        "a"
    ].overall
    assert overall.straddling[1.5] == 1


def test_entries_are_ranked_by_deployed_speedup_and_equals_share_a_rank():
    board = standings(("slow", whole(1.2), {}), ("fast", whole(1.5), {}), ("twin", whole(1.5), {}))
    assert {entry: standing.rank for entry, standing in board.items()} == {"fast": 1, "twin": 1, "slow": 3}
    low, high = board["fast"].deployed_ci95
    assert low <= board["fast"].overall.deployed_speedup * (1 + 1e-9)
    assert high >= board["fast"].overall.deployed_speedup * (1 - 1e-9)


def test_leaving_hard_problems_out_does_not_win():
    picked = {key(1, 1): "# speedup 5.0\n"}
    board = standings(("honest", whole(1.1), {}), ("picker", picked, {}))
    assert (board["honest"].rank, board["picker"].rank) == (1, 2)


def test_baselines_and_incomplete_entries_are_shown_last_without_a_rank():
    kernels = {**whole(1.3), key(1, 1): "# status infra_error\n"}
    board = standings(
        ("base", whole(9.0), {"baseline": True}), ("part", kernels, {}), ("good", whole(1.1), {})
    )
    assert list(board) == ["good", "base", "part"]
    assert (board["base"].kind, board["base"].rank, board["base"].unranked_because) == (
        "baseline",
        None,
        "baseline",
    )
    assert board["part"].unranked_because == "incomplete: 1 of 250 kernels wait for a verdict"


def test_a_kernel_without_a_verdict_leaves_its_entry_whole_where_nothing_is_ranked():
    kernels = {**whole(1.3), key(3, 33): "# status infra_error\n"}
    board = standings(("all", kernels, {}), certificates={"3_33": "the reference does not run"})
    assert (board["all"].rank, board["all"].unranked_because) == (1, "")


def test_speedups_stand_against_the_best_of_pytorch_beside_eager():
    part = {**whole(4.0), key(1, 1): FAILED}
    board = standings(
        ("torch-compile", whole(2.0), {"baseline": True}),
        ("torch-compile-max-autotune", whole(3.0), {"baseline": True}),
        ("pytorch-eager", whole(0.9), {"baseline": True}),
        ("good", part, {}),
        ("slow", whole(1.5), {}),
    )
    good, slow = board["good"].against, board["slow"].against
    assert good["compile"].deployed_speedup == pytest.approx(2.0 ** (249 / 250))
    assert good["best"].deployed_speedup == pytest.approx((4 / 3) ** (249 / 250))
    assert good["best"].geomean_speedup == pytest.approx(4 / 3)
    assert good["best"].fast == {1.0: 249 / 250, 1.5: 0.0, 2.0: 0.0}
    assert slow["compile"].deployed_speedup == slow["best"].deployed_speedup == 1.0
    assert slow["best"].geomean_speedup == pytest.approx(0.5)
    assert board["torch-compile"].against["best"].deployed_speedup == 1.0
    assert slow["best"].ci95 == pytest.approx((1.0, 1.0)), "a problem that PyTorch wins is not lost"
    assert board["good"].levels_against["best"][1].deployed_speedup == pytest.approx((4 / 3) ** (99 / 100))
    assert board["good"].rank < board["slow"].rank


def test_a_board_without_other_baselines_has_eager_alone():
    good, eager = ("good", whole(1.5), {}), ("pytorch-eager-bf16", whole(1.01), {"baseline": True})
    assert standings(good)["good"].against == standings(good, eager)["good"].against == {}


def test_a_baseline_says_what_of_it_waits():
    kernels = {**whole(1.3), key(1, 1): "# status infra_error\n"}
    (standing,) = standings(("base", kernels, {"baseline": True})).values()
    said = "baseline, incomplete: 1 of 250 kernels wait for a verdict"
    assert (standing.rank, standing.unranked_because) == (None, said)


def test_a_kernel_changed_since_the_evaluation_makes_the_entry_incomplete():
    old, new = {key(1, 1): "# speedup 2.0\n"}, {key(1, 1): "# speedup 3.0\n"}
    (board,) = aggregate([result("a", old)], {"a": submission("a", new)}, NONE)
    (standing,) = board.standings
    assert standing.unranked_because == "incomplete: 1 of 1 kernels wait for a verdict"
    assert (standing.overall.correct, standing.result.rows) == (0, ())
    assert standing.failures == {"missing": 249}, "what waits for a verdict was sent"


def test_a_result_without_its_submission_is_not_shown():
    assert aggregate([result("gone", whole(2.0))], {}, NONE) == ()


def test_problems_that_cannot_be_judged_count_in_no_figure():
    certificates = {"1_23": "zeros pass"}
    trivial = {**whole(1.0), key(1, 23): "# speedup 100.0\n"}
    board = standings(("trivial", trivial, {}), ("honest", whole(1.05), {}), certificates=certificates)
    overall = board["trivial"].overall
    assert board["honest"].rank == 1
    assert (overall.ranked_problems, overall.problems, overall.correct) == (249, 249, 249)
    assert overall.deployed_speedup == 1.0
    assert overall.fast[2.0] == 0 and overall.geomean_speedup == pytest.approx(1.0)
    assert board["trivial"].levels[1].ranked_problems == 99
    partly = standings(("a", {key(1, 1): "# speedup 2.0", key(1, 23): FAILED}, {}), certificates=certificates)
    assert partly["a"].failures == {"missing": 248}


def test_an_entry_not_merged_yet_is_told_the_rank_that_the_board_would_give_it():
    trivial = sorted(read_certificates()["fp32"])[0]
    level, problem_id = map(int, trivial.split("_"))
    mine = {**whole(1.1), key(level, problem_id): "# speedup 100.0\n"}
    others = {
        "base": submission("base", whole(9.0), baseline=True),
        "best": submission("best", whole(1.3)),
    }
    files = [result("mine", mine), *(result(name, other.kernels) for name, other in others.items())]
    standing, ranked = would_be_standing(files, "H200", submission("mine", mine), others)
    assert (standing.rank, ranked) == (2, 2)
    assert standing.overall.deployed_speedup == pytest.approx(1.1)


def test_boards_are_apart_by_gpu_and_size_with_the_reference_gpu_first():
    kernels = {key(1, 1): "# speedup 2.0\n"}
    files = [
        result("a", kernels, gpu=gpu, sizes=sizes)
        for gpu, sizes in [("CPU", "reduced"), ("A100", "full"), ("H100", "full")]
    ]
    boards = aggregate(files, {"a": submission("a", kernels)}, NONE)
    assert [board.name for board in boards] == ["H100", "A100", "CPU-reduced"]


def test_boards_with_ranks_come_first_and_fp32_before_other_precisions():
    kernels = {key(1, 1): "# speedup 2.0\n"}
    on_bf16 = dataclasses.replace(result("a", kernels, gpu="H100"), precision="bf16")
    files = [on_bf16, result("base", kernels, gpu="H100"), result("a", kernels, gpu="H200")]
    sent = {"a": submission("a", kernels), "base": submission("base", kernels, baseline=True)}
    boards = aggregate(files, sent, {"fp32": {}, "bf16": {}})
    assert [board.name for board in boards] == ["H200", "H100-bf16", "H100"]


def test_of_a_precisions_boards_the_fuller_comes_first_and_of_two_alike_that_of_the_reference_gpu():
    kernels = {key(1, 1): "# speedup 2.0\n"}
    files = [result("a", kernels, gpu=gpu) for gpu in ("A100", "H100", "H200")]
    sent = {name: submission(name, kernels) for name in ("a", "b")}
    assert [board.name for board in aggregate(files, sent, NONE)] == ["H100", "A100", "H200"]
    files.append(result("b", kernels, gpu="H200"))
    assert [board.name for board in aggregate(files, sent, NONE)] == ["H200", "H100", "A100"]


def test_only_certificates_that_take_the_rank_away_are_read(tmp_path):
    facts = {"1_23": {"evidence": "zeros", "ranked": False}, "1_1": {"evidence": "none", "ranked": True}}
    assert read_certificates(deciding(tmp_path, certificates=facts))["fp32"] == {"1_23": "zeros"}


@pytest.mark.parametrize("name", DECIDING)
def test_a_file_that_says_what_is_ranked_and_is_missing_is_an_error(tmp_path, name):
    path = deciding(tmp_path)
    assert read_certificates(path)["fp32"] == {}
    (tmp_path / name).unlink()
    with pytest.raises(store.StoreError, match=f"{name} is missing"):
        read_certificates(path)


def test_what_says_nothing_in_bf16_counts_on_boards_of_fp32_alone():
    kernels = {key(1, 1): "# speedup 2.0\n", key(2, 93): "# speedup 4.0\n"}
    files = [result("a", kernels), dataclasses.replace(result("a", kernels), precision="bf16")]
    certificates = read_certificates()
    assert "the reference in float64" in certificates["bf16"]["2_93"]
    assert set(certificates["fp32"]) <= set(certificates["bf16"])
    boards = {board.name: board for board in aggregate(files, {"a": submission("a", kernels)}, certificates)}
    counted = {name: board.standings[0].overall for name, board in boards.items()}
    assert (counted["H200"].correct, counted["H200-bf16"].correct) == (2, 1)
    assert "2_93" in boards["H200-bf16"].unranked_problems and "2_93" not in boards["H200"].unranked_problems
    with pytest.raises(store.StoreError, match="which problems are ranked in bf16"):
        aggregate(files, {"a": submission("a", kernels)}, NONE)


@pytest.fixture
def repository(tmp_path):
    """Two recorded entries with their submissions."""
    for entry, speedup in [("fast", 1.6), ("close", 1.01)]:
        kernels = whole(speedup, levels=((1, 100),))
        body = {"metadata": {"display_name": entry}, "kernels": {str(k): v for k, v in kernels.items()}}
        path = tmp_path / "submissions" / f"{entry}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(body))
        recorded = store.recorded_path(tmp_path / "data", "H200", entry)
        store.write_atomically(recorded, store.dump_result(result(entry, load(path).kernels)))
    return tmp_path


def show(repository, *options):
    folders = ["--data", str(repository / "data"), "--submissions", str(repository / "submissions")]
    return CliRunner().invoke(app, ["standings", *folders, *options])


def test_the_table_shows_rank_interval_and_marks_uncertain_shares(repository):
    lines = show(repository).output.splitlines()
    assert lines[0].startswith("H200: 2 ranked, 0 not")
    head = "rank entry deployed geomean (n) fast@1 fast@1.5 fast@2 correct light L1 L2 L3 unranked"
    assert " ".join(lines[2].split()) == head
    fast, close = lines[-2:]
    assert fast.split()[:2] == ["1", "fast"]
    unranked = read_certificates()["fp32"]
    counted = 100 - sum(name.startswith("1_") for name in unranked)
    known = [
        roof for name, roof in roofs("H200", "fp32").items() if name[:2] == "1_" and name not in unranked
    ]
    assert f"{statistics.median(roof.share(1 / 1.6) for roof in known):.1%}" in fast
    share = f"{counted / (250 - len(unranked)):.1%}~"
    assert f"1.600 ({counted})" in fast
    assert share in close
    assert share not in fast


def test_csv_and_json_hold_the_same_full_figures(repository):
    close = repository / "submissions/close.json"
    body = json.loads(close.read_text())
    body["metadata"]["baseline"] = True
    close.write_text(json.dumps(body))
    lines = list(csv.DictReader(io.StringIO(show(repository, "--format", "csv").output)))
    assert next(iter(lines[0])) == "board"
    boards = json.loads(show(repository, "--format", "json").output)["boards"]
    overall = next(line for line in lines if line["entry"] == "fast" and line["level"] == "all")
    assert overall["rank"] == "1"
    figure = boards[0]["standings"][0]["overall"]["deployed_speedup"]
    assert float(overall["deployed_speedup"]) == figure
    known = {standing["entry"]: standing for standing in boards[0]["standings"]}
    for line in lines:
        standing = known[line["entry"]]
        said = standing["overall"] if line["level"] == "all" else standing["levels"][line["level"]]
        told = {name: value for name, value in line.items() if name in said and value != ""}
        assert {name: value for name, value in said.items() if value is not None} == {
            name: pytest.approx(float(value)) for name, value in told.items()
        }
        assert "deployed_speedup_vs_best" in told
    left_out = [key for key in read_certificates()["fp32"] if key.startswith("1_")]
    share = (100 - len(left_out)) / (250 - len(read_certificates()["fp32"]))
    assert figure == pytest.approx(math.exp(share * math.log(1.6)))


def test_a_spreadsheet_reads_no_formula_in_the_csv():
    kernels = {key(1, 1): "class ModelNew: ..."}
    hostile = submission("fast", kernels, display_name="=1+1", organization="@SUM(A1)")
    boards = aggregate([result("fast", kernels)], {"fast": hostile}, NONE)
    [line] = [line for line in csv.DictReader(io.StringIO(as_csv(boards))) if line["level"] == "all"]
    assert (line["display_name"], line["organization"]) == ("'=1+1", "'@SUM(A1)")


def test_the_first_ranks_are_those_of_the_board_that_is_named(repository, monkeypatch):
    folders = repository / "data", repository / "submissions"
    assert upkeep.top(*folders, "H200") == ["fast", "close"]
    monkeypatch.setattr(upkeep, "TOP", 1)
    assert (upkeep.top(*folders, "H200"), upkeep.top(*folders, "H100")) == (["fast"], [])
    fast = repository / "submissions/fast.json"
    fast.write_text(fast.read_text().replace('"display_name"', '"baseline": true, "display_name"'))
    assert upkeep.top(*folders, "H200") == ["close"], "a baseline has no rank"


def test_an_entry_of_which_nothing_is_correct_stands_in_the_table_without_figures():
    kernels = {key(1, 1): FAILED, key(4, 1): FAILED}
    boards = aggregate([result("a", kernels)], {"a": submission("a", kernels)}, NONE)
    assert as_table(boards).splitlines()[-1].split()[2:] == [
        *("1.000x", "(1.000-1.000)", "-", "(0)", "0.0%", "0.0%", "0.0%", "0.0%", "-"),
        *("1.000x", "0/100", "1.000x", "0/100", "1.000x", "0/50"),
    ]


def test_an_unknown_board_is_named_with_those_there_are(repository):
    ended = show(repository, "--gpu", "B200")
    assert ended.exit_code == 2
    assert "one of the boards (H200), got 'B200'" in ended.stderr


def test_a_result_in_the_wrong_folder_is_an_error_that_names_it(repository):
    path = store.recorded_path(repository / "data", "H100", "fast")
    path.parent.mkdir()
    store.recorded_path(repository / "data", "H200", "fast").rename(path)
    ended = show(repository)
    assert ended.exit_code == 2
    assert "says it is H200/fast" in ended.stderr


def test_what_no_inputs_decide_at_full_size_does_not_count_and_says_why(tmp_path):
    facts = {name: {"evidence": "none", "ranked": True} for name in ("1_1", "1_2", "1_3", "1_4")}

    def entry(**passes):
        inputs = {name: {"passes": dict.fromkeys(twins, 0.5), "shares": {}} for name, twins in passes.items()}
        return {"problem_sha256": "a", "variant": "affine", "twins": {"zeros": 9.0}, "inputs": inputs}

    full = {
        "1_1": entry(upstream=["zeros", "tf32"], signed=["zeros"]),
        "1_2": entry(upstream=["zeros"], signed=["mean"]),
        "1_3": entry(upstream=["zeros"], signed=["tf32"], mixed=[]),
        "1_4": {"error": "out of memory"},
    }
    path = deciding(tmp_path, certificates=facts, sharpness={"full": full, "reduced": {}})
    found = read_certificates(path)["fp32"]
    assert set(found) == {"1_1", "1_2"}
    assert "nothing tells zeros" in found["1_1"] and "passes" in found["1_2"]
    deals = read_deals(tmp_path / "sharpness.json")
    assert set(deals) == {"1_1", "1_2", "1_3"}
    sizes, deal = deals["1_3"]
    assert (sizes, set(deal.shares)) == ("full", {"upstream", "mixed"})


def test_what_no_inputs_decide_in_bf16_counts_in_fp32_alone(tmp_path):
    facts = {name: {"evidence": "none", "ranked": True} for name in ("1_1", "1_2")}
    common = {"problem_sha256": "a", "precision": "bf16", "variant": "affine", "twins": {"zeros": 9.0}}
    blunt = {"signed": {"passes": {"one in 8 summed": 0.2}, "shares": {"constant": 0.6}}}
    sharp = {"signed": {"passes": {}, "shares": {"constant": 0.6}}}
    full = {"1_1": {**common, "inputs": blunt}, "1_2": {**common, "inputs": sharp}}
    path = deciding(tmp_path, certificates=facts, **{"sharpness-bf16": {"full": full}})
    (tmp_path / "certificates-bf16.json").write_text(json.dumps({"problems": facts}))
    assert read_certificates(path) == {
        "fp32": {},
        "bf16": {"1_1": "nothing tells one in 8 summed from the reference"},
    }


def test_what_may_be_left_as_it_is_at_known_places_does_not_count_and_says_where(tmp_path):
    facts = {name: {"evidence": "none", "ranked": True} for name in ("1_1", "1_2")}
    shares = {"1_1": 0.025, "1_2": 0.009}
    places = {name: {"two_draws": share, "where": "zero on mixed"} for name, share in shares.items()}
    assert read_certificates(deciding(tmp_path, certificates=facts, places=places))["fp32"] == {
        "1_1": "2.5% of all places may be left as they are (zero on mixed inputs)"
    }


def test_a_speedup_that_was_found_once_counts_nowhere_and_leaves_its_entry_incomplete():
    kernels = {key(1, 1): "# speedup 2.0", key(1, 2): "# speedup 0.5"}
    found = result("a", kernels)
    once = dataclasses.replace(found, rows=tuple(dataclasses.replace(row, second=None) for row in found.rows))
    (board,) = aggregate([once], {"a": submission("a", kernels)}, NONE)
    (standing,) = board.standings
    assert "incomplete: 1 of 2 kernels wait for a verdict" == standing.unranked_because
    assert 1 == standing.overall.correct and 0.5 == pytest.approx(standing.overall.geomean_speedup, rel=0.05)
    baseline, compat = submission("a", kernels, baseline=True), dataclasses.replace(once, profile="compat")
    for found, sent in ((once, baseline), (compat, submission("a", kernels))):
        (board,) = aggregate([found], {"a": sent}, NONE)
        assert 2 == board.standings[0].overall.correct, "what never ranks is found once"
