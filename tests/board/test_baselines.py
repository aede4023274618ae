"""PyTorch's own times: what is read from KernelBench's files, and what is kept."""

import json
from pathlib import Path

import pytest
from kernel_evaluator.baselines import dump_baseline
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.files.baseline_files import read_baseline
from leaderboard.files.store import StoreError

SHIPPED = Path(__file__).parents[2] / "baselines"
PUBLISHED = SHIPPED / "published" / "times"


def stats(mean, **more):
    return {
        "mean": mean,
        "std": 0.1,
        "min": mean * 0.9,
        "max": mean * 1.1,
        "num_trials": 100,
        "hardware": "NVIDIA H200",
        "device": "cuda:0",
        **more,
    }


def import_files(folder, eager, compiled=None, *more):
    options = ["--source", "ours", "--out", str(folder / "baselines"), *more]
    for name, content in (("eager", eager), ("compiled", compiled)):
        if content is not None:
            path = folder / f"{name}.json"
            path.write_text(json.dumps(content))
            options += [f"--{name}", str(path)]
    return CliRunner().invoke(app, ["baseline", "import", *options])


def test_names_count_with_and_without_their_ending_and_null_is_left_out(tmp_path):
    eager = {"level1": {"19_ReLU.py": stats(4.0), "20_LeakyReLU.py": None}, "level2": {}}
    compiled = {"level1": {"19_ReLU": stats(3.0, median=2.9), "20_LeakyReLU": stats(2.0)}}
    ended = import_files(tmp_path, eager, compiled)
    assert ended.exit_code == 0, ended.stderr
    baseline = read_baseline(tmp_path / "baselines" / "H200.json")
    relu, leaky = baseline.problems["1_19"], baseline.problems["1_20"]
    assert (relu.eager.typical, relu.eager.median, relu.compiled.typical) == (4.0, None, 2.9)
    assert (leaky.eager, leaky.compiled.mean) == (None, 2.0)
    assert (baseline.measured_here, baseline.source, baseline.environment.device) == (
        False,
        "ours",
        "NVIDIA H200",
    )


def test_own_times_are_marked_as_such(tmp_path):
    import_files(tmp_path, {"level1": {"19_ReLU.py": stats(4.0)}}, None, "--measured-here")
    assert read_baseline(tmp_path / "baselines" / "H200.json").measured_here


def test_a_file_read_and_written_again_is_the_same(tmp_path):
    for path in (*SHIPPED.glob("*.json"), *PUBLISHED.glob("*.json")):
        assert dump_baseline(read_baseline(path)) == path.read_text()


@pytest.mark.parametrize(
    ("eager", "message"),
    [
        ({"level1": {"19_Softmax.py": stats(1.0)}}, "lacks 1 of the names, first level 1 19_Softmax"),
        ({"level1": {"19_ReLU.py": stats(-1.0)}}, "mean must be positive milliseconds, got -1.0"),
        ({"runs": {}}, "keys like level1, got 'runs'"),
        (
            {"level1": {"19_ReLU.py": {"mean": 1.0, "hardware": "NVIDIA H200"}}},
            "eager.json: a time of KernelBench's has a field 'std'",
        ),
        ({"level1": []}, "eager.json: not timing files of KernelBench's: "),
        ({"level1": {"19_ReLU.py": None}}, "must name one device, got []"),
        (None, "give --eager, --compiled or both"),
    ],
)
def test_a_broken_timing_file_is_refused_with_its_reason(tmp_path, eager, message):
    ended = import_files(tmp_path, eager)
    assert ended.exit_code == 2
    assert message in ended.stderr
    assert not (tmp_path / "baselines").exists()


def test_times_of_two_devices_do_not_mix(tmp_path):
    ended = import_files(
        tmp_path,
        {"level1": {"19_ReLU": stats(1.0)}},
        {"level1": {"19_ReLU": stats(1.0, hardware="NVIDIA H100 PCIe")}},
    )
    assert "must name one device, got ['NVIDIA H100 PCIe', 'NVIDIA H200']" in ended.stderr


def test_times_keep_the_precision_and_the_sizes_at_which_they_were_taken(tmp_path):
    half = {"level1": {"19_ReLU": stats(1.0, precision="bf16")}}
    assert 0 == import_files(tmp_path, half).exit_code
    assert "bf16" == read_baseline(tmp_path / "baselines" / "H200-bf16.json").precision
    ended = import_files(tmp_path, half, {"level1": {"19_ReLU": stats(1.0)}})
    assert (2, True) == (ended.exit_code, "their times are in bf16 and fp32" in ended.stderr), ended.stderr
    import_files(tmp_path, {"level1": {"19_ReLU": stats(1.0, hardware="AMD EPYC", device="cpu")}})
    assert "reduced" == read_baseline(tmp_path / "baselines" / "CPU.json").sizes


def test_a_baseline_under_another_gpus_name_is_refused(tmp_path):
    path = tmp_path / "H200.json"
    path.write_text((SHIPPED / "H100.json").read_text())
    with pytest.raises(StoreError, match="says it is for H100"):
        read_baseline(path)


def test_published_figures_are_complete_and_say_that_they_were_not_measured_here():
    baseline = read_baseline(PUBLISHED / "H100.json")
    assert len(baseline.problems) == 250
    assert all(times.eager and times.compiled for times in baseline.problems.values())
    assert not baseline.measured_here
    assert "not measured here" in baseline.source
    for level, total in ((1, 583), (2, 562), (3, 697)):
        of_level = [times for name, times in baseline.problems.items() if name.startswith(f"{level}_")]
        assert round(sum(times.eager.mean for times in of_level)) == total


def test_a_part_does_not_take_the_place_of_the_whole(tmp_path):
    whole = tmp_path / "H200.json"
    whole.write_bytes((SHIPPED / "H200.json").read_bytes())
    part = str(SHIPPED.parent / "data/results/H200/first-light.json")
    done = CliRunner().invoke(app, ["baseline", "from-result", part, "--out", str(tmp_path)])
    assert 2 == done.exit_code
    assert "times that these lack, compiled 1_1 first; give all at once, or another --out" in done.output
    assert whole.read_bytes() == (SHIPPED / "H200.json").read_bytes()
    level = {"level1": {"19_ReLU.py": stats(3.0)}}
    assert 0 == import_files(tmp_path, level, level).exit_code
    again = import_files(tmp_path, level)
    assert (2, True) == (again.exit_code, "1 times that these lack, compiled 1_19 first" in again.output)
    assert read_baseline(tmp_path / "baselines" / "H200.json").problems["1_19"].compiled


def test_a_baseline_is_shown_with_its_source():
    output = CliRunner().invoke(app, ["baseline", "show", str(PUBLISHED / "H100.json")]).output
    assert output.startswith("H100: NVIDIA H100 80GB HBM3; Published by")
    assert "1/19" in output


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.json")), ids=lambda path: path.stem)
def test_what_is_shipped_follows_from_the_recorded_rows(tmp_path, path):
    results = SHIPPED.parent / "data" / "results" / path.stem
    ending = "-bf16" if path.stem.endswith("-bf16") else ""
    paths = [results / f"{entry}{ending}.json" for entry in ("pytorch-eager", "torch-compile")]
    entries = [str(path) for path in paths if path.is_file()]
    done = CliRunner().invoke(app, ["baseline", "from-result", *entries, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / path.name).read_bytes() == path.read_bytes()
