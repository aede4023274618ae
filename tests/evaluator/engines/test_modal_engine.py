"""The engine `modal`, with the real client, against a server that speaks Modal's protocol."""

import dataclasses
import gc
import hashlib
import itertools
import json
import os
import pickle
import re
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("modal")

from fakes.fake_modal import Crashed, FakeModal, Lost, Raw, serve
from kernel_evaluator.engines import epoch, image
from kernel_evaluator.engines.modal import ModalEngine
from kernel_evaluator.engines.wire import (
    MAX_REQUEST_BYTES,
    Answer,
    RefusedAnswerError,
    pack_answer,
    pack_request,
    read_answer,
    read_builds_of,
    read_request,
)
from kernel_evaluator.machine.figures import gpus
from kernel_evaluator.problems.jobs import Job, Settings, Verdict
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, Failure, Row, Status, Timing
from kernel_evaluator.records.version import evaluator_sha256
from typer.testing import CliRunner

from leaderboard.cli import app

H100 = Environment(device="NVIDIA H100 80GB HBM3", gpu="H100")
PROBLEM = ProblemSet().load(1, 19)
TIMING = Timing(median=1.0, mean=1.0, std=0.0, min=1.0, max=1.0, n=9)
PLAIN = "class ModelNew: pass  # "
COMPILED = "from torch.utils.cpp_extension import load_inline\nmodule = load_inline('m', 'x')\nclass ModelNew: pass\n"
TRITON = "import triton\n@triton.jit\ndef f(): pass\nclass ModelNew: pass\n"


@pytest.fixture(scope="module")
def server() -> Iterator[FakeModal]:
    """One server for the module: the client keeps its connection for the life of the process.

    Hypothesis leaves a callback with the garbage collector, and with it client and server wait for each other
    for ever now and then, where a file of the same process has used it before.
    """
    fake, left = FakeModal({}), gc.callbacks[:]
    gc.callbacks.clear()
    with serve(fake) as url, pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("MODAL_SERVER_URL", url)
        yield fake
    gc.callbacks[:] = left


@pytest.fixture
def fake(server: FakeModal) -> FakeModal:
    server.functions = {"judge_kernels": judge_all, "build_kernels": lambda request: "{}"}
    server.attempts.clear()
    return server


@pytest.fixture(scope="module")
def one_run(server: FakeModal) -> tuple[FakeModal, dict[KernelKey, Row], int]:
    """One run of 250 kernels: the server, the rows, and how many calls it took."""
    server.functions = {"judge_kernels": judge_all, "build_kernels": lambda request: "{}"}
    server.attempts.clear()
    rows = run(jobs(250))
    return server, rows, server.attempts["judge_kernels"]


def jobs(count: int, source: str = PLAIN) -> list[Job]:
    keys = [KernelKey(level, i) for level, most in ((1, 100), (2, 100), (3, 50)) for i in range(1, most + 1)]
    return [Job(key=key, source=f"{source}{key}\n", problem=PROBLEM) for key in keys[:count]]


def verdict(job: Job, status: Status = Status.CORRECT) -> Verdict:
    row = Row(
        key=job.key,
        status=status,
        kernel_sha256=job.kernel_sha256,
        problem_sha256=job.problem.sha256,
        evaluator_sha256=evaluator_sha256(),
        gpu_seconds=1.0,
    )
    if status is Status.CORRECT:
        timed = {"runtime_ms": TIMING, "reference_ms": TIMING, "speedup": 1.0, "speedup_ci95": (1.0, 1.0)}
        row = dataclasses.replace(row, trials_passed=5, trials_asked=5, **timed)
    else:
        row = dataclasses.replace(row, failure=Failure(name=status.value, message="as asked"))
    return Verdict(row=row, environment=H100)


def judge_all(request: str, status: Status = Status.CORRECT) -> str:
    asked, _ = read_request(request)
    return pack_answer(Answer(verdicts=tuple(verdict(job, status) for job in asked), seconds=2.0))


def run(asked: list[Job], **options: object) -> dict[KernelKey, Row]:
    return {found.row.key: found.row for found in ModalEngine(**options).run(asked, Settings())}


