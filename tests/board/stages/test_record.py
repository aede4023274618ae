"""What enters `data/`, what is refused, and what stays readable."""

import dataclasses
import json
import re

import pytest
from fake_engine import GPU, FakeEngine
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import ProblemSet
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.files import store, submission
from leaderboard.stages.evaluate import Evaluation, evaluate, load_problems
from leaderboard.stages.parts import joined
from leaderboard.stages.record import RefusedError, case_of, read_work_file, record

BODY = "class ModelNew:\n    pass\n"


class Repository:
    """A folder with one submission, evaluated by the engine of the tests."""

    def __init__(self, folder, kbl):
        self.folder = folder
        self.kbl = kbl
        self.data = folder / "data"
        self.write("# speedup 2.0\n", "# speedup 0.5\n", "# status mismatch\n")

    def write(self, *firsts):
        kernels = {f"level_1_problem_{i}_sample_0": first + BODY for i, first in enumerate(firsts, start=1)}
        body = {"metadata": {"display_name": "mine"}, "kernels": kernels}
        (self.folder / "submissions").mkdir(exist_ok=True)
        (self.folder / "submissions" / "mine.json").write_text(json.dumps(body))

    def evaluate(self, evaluator=None, gpu=GPU):
        loaded = submission.load(self.folder / "submissions" / "mine.json")
        evaluation = Evaluation(
            submission=loaded,
            problems=load_problems(ProblemSet(), loaded.kernels, "full"),
            settings=Settings(),
            gpu=gpu.gpu,
            work_root=self.folder / "work",
        )
        evaluation.path.unlink(missing_ok=True)
        return evaluate(evaluation, FakeEngine(gpu, evaluator=evaluator), lambda row: None).path

    def record(self, *arguments):
        known = [option for name in "abc" for option in ("--evaluator", name * 64)]
        return self.kbl("record", *arguments, *known, cwd=self.folder)

    def refuse(self, work):
        """Record in this process and give what is said."""
        folders = ["--data", str(self.data), "--submissions", str(self.folder / "submissions")]
        folders += ["--baselines", str(self.folder / "baselines")]
        ended = CliRunner().invoke(app, ["record", str(work), *folders])
        assert (ended.exit_code, type(ended.exception), self.files()) == (1, SystemExit, [])
        return ended.stderr

    def take(self, **changed):
        """Record a work file with some of its values changed, in this process, and give what was recorded."""
        work = self.evaluate()
        work.write_text(json.dumps(json.loads(work.read_text()) | changed))
        loaded = submission.load(self.folder / "submissions" / "mine.json")
        case = case_of(read_work_file(work), loaded, ProblemSet(), self.folder / "baselines")
        return record(case, work, data=self.data).result

    @property
    def recorded(self):
        return store.read_result(self.data / "results" / "H200" / "mine.json")

    def files(self):
        return sorted(str(p.relative_to(self.data)) for p in self.data.rglob("*") if p.is_file())


@pytest.fixture
def repository(tmp_path, kbl_forked):
    return Repository(tmp_path, kbl_forked)


def test_a_first_result_is_revision_one_with_a_row_a_line_and_nothing_else_in_data(repository):
    ended = repository.record(repository.evaluate())
    text = (repository.data / "results/H200/mine.json").read_text()
    assert ended.returncode == 0, ended.stderr
    assert repository.files() == ["results/H200/mine.json"]
    assert (repository.recorded.revision, repository.recorded.reason) == (1, "first evaluation")
    assert text.endswith("}\n")
    assert len(re.findall(r'^    \{.*"key": "level_1_problem_\d_sample_0".*\},?$', text, re.M)) == 3


def test_what_utf8_cannot_hold_is_recorded_as_what_it_can(repository):
    work = repository.evaluate()
    work.write_text(work.read_text().replace("differs at", r"differs \ud800 at"))
    ended = repository.record(work)
    assert 0 == ended.returncode, ended.stderr
    assert "differs ? at [0, 0]" == repository.recorded.rows[2].failure.message
    assert "unchanged" in repository.record(work).stdout


def test_recording_the_same_content_again_changes_nothing(repository):
    repository.record(repository.evaluate())
    before = (repository.data / "results/H200/mine.json").read_bytes()
    ended = repository.record(repository.evaluate())
    assert ended.stdout.startswith("unchanged")
    assert (repository.data / "results/H200/mine.json").read_bytes() == before
    assert repository.files() == ["results/H200/mine.json"]


