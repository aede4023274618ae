"""What `kbl validate` says of whole runs, and what the rest of the pipeline reads from a fine submission."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from commandline import kbl
from kernel_evaluator.records.keys import MAX_SAMPLE, PROBLEM_COUNTS, KernelKey

from leaderboard.checks.fields import SCHEMA_PATH
from leaderboard.checks.report import check_bytes, validate_file
from leaderboard.files.submission import InvalidSubmissionError, load

KEY = "level_1_problem_1_sample_0"
FINE = {"metadata": {"display_name": "Fine"}, "kernels": {KEY: "class ModelNew: ..."}}

FULL_METADATA = {
    "display_name": "Ångström 1 “beta”",
    "organization": "An institute",
    "run_name": "run 7",
    "notes": "two\nlines",
    "url": "https://example.org/run?a=1#b",
    "backend": "cuda",
    "precision": "fp32",
    "generation": {
        "model": "m",
        "temperature": 0.7,
        "samples": 10,
        "scaffold": "none",
        "cost_usd": 12.5,
        "tokens": 10**9,
    },
    "license": "MIT",
    "baseline": False,
}

BINDINGS = {
    "a class": "class ModelNew: ...",
    "a decorated class": "@d\nclass ModelNew(Model): ...",
    "under a condition": "if triton:\n  class ModelNew: ...\nelse:\n  class ModelNew: ...",
    "in a try": "try:\n  import triton\nexcept ImportError:\n  class ModelNew: ...",
    "an assignment": "ModelNew = make()",
    "an annotated assignment": "ModelNew: type = Model",
    "one of several targets": "Model, (ModelNew, *rest) = make()",
    "an import under another name": "from torch.nn import Identity as ModelNew",
    "with": "with open(x) as ModelNew: ...",
    "for": "for ModelNew in [Model]: ...",
    "a function that builds one": "def ModelNew(): ...",
    "with a UTF-8 coding comment": "# -*- coding: utf-8 -*-\nclass ModelNew: ...",
    "with text that is no coding comment": "x = 1\n# coding: utf-7\nclass ModelNew: ...",
    "with such a comment where none counts": "#\n#\n# coding: utf-7\nclass ModelNew: ...",
    "of 512 KiB": "class ModelNew: ...".ljust(512 * 1024),
    "with an invalid escape": "x = '\\d'\nclass ModelNew: ...",
    "with native code in a string": 'code = """__global__ void f(float* x) {}"""\nclass ModelNew: ...',
}


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), "utf-8")
    return path


@pytest.mark.parametrize("source", BINDINGS.values(), ids=BINDINGS.keys())
def test_every_way_to_bind_modelnew_is_accepted(source: str) -> None:
    raw = json.dumps({**FINE, "kernels": {KEY: source}}).encode()

    report = check_bytes(raw, Path("entry.json"))

    assert ((), ()) == (report.mistakes, report.warnings)


def test_a_folder_is_checked_to_the_end_whatever_its_first_file_is(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xff")
    (tmp_path / "b.json").mkdir()
    (tmp_path / "c.json").symlink_to("/etc/passwd")
    (tmp_path / "d.json").write_bytes(b"[" * 100_000)
    write(tmp_path / "e.json", FINE)
    (tmp_path / "README.md").write_text("not a submission")

    done = kbl("validate", tmp_path)

    assert (1, "") == (done.returncode, done.stderr)
    assert "e.json: fine, 1 kernel" in done.stdout
    assert 2 == done.stdout.count("file-kind: a submission must be a regular file")
    assert "1 of 5 submissions fine; 4 mistakes to mend" == done.stdout.splitlines()[-1]


def test_a_folder_without_a_submission_is_no_success_unless_it_is_kept_for_them(tmp_path: Path) -> None:
    done = kbl("validate", tmp_path)
    (tmp_path / "README.md").touch()  # as in a board's own folder before its first entry
    kept = kbl("validate", tmp_path)

    assert (2, True) == (done.returncode, "there is no submission in this folder" in done.stdout), done.stdout
    assert (0, "0 of 0 submissions fine\n") == (kept.returncode, kept.stdout)


def test_twenty_mistakes_of_a_file_are_listed_or_all(tmp_path: Path) -> None:
    path = write(
        tmp_path / "e.json", FINE | {"kernels": dict.fromkeys(map(str, range(30)), "class ModelNew: ...")}
    )

    few, every = kbl("validate", path), kbl("validate", path, "--all")

    assert (20, 30) == (few.stdout.count(" field: "), every.stdout.count(" field: "))
    assert "and 10 more mistakes; --all lists them" in few.stdout and "more mistakes" not in every.stdout
    assert "0 of 1 submission fine; 30 mistakes to mend" == few.stdout.splitlines()[-1]


def test_kernels_that_will_not_compile_are_warned_of_and_sent(tmp_path: Path) -> None:
    kernels = {f"level_1_problem_{at}_sample_0": "def" for at in range(1, 31)}
    path = write(tmp_path / "e.json", FINE | {"kernels": kernels})

    done, annotated = kbl("validate", path), kbl("validate", path, "--format", "github")

    assert (0, "1 of 1 submission fine") == (done.returncode, done.stdout.splitlines()[-1])
    assert 20 == done.stdout.count("warning: kernel-syntax: ") == annotated.stdout.count("::warning ")
    assert "and 10 more warnings; --all lists them" in done.stdout
    assert "; it will fail to compile" in done.stdout


def test_samples_without_the_one_that_is_scored_are_pointed_out(tmp_path: Path) -> None:
    source = next(iter(FINE["kernels"].values()))
    keys = ("level_1_problem_19_sample_1", "level_1_problem_20_sample_0", "level_1_problem_20_sample_1")
    path = write(tmp_path / "e.json", FINE | {"kernels": dict.fromkeys(keys, source)})

    done = kbl("validate", path)

    assert 0 == done.returncode
    assert "    note: 1/19 has samples but no sample 0, which alone is scored" in done.stdout
    assert "1/20" not in done.stdout
    note = "1/19 has samples but no sample 0, which alone is scored; others serve pass@k"
    assert (
        f"::warning file={path},title=unscored::{note}" in kbl("validate", path, "--format", "github").stdout
    )


@pytest.mark.parametrize(("count", "said"), [(10, "1/9, 1/10 have"), (11, "1/9, 1/10, … have")])
def test_ten_problems_without_the_sample_that_is_scored_are_named(
    count: int, said: str, tmp_path: Path
) -> None:
    kernels = {f"level_1_problem_{at}_sample_1": FINE["kernels"][KEY] for at in range(1, count + 1)}
    assert said in kbl("validate", write(tmp_path / "e.json", FINE | {"kernels": kernels})).stdout


def test_a_missing_file_gives_status_two_and_the_others_are_still_checked(tmp_path: Path) -> None:
    fine = write(tmp_path / "fine.json", FINE)

    done = kbl("validate", tmp_path / "missing.json", fine, tmp_path / ("x" * 300))

    assert 2 == done.returncode
    assert 2 == done.stdout.count("readable: cannot be read: ")
    assert "fine.json: fine" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_an_unreadable_file_is_the_machines_fault_not_the_authors() -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = write(Path(folder) / "secret.json", FINE)
        path.chmod(0)
        as_root = os.geteuid() == 0
        try:
            if as_root:
                os.seteuid(65534)
            report = validate_file(path)
        finally:
            if as_root:
                os.seteuid(0)

    assert report.unreadable
    assert "cannot be read: Permission denied" == report.mistakes[0].message


def test_no_path_is_a_usage_error() -> None:
    assert 2 == kbl("validate").returncode


def test_fine_submissions_give_status_zero(tmp_path: Path) -> None:
    write(tmp_path / "a.json", FINE)
    write(tmp_path / "b.json", {**FINE, "metadata": FULL_METADATA})

    done = kbl("validate", tmp_path)

    assert (0, "2 of 2 submissions fine") == (done.returncode, done.stdout.splitlines()[-1])


def test_github_annotations_cannot_be_forged_by_a_submission(tmp_path: Path) -> None:
    name = "a%,:\n::set-env name=X::1.json"
    write(tmp_path / name, {**FINE, "evil\n::error::100%": 1})

    done = kbl("validate", "--format", "github", tmp_path)

    commands = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert 2 == len(commands)
    assert all(line.startswith("::error file=") for line in commands)
    assert "a%25%2C%3A\\n%3A%3Aset-env name=X%3A%3A1.json,line=1,col=" in commands[0]
    assert "'evil\\n::error::100%25'" in commands[1]


@pytest.mark.parametrize(
    ("backend", "mend"),
    [
        ("heliom", "write helion"),
        ("triton + cutlas", "write cutlass"),
        ("tvm_ffi", None),
        ("C++ and PyTorch", None),
        ("triton+cuda", None),
        ("Fortran", "the image has pytorch, "),
        (7, None),
    ],
)
def test_a_backend_that_the_image_lacks_is_pointed_at_with_the_nearest_name(
    backend: object, mend: str | None
) -> None:
    metadata = {**FULL_METADATA, "backend": backend}
    report = check_bytes(json.dumps({**FINE, "metadata": metadata}).encode(), Path("entry.json"))

    assert isinstance(backend, str) == report.is_fine, "it is a warning"
    pointed = [each for each in report.warnings if each.rule == "backend"]
    assert ([] if mend is None else [True]) == [each.mend.startswith(mend or "") for each in pointed]


def test_a_kernel_whose_reference_does_not_run_in_its_precision_is_pointed_at(tmp_path: Path) -> None:
    kernels = {f"level_3_problem_{at}_sample_0": next(iter(FINE["kernels"].values())) for at in (33, 34)}
    for precision, count in (("bf16", 1), (" BF16", 1), ("fp32", 0)):
        metadata = {**FINE["metadata"], "precision": precision}
        done = kbl("validate", write(tmp_path / "e.json", {"metadata": metadata, "kernels": kernels}))
        said = "warning: reference: level_3_problem_33_sample_0 is of a problem whose reference does not run in bf16"
        assert (0, count) == (done.returncode, done.stdout.count(said)), done.stdout
        assert count == done.stdout.count("mend: leave it out")
    metadata["precision"] = "bfloat16"
    done = kbl("validate", write(tmp_path / "e.json", {"metadata": metadata, "kernels": kernels}))
    assert (
        "warning: precision: metadata.precision is 'bfloat16', of which there is no board: fp32"
        in done.stdout
    )
    assert 0 == done.returncode and "mend: write fp32 or bf16" in done.stdout


def test_json_output_is_one_document_that_a_program_can_read(tmp_path: Path) -> None:
    write(tmp_path / "a.json", {**FINE, "extra": 1})
    write(tmp_path / "b.json", FINE)

    done = kbl("validate", "--format", "json", tmp_path)

    report = json.loads(done.stdout)
    assert [["field"], []] == [[mistake["rule"] for mistake in file["mistakes"]] for file in report["files"]]
    assert (False, 1) == (report["fine"], done.returncode)


def test_a_submission_is_loaded_with_its_digest_and_sorted_kernels(tmp_path: Path) -> None:
    keys = ["level_2_problem_3_sample_0", "level_1_problem_10_sample_1", "level_1_problem_9_sample_0"]
    path = write(tmp_path / "my-run.json", {"metadata": FULL_METADATA, "kernels": dict.fromkeys(keys, "1 +")})

    submission = load(path)

    assert ("my-run", hashlib.sha256(path.read_bytes()).hexdigest()) == (submission.entry, submission.sha256)
    assert [KernelKey(1, 9, 0), KernelKey(1, 10, 1), KernelKey(2, 3, 0)] == list(submission.kernels)
    assert FULL_METADATA == submission.metadata


def test_empty_fields_of_the_earlier_boards_tools_are_accepted_and_dropped(tmp_path: Path) -> None:
    metadata = {"display_name": "Fine", "organization": None, "run_name": "", "notes": ""}

    submission = load(write(tmp_path / "earlier.json", {**FINE, "metadata": metadata}))

    assert {"display_name": "Fine"} == submission.metadata


def test_loading_an_invalid_submission_raises_its_mistakes(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.json", {**FINE, "extra": 1, "more": 2})

    with pytest.raises(InvalidSubmissionError, match=r"bad.json:1:\d+: .*'extra'.* \(and 1 more") as caught:
        load(path)

    assert 2 == len(caught.value.mistakes)


def test_the_published_schema_allows_exactly_the_keys_that_exist() -> None:
    from jsonschema import Draft202012Validator

    schema = json.loads(SCHEMA_PATH.read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    allows = Draft202012Validator(schema["properties"]["kernels"]["propertyNames"]).is_valid

    for level in range(6):
        for problem in range(103):
            exists = 1 <= problem <= PROBLEM_COUNTS.get(level, 0)
            assert exists == allows(f"level_{level}_problem_{problem}_sample_0"), (level, problem)
    assert [True] * (MAX_SAMPLE + 1) == [
        allows(f"level_1_problem_1_sample_{n}") for n in range(MAX_SAMPLE + 1)
    ]
    assert not allows(f"level_1_problem_1_sample_{MAX_SAMPLE + 1}")