def test_250_kernels_are_judged_each_once_in_shared_containers(one_run) -> None:
    _, rows, calls = one_run

    assert {job.key for job in jobs(250)} == set(rows)
    assert {Status.CORRECT} == {row.status for row in rows.values()}
    assert -(-250 // epoch.KERNELS_PER_CALL) == calls


def test_no_more_calls_are_open_at_once_than_there_may_be_gpus(fake: FakeModal) -> None:
    lock, open_now, most = threading.Lock(), [0], [0]
    full = threading.Event()

    def counting(request: str) -> str:
        with lock:
            open_now[0] += 1
            most[0] = max(most[0], open_now[0])
            if open_now[0] == epoch.MAX_GPUS:
                full.set()
        full.wait(60)
        with lock:
            open_now[0] -= 1
        return judge_all(request)

    fake.functions["judge_kernels"] = counting
    run(jobs(250))

    assert epoch.MAX_GPUS == most[0]


@pytest.mark.parametrize("name", ["judge_kernels", "build_kernels"])
def test_the_isolation_of_both_functions_reaches_the_wire(one_run, name: str) -> None:
    definition = one_run[0].definitions[name]

    assert definition.block_network
    assert definition.untrusted
    assert definition.single_use_containers
    assert not definition.secret_ids
    assert not definition.volume_mounts
    assert [4] == list(definition.supported_output_formats)  # CBOR alone


def test_the_gpu_its_limits_and_the_cap_reach_the_wire(one_run) -> None:
    definitions = one_run[0].definitions
    judging, building = definitions["judge_kernels"], definitions["build_kernels"]

    assert "H100!" == judging.resources.gpu_config.gpu_type
    assert "" == building.resources.gpu_config.gpu_type
    assert 3600 == judging.timeout_secs
    assert 1200 == building.timeout_secs
    assert 900 == judging.startup_timeout_secs
    assert epoch.MAX_GPUS == judging.autoscaler_settings.max_containers
    assert 1 == judging.retry_policy.retries


def test_the_image_pins_everything_that_it_installs(one_run) -> None:
    commands = "\n".join(command for image in one_run[0].images for command in image.dockerfile_commands)

    assert f"FROM {epoch.BASE_IMAGE}" in commands
    assert f"uv:{epoch.UV}" in commands
    assert ":latest" not in commands


def test_modals_image_and_the_containerfile_come_from_the_same_list(one_run, repository) -> None:
    images = one_run[0].images
    commands = "\n".join(command for made in images for command in made.dockerfile_commands)
    sent = [each.data for made in images for each in made.context_files]
    containerfile = (repository / "Containerfile").read_text("utf-8")

    assert image.containerfile() == containerfile, "run: make containerfile"
    assert image.LOCK.read_bytes() in sent
    assert f"ARG LOCK={image.LOCK.relative_to(repository)}" in containerfile
    wanted = [epoch.BASE_IMAGE, *epoch.SYSTEM_PACKAGES, *image.commands(), *image.environment().values()]
    assert [] == [each for each in wanted if each not in containerfile or each not in commands]


def test_the_lock_of_the_image_holds_each_part_at_its_version_and_all_by_hash() -> None:
    lines = image.LOCK.read_text("utf-8").splitlines()
    locked = {line.partition(" ")[0] for line in lines}

    assert all(re.fullmatch(r"\S+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    for part in epoch.PARTS:
        assert f"{part.distribution}=={part.pin.rpartition('=')[2]}" in locked, "run: make lock"


def test_an_unpinned_base_is_left_out_and_not_guessed() -> None:
    text = image.containerfile()

    assert bool(epoch.BASE_DIGEST) == (f"@{epoch.BASE_DIGEST}" in text and "@sha256:" in text)


@pytest.mark.parametrize("is_what_was_pinned", [True, False])
def test_an_archive_is_unpacked_only_if_it_is_what_was_pinned(
    is_what_was_pinned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "package-1.0.tar.gz"
    with tarfile.open(packed, "w:gz") as file:
        file.add(__file__, "package-1.0/headers/include/all.cuh")
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    archive = dataclasses.replace(
        epoch.ARCHIVES[0],
        url=packed.as_uri(),
        sha256=digest if is_what_was_pinned else digest[::-1],
        folder=str(tmp_path / "unpacked"),
        headers="headers",
    )
    monkeypatch.setattr(epoch, "ARCHIVES", (archive,))
    command = list(image.commands())[-1]

    ended = subprocess.run(["sh", "-c", command], check=False, capture_output=True, text=True)

    headers = Path(image.environment()[archive.variable])
    assert is_what_was_pinned == (ended.returncode == 0) == (headers / "include/all.cuh").is_file(), (
        ended.stderr
    )
    assert is_what_was_pinned or "FAILED" in ended.stdout


def test_the_evaluator_itself_travels_with_the_image(one_run) -> None:
    mounted = one_run[0].mounted

    assert "/opt/KernelBench/kernel_evaluator/engines/worker.py" in mounted
    assert "/opt/KernelBench/figures.json" in mounted
    assert not any("__pycache__" in name or "/." in name for name in mounted)


@pytest.mark.parametrize("fault", [Lost("preempted"), Crashed("exit 137")])
def test_a_lost_container_is_tried_again(fake: FakeModal, fault: Exception) -> None:
    failures = [fault]

    def once_lost(request: str) -> str:
        if failures:
            raise failures.pop()
        return judge_all(request)

    fake.functions["judge_kernels"] = once_lost
    rows = run(jobs(8))

    assert {Status.CORRECT} == {row.status for row in rows.values()}
    assert 2 == fake.attempts["judge_kernels"]


def test_a_kernels_failure_is_final(fake: FakeModal) -> None:
    fake.functions["judge_kernels"] = lambda request: judge_all(request, Status.RUNTIME_ERROR)
    rows = run(jobs(8))

    assert {Status.RUNTIME_ERROR} == {row.status for row in rows.values()}
    assert 1 == fake.attempts["judge_kernels"]


def test_a_kernel_that_kills_every_container_does_not_take_its_neighbours_along(fake: FakeModal) -> None:
    bad = jobs(8)[3].key

    def killed_by_one(request: str) -> str:
        if bad in {job.key for job in read_request(request)[0]}:
            raise TimeoutError("the container did not answer")
        return judge_all(request)

    fake.functions["judge_kernels"] = killed_by_one
    rows = run(jobs(8))

    assert {bad} == {key for key, row in rows.items() if row.status is Status.INFRA_ERROR}
    assert "lost_container" == rows[bad].failure.name


def test_a_fault_of_the_machinery_inside_is_tried_again(fake: FakeModal) -> None:
    answers = [Status.INFRA_ERROR]
    fake.functions["judge_kernels"] = lambda request: judge_all(
        request, answers.pop() if answers else Status.CORRECT
    )

    assert {Status.CORRECT} == {row.status for row in run(jobs(3)).values()}


class LeavesATrace:
    """A pickle that opens a file for writing when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("as_exception", [False, True])
def test_a_pickle_from_a_container_is_never_loaded(
    fake: FakeModal, tmp_path: Path, as_exception: bool
) -> None:
    hostile = pickle.dumps(LeavesATrace(tmp_path / "trace"))

    def taken_over(request: str) -> object:
        if as_exception:
            raise Crashed("boom", hostile)
        return Raw(hostile)

    fake.functions["judge_kernels"] = taken_over
    rows = run(jobs(1))

    assert not (tmp_path / "trace").exists()
    assert [Status.INFRA_ERROR] == [row.status for row in rows.values()]


def test_without_the_guard_the_clients_own_way_would_load_it(fake: FakeModal, tmp_path: Path) -> None:
    from kernel_evaluator.engines.modal_app import app, judge_kernels

    fake.functions["judge_kernels"] = lambda request: Raw(pickle.dumps(LeavesATrace(tmp_path / "trace")))
    with app.run():
        judge_kernels.remote("{}").close()

    assert (tmp_path / "trace").exists()


def answer_of(request: str) -> dict:
    return json.loads(judge_all(request))


def changed(**fields: object):
    def give(request: str) -> str:
        answer = answer_of(request)
        answer["verdicts"][0]["row"].update(fields)
        return json.dumps(answer)

    return give


def without_a_kernel(request: str) -> str:
    answer = answer_of(request)
    return json.dumps({**answer, "verdicts": answer["verdicts"][1:]})


def with_one_twice(request: str) -> str:
    answer = answer_of(request)
    return json.dumps({**answer, "verdicts": answer["verdicts"] * 2})


def on_another_device(request: str) -> str:
    answer = answer_of(request)
    answer["verdicts"][0]["environment"]["device"] = "NVIDIA H200"
    return json.dumps(answer)


HOSTILE = {
    "no text": lambda request: [1, 2],
    "no JSON": lambda request: "Traceback (most recent call last)",
    "NaN": lambda request: judge_all(request).replace("2.0", "NaN", 1),
    "a key twice": lambda request: judge_all(request)[:-1] + ', "fault": ""}',
    "2 MB": lambda request: judge_all(request) + " " * 2_100_000,
    "deep": lambda request: "[" * 100_000,
    "another shape": lambda request: '{"verdicts": {"a": 1}, "seconds": 1, "fault": ""}',
    "a kernel less": without_a_kernel,
    "a kernel twice": with_one_twice,
    "a key that was not sent": changed(key="level_3_problem_50_sample_9"),
    "another kernel's digest": changed(kernel_sha256="0" * 64),
    "another evaluator": changed(evaluator_sha256="0" * 64),
    "another problem": changed(problem_sha256="0" * 64),
    "a status of its own": changed(status="superb"),
    "a field of its own": changed(rank=1),
    "a speedup without times": changed(runtime_ms=None),
    "a figure in words": changed(speedup="fast"),
    "a truth for a figure": changed(gpu_seconds=True),
    "a time in words": changed(runtime_ms={**dataclasses.asdict(TIMING), "mean": "1"}),
    "an interval in words": changed(speedup_ci95=["1", "2"]),
    "labels that are numbers": changed(labels=[1]),
    "a failure that is no text": changed(failure={"name": 1, "message": [], "log": {}}),
    "evidence that is no object": changed(evidence=[1]),
    "negative seconds": changed(gpu_seconds=-1e9),
    "negative seconds of a processor": changed(cpu_seconds=-1e9),
    "seconds that lower the bill": lambda request: json.dumps({**answer_of(request), "seconds": -1e9}),
    "on another device": on_another_device,
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_answer_is_refused(case: str) -> None:
    asked = jobs(2)
    with pytest.raises(RefusedAnswerError):
        read_answer(HOSTILE[case](pack_request(asked, Settings())), asked, "H100")


def test_an_honest_answer_is_read_as_it_was_written() -> None:
    asked = jobs(2)
    answer = read_answer(judge_all(pack_request(asked, Settings())), asked, "H100")

    assert tuple(verdict(job) for job in asked) == answer.verdicts


@pytest.mark.parametrize("case", ["no text", "2 MB", "on another device"])
def test_a_hostile_answer_ends_as_an_infrastructure_error(fake: FakeModal, case: str) -> None:
    fake.functions["judge_kernels"] = HOSTILE[case]
    rows = run(jobs(1))

    assert [Status.INFRA_ERROR] == [row.status for row in rows.values()]
    assert rows[jobs(1)[0].key].failure.name in ("refused_answer", "lost_container")


def test_nothing_is_started_where_the_money_would_not_last_until_the_first_look(fake: FakeModal) -> None:
    rows = run(jobs(250), max_usd=0.5)

    assert {"stopped_at_the_cap"} == {row.failure.name for row in rows.values()}
    assert 0 == fake.attempts["judge_kernels"]


def test_an_evaluation_stops_before_the_cap_and_keeps_what_was_judged(
    fake: FakeModal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epoch, "LOOK_S", 0.05)
    answered = threading.Semaphore(5)

    def five_answer_and_the_rest_hang(request: str) -> str:
        answered.acquire()
        return judge_all(request)

    fake.functions["judge_kernels"] = five_answer_and_the_rest_hang
    seconds, rows = itertools.count(0, 50), {}

    def clock() -> float:  # time stands still until the five are here
        return float(next(seconds)) if len(rows) >= 5 * epoch.KERNELS_PER_CALL else 0.0

    for found in ModalEngine(max_usd=60.0, clock=clock).run(jobs(250), Settings()):
        rows[found.row.key] = found.row
    for _ in range(100):
        answered.release()

    judged = [row for row in rows.values() if row.status is Status.CORRECT]
    assert 5 * epoch.KERNELS_PER_CALL == len(judged)
    assert {"stopped_at_the_cap"} == {row.failure.name for row in rows.values() if row not in judged}


def test_a_bill_comes_at_the_end_with_every_call_by_our_own_clock(fake: FakeModal) -> None:
    answers = [Raw(b"no CBOR"), "no JSON", TimeoutError("lost")]

    def judging(request: str) -> object:
        answer = answers.pop() if answers else judge_all(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    fake.functions["judge_kernels"] = judging
    said: list[tuple[str, dict]] = []
    run(jobs(2), progress=lambda event, facts: said.append((event, facts)))

    name, bill = said[-1]
    assert ("bill", 4) == (name, bill["calls"]), "what the client itself sends again is one call"
    price = epoch.judging_usd_per_second(epoch.price_of("modal", "H100"))
    assert bill["seconds"] * price == pytest.approx(bill["usd"])


def test_eight_large_builds_travel_without_anything_that_a_container_would_have_to_fetch(
    fake: FakeModal,
) -> None:
    """The client puts a larger call into a blob; the server here, as a container without a network, has none."""
    sent: dict[str, str] = {}
    arrived: dict[str, str] = {}

    def building(request: str) -> str:
        name = os.urandom(32).hex()  # a build is named by more than its kernel
        sent[name] = os.urandom(700_000).hex()
        return json.dumps({name: {"build.json": sent[name]}})

    def judging(request: str) -> str:
        assert len(request) <= MAX_REQUEST_BYTES
        arrived.update({name: files["build.json"] for name, files in read_builds_of(request).items()})
        return judge_all(request)

    fake.functions = {"build_kernels": building, "judge_kernels": judging}
    rows = run(jobs(8, COMPILED))

    assert {Status.CORRECT} == {row.status for row in rows.values()}
    assert len(sent) == 8 and sent == arrived


def test_a_kernel_of_the_largest_size_and_the_worst_signs_fits_into_a_call(fake: FakeModal) -> None:
    source = PLAIN + "".join(chr(1 + i % 31) for i in range(512 * 1024 - 100)).replace("\n", " ")

    assert {Status.CORRECT} == {row.status for row in run(jobs(8, source)).values()}


@pytest.mark.parametrize("source", [COMPILED, TRITON], ids=["C++", "Triton"])
def test_what_needs_compiling_is_built_without_a_gpu_and_travels_to_the_judge(
    fake: FakeModal, source: str
) -> None:
    packed = {"a" * 64: {"build.json": "eJwDAAAAAAE="}}
    arrived = []

    def judging(request: str) -> str:
        arrived.append(read_builds_of(request))
        return judge_all(request)

    fake.functions = {"build_kernels": lambda request: json.dumps(packed), "judge_kernels": judging}
    run([*jobs(1), *jobs(2, source)[1:]])

    assert [packed] == arrived
    assert 1 == fake.attempts["build_kernels"]


@pytest.mark.parametrize("answer", ['{"../../etc": {}}', '{"' + "a" * 64 + '": {"../x.so": ""}}'])
def test_a_hostile_build_is_dropped_and_the_judge_builds_for_itself(fake: FakeModal, answer: str) -> None:
    arrived = []

    def judging(request: str) -> str:
        arrived.append(read_builds_of(request))
        return judge_all(request)

    fake.functions = {"build_kernels": lambda request: answer, "judge_kernels": judging}
    rows = run(jobs(1, COMPILED))

    assert [{}] == arrived
    assert [Status.CORRECT] == [row.status for row in rows.values()]


def test_rows_that_came_before_an_interruption_are_not_lost(fake: FakeModal) -> None:
    verdicts = ModalEngine().run(jobs(24), Settings())
    first = next(verdicts)
    verdicts.close()

    assert first.row.key in {job.key for job in jobs(24)}


def test_the_boards_device_is_the_one_that_the_worker_accepts() -> None:
    assert H100.device in gpus()[epoch.GPU].device_names


def test_the_command_line_continues_what_an_earlier_run_left(fake: FakeModal, tmp_path: Path) -> None:
    kernels = {"level_1_problem_19_sample_0": PLAIN, "level_1_problem_23_sample_0": PLAIN}
    path = tmp_path / "alice-first.json"
    path.write_text(json.dumps({"metadata": {"display_name": "Alice"}, "kernels": kernels}))
    arguments = ["evaluate", str(path), "--engine", "modal", "--work", str(tmp_path), "--data", str(tmp_path)]
    asked: list[set[str]] = []

    def one_is_lost_at_first(request: str) -> str:
        keys = {str(job.key) for job in read_request(request)[0]}
        asked.append(keys)
        if broken and "level_1_problem_23_sample_0" in keys:
            raise TimeoutError("the container did not answer")
        return judge_all(request)

    fake.functions["judge_kernels"] = one_is_lost_at_first
    broken = True
    first = CliRunner().invoke(app, arguments)
    broken = False
    asked.clear()
    second = CliRunner().invoke(app, arguments)

    assert (1, 0) == (first.exit_code, second.exit_code), first.output + second.output
    assert [{"level_1_problem_23_sample_0"}] == asked
    result = json.loads((tmp_path / "H100/alice-first.json").read_text())
    assert ["correct", "correct"] == [row["status"] for row in result["rows"]]


def test_a_token_that_modal_refuses_is_said_in_a_line(
    fake: FakeModal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "refusal", "Token ID is malformed")
    path = tmp_path / "alice-first.json"
    kernels = {"level_1_problem_19_sample_0": "class ModelNew: pass\n"}
    path.write_text(json.dumps({"metadata": {"display_name": "Alice"}, "kernels": kernels}))
    said = CliRunner().invoke(app, ["evaluate", str(path), "--engine", "modal", "--work", str(tmp_path)])

    assert 1 == said.exit_code
    assert said.output.endswith("modal: Token ID is malformed\n")