def test_a_new_evaluation_is_a_new_revision_and_the_old_one_stays_readable(repository):
    repository.record(repository.evaluate(evaluator="a" * 64))
    first = (repository.data / "results/H200/mine.json").read_bytes()
    repository.record(repository.evaluate(evaluator="b" * 64))
    repository.record(repository.evaluate(evaluator="c" * 64), "--reason", "audit")
    assert repository.files() == [
        "history/H200/mine/1.json",
        "history/H200/mine/2.json",
        "results/H200/mine.json",
    ]
    assert (repository.data / "history/H200/mine/1.json").read_bytes() == first
    second = store.read_result(repository.data / "history/H200/mine/2.json")
    assert second.reason == "another version of the evaluator"
    assert (repository.recorded.revision, repository.recorded.reason) == (3, "audit")


def test_a_new_revision_says_why_it_is_there(repository):
    rows = json.loads(repository.evaluate().read_text())["rows"]
    lost = {**rows[2], "status": "infra_error"}
    slower = {**rows[0], "gpu_seconds": 2.0, "worst_error": 1.0}
    steps = {
        "first evaluation": rows[:1],
        "more kernels evaluated": [*rows[:2], lost],
        "infrastructure errors tried again": rows,
        "measured again": [slower, *rows[1:]],
    }
    for number, (why, judged) in enumerate(steps.items(), 1):
        spent = {name: sum(row[name] for row in judged) for name in ("gpu_seconds", "cpu_seconds")}
        recorded = repository.take(rows=judged, **spent)
        assert (number, why, len(judged)) == (recorded.revision, recorded.reason, len(recorded.rows))


def test_a_changed_kernel_replaces_its_row_and_says_why(repository):
    repository.record(repository.evaluate())
    repository.write("# speedup 2.0\n", "# speedup 3.0\n", "# status mismatch\n")
    repository.record(repository.evaluate())
    assert [row.speedup for row in repository.recorded.rows] == [2.0, 3.0, None]
    assert repository.recorded.reason == "the submission changed"


def test_rows_that_a_partial_work_file_lacks_are_kept(repository):
    repository.record(repository.evaluate())
    work = repository.evaluate(evaluator="b" * 64)
    partial = json.loads(work.read_text())
    partial["rows"] = partial["rows"][:1]
    partial["gpu_seconds"], partial["cpu_seconds"] = 1.0, 2.0
    work.write_text(json.dumps(partial))
    ended = repository.record(work)
    assert ended.returncode == 0, ended.stderr
    assert len(repository.recorded.rows) == 3
    assert repository.recorded.gpu_seconds == 3.0


def test_the_parts_of_an_evaluation_make_one_revision(repository, tmp_path):
    whole = json.loads(repository.evaluate().read_text())
    for at, row in enumerate(whole["rows"]):
        part = {**whole, "rows": [row], "gpu_seconds": row["gpu_seconds"], "cpu_seconds": row["cpu_seconds"]}
        (tmp_path / f"part-{at}.json").write_text(json.dumps(part))
    ended = repository.record(tmp_path / "part-2.json", tmp_path / "part-0.json", tmp_path / "part-1.json")
    assert ended.stdout.count("recorded") == 1, ended.stderr
    assert repository.files() == ["results/H200/mine.json"]
    assert [row.speedup for row in repository.recorded.rows] == [2.0, 0.5, None]
    assert repository.recorded.revision == 1
    assert repository.record(repository.evaluate()).stdout.startswith("unchanged")


def test_parts_that_hold_what_is_recorded_make_one_revision_too(repository, tmp_path):
    repository.record(repository.evaluate(evaluator="a" * 64))
    before = json.loads((repository.data / "results/H200/mine.json").read_text())["rows"]
    whole = json.loads(repository.evaluate(evaluator="b" * 64).read_text())
    for at, row in enumerate(whole["rows"]):
        rows = [row if old["key"] == row["key"] else old for old in before]
        spent = {name: sum(row[name] for row in rows) for name in ("gpu_seconds", "cpu_seconds")}
        (tmp_path / f"part-{at}.json").write_text(json.dumps({**whole, **spent, "rows": rows}))
    ended = repository.record(*(tmp_path / f"part-{at}.json" for at in range(3)))
    assert ended.stdout.count("revision 2") == 1, ended.stderr
    assert repository.files() == ["history/H200/mine/1.json", "results/H200/mine.json"]
    assert {row.evaluator_sha256 for row in repository.recorded.rows} == {"b" * 64}


def test_a_row_that_is_on_record_is_not_doubted_again_and_one_that_was_changed_is(repository):
    fresh = repository.take()
    old = [dataclasses.replace(row, evaluator_sha256="a" * 64) for row in fresh.rows]
    path = store.recorded_path(repository.data, "H200", "mine")
    store.write_atomically(path, store.dump_result(dataclasses.replace(fresh, rows=tuple(old))))
    kept, judged = [row.to_json() for row in old[:2]], fresh.rows[2].to_json()
    assert 2 == repository.take(rows=[*kept, judged]).revision
    assert 2 == repository.take(rows=[*kept, judged], started_at="2026-01-02T00:00:00Z").revision
    with pytest.raises(RefusedError, match="is not of an evaluator whose rows are taken"):
        repository.take(rows=[{**kept[0], "labels": ["general"]}, kept[1], judged])


def test_a_row_whose_second_evaluation_came_later_is_not_replaced_by_one_recorded_late(repository):
    rows = json.loads(repository.evaluate().read_text())["rows"]
    rows[0]["second"]["finished_at"] = "2026-01-02T00:00:00Z"
    later = repository.take(rows=rows)
    assert later == repository.take() == repository.recorded


def parts_of(work, folder, changed):
    """Two parts of a work file, a row each; the second changed."""
    whole = json.loads(work.read_text())
    for at, row in enumerate(whole["rows"][:2]):
        part = {**whole, "rows": [row], "gpu_seconds": row["gpu_seconds"], "cpu_seconds": row["cpu_seconds"]}
        (folder / f"part-{at}.json").write_text(json.dumps(part | (changed if at else {})))
    return [folder / "part-0.json", folder / "part-1.json"]


def test_a_part_of_another_version_of_the_submission_is_refused_by_itself(repository, tmp_path):
    ended = repository.record(*parts_of(repository.evaluate(), tmp_path, {"submission_sha256": "0" * 64}))
    assert "the file changed since" in ended.stderr
    assert [str(row.key) for row in repository.recorded.rows] == ["level_1_problem_1_sample_0"]


def test_a_part_whose_seconds_are_not_its_rows_is_refused_by_itself(repository, tmp_path):
    parts = parts_of(repository.evaluate(), tmp_path, {"gpu_seconds": 0.25})
    for ordered in (parts, parts[::-1]):
        assert 2 == len(joined({path: read_work_file(path) for path in ordered}, repository.data))
    ended = repository.record(*parts)
    assert "gpu_seconds must be the rows' sum" in ended.stderr
    assert [str(row.key) for row in repository.recorded.rows] == ["level_1_problem_1_sample_0"]


def test_parts_that_contradict_each_other_are_recorded_in_their_order(repository, tmp_path):
    repository.evaluate(evaluator="a" * 64).rename(tmp_path / "first.json")
    repository.evaluate(evaluator="b" * 64).rename(tmp_path / "second.json")
    ended = repository.record(tmp_path / "first.json", tmp_path / "second.json")
    assert [line.split(" revision ")[1][0] for line in ended.stdout.splitlines()] == ["1", "2"]
    assert {row.evaluator_sha256 for row in repository.recorded.rows} == {"b" * 64}


@pytest.mark.parametrize(("after", "stands"), [("a", "mismatch"), ("b", "infra_error")])
def test_a_lost_container_takes_a_verdict_away_only_where_another_evaluator_gave_it(
    repository, after, stands
):
    repository.record(repository.evaluate(evaluator="a" * 64))
    work = repository.evaluate(evaluator=after * 64)
    text = json.loads(work.read_text())
    lost = next(row for row in text["rows"] if row["status"] == "mismatch")
    lost["status"], lost["failure"] = (
        "infra_error",
        {"name": "OracleLost", "message": "the machine went away"},
    )
    work.write_text(json.dumps(text))
    ended = repository.record(work)
    assert ended.returncode == 0, ended.stderr
    verdicts = [(row.status, row.evaluator_sha256[0]) for row in repository.recorded.rows]
    assert verdicts == [("correct", after), ("correct", after), (stands, after)]


@pytest.mark.parametrize("evaluator", ["a", "b"])
def test_what_is_recorded_late_brings_back_no_verdict_that_was_judged_since(repository, evaluator):
    work = repository.evaluate(evaluator="a" * 64)
    work.write_text(work.read_text().replace("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"))
    repository.record(work)
    before = repository.recorded
    ended = repository.record(repository.evaluate(evaluator=evaluator * 64))
    assert "unchanged" in ended.stdout, ended.stderr
    assert before == repository.recorded


def test_two_writers_cannot_record_at_once(repository):
    work = repository.evaluate()
    repository.data.mkdir()
    with store.locked_folder(repository.data):
        ended = repository.record(work)
    assert ended.returncode == 1
    assert "another process is writing it" in ended.stderr
    assert repository.files() == []


def change(*path, to):
    def edit(data):
        for name in path[:-1]:
            data = data[name]
        data[path[-1]] = to

    return edit


def other_environment(data):
    (name,) = data["environments"]
    data["environments"][name]["device"] = "NVIDIA H100 80GB HBM3"


def other_driver(data):
    (name,) = data["environments"]
    data["environments"][name]["driver"] = "999.1"


FORGERIES = {
    "a faster claim": (change("rows", 0, "speedup", to=9.0), "speedup must follow from the rounds"),
    "a faster claim with its interval": (
        lambda d: d["rows"][0].update(speedup=9.0, speedup_ci95=[8.9, 9.1]),
        "which give 2, got 9",
    ),
    "correct without all trials": (
        change("rows", 0, "trials_passed", to=4),
        "every trial passed, got 4 of 5",
    ),
    "correct without any trial": (
        lambda d: d["rows"][0].update(trials_passed=0, trials_asked=0),
        "correct needs at least 5 trials, got 0",
    ),
    "correct beyond the tolerance": (change("rows", 0, "worst_error", to=1.5), "worst_error at most 1"),
    "a mismatch called correct": (
        lambda d: d["rows"][2].update(status="correct", trials_passed=5),
        "must carry a speedup",
    ),
    "a failure with times": (
        lambda d: d["rows"][2].update(runtime_ms=d["rows"][0]["runtime_ms"]),
        "must not carry times",
    ),
    "another kernel's row": (change("rows", 0, "kernel_sha256", to="0" * 64), "not the submission's kernel"),
    "another problem": (change("rows", 0, "problem_sha256", to="0" * 64), "not the problem's at full size"),
    "reduced sizes called full": (change("sizes", to="reduced"), "not the problem's at reduced size"),
    "a kernel that was never sent": (
        change("rows", 2, "key", to="level_1_problem_9_sample_0"),
        "no such kernel",
    ),
    "another submission": (change("submission_sha256", to="0" * 64), "the file changed since"),
    "another profile": (change("profile", to="compat"), "profile must be ranked"),
    "another GPU's board": (change("gpu", to="H100"), "must have gpu 'H100', got 'H200'"),
    "another device under the name": (other_environment, "'NVIDIA H100 80GB HBM3' is not the board's H200"),
    "another driver under the name": (other_driver, "environment [0-9a-f]+ does not have that digest"),
    "less time spent": (change("gpu_seconds", to=0.5), "gpu_seconds must be the rows' sum 3"),
    "an entry that climbs out": (change("entry", to="../../x"), r"\$\.entry"),
    "an unknown field": (change("rows", 0, "bonus", to=1), "'bonus' was unexpected"),
    "a status of its own": (change("rows", 0, "status", to="excellent"), "'excellent' is not one of"),
    "a negative time": (change("rows", 0, "runtime_ms", "median", to=-1), r"runtime_ms\.median"),
    "times out of order": (change("rows", 0, "runtime_ms", "max", to=0.1), "runtime_ms must follow"),
    "rows out of order": (lambda d: d["rows"].reverse(), "sorted by key"),
    "an old schema": (change("schema_version", to=0), "schema_version"),
    "an end before the beginning": (
        change("finished_at", to="2026-01-01T00:00:00Z"),
        "finished_at must not be before started_at",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_work_file_is_refused_with_its_reason(repository, name):
    edit, message = FORGERIES[name]
    work = repository.evaluate()
    data = json.loads(work.read_text())
    edit(data)
    work.write_text(json.dumps(data))
    assert re.search(message, repository.refuse(work))


def test_a_correct_kernel_that_is_wrong_on_other_shapes_is_recorded_with_its_error_there(repository):
    said = {"batch_size = 3": "wrong: 11.9 times the tolerance", "inputs transposed in memory": "right"}
    work = repository.evaluate()
    rows = json.loads(work.read_text())["rows"]
    rows[0].update(worst_error=11.9, elsewhere=said)
    taken = repository.take(rows=rows).rows[0]
    assert (taken.status, taken.worst_error, taken.elsewhere) == ("correct", 11.9, said)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not strict JSON"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ('{"gpu_seconds": NaN}', "NaN is no JSON number"),
        ('{"gpu_seconds": 1e999}', "too large"),
        ("[" * 100_000, "not strict JSON"),
        ("[]", "not of type 'object'"),
    ],
)
def test_a_file_that_is_no_strict_json_is_refused(repository, text, message):
    work = repository.folder / "work.json"
    work.write_text(text)
    assert message in repository.refuse(work)


def test_everything_wrong_is_said_at_once(repository):
    work = repository.evaluate()
    data = json.loads(work.read_text())
    data.update(profile="compat", gpu_seconds=0.5)
    work.write_text(json.dumps(data))
    stderr = repository.refuse(work)
    assert "profile must be ranked" in stderr
    assert "gpu_seconds must be" in stderr


def test_no_more_is_looked_for_in_a_work_file_than_can_be_told(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"rows": [0] * 5000}))

    with pytest.raises(RefusedError, match="980 more") as refused:
        read_work_file(path)
    assert len(refused.value.problems) == 1000
