"""Send what is malformed to everything that reads strangers' files, and count what came of it.

    python benchmarks/malformed.py --write

Mutated submissions go to `kbl validate` and to the site's check (node runs it), mutated work files to
`kbl record`, mutated requests to a server, and connections stay half open. No traceback, hang or 5xx is
allowed, and both checks must agree. Counts and seconds go to benchmarks/results/malformed.json.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests"), str(ROOT / "KernelBench"), str(ROOT)]

import mutations  # noqa: E402
import typer.testing  # noqa: E402

from leaderboard.checks.report import check_bytes  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "malformed.json"
KEY = "level_1_problem_19_sample_0"
KERNEL = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    forward = staticmethod(torch.relu)\n"
SUBMISSION = {
    "metadata": {
        "display_name": "Mutated",
        "organization": "A lab",
        "url": "https://a.example/x",
        "precision": "fp32",
        "generation": {"model": "m", "temperature": 0.5, "samples": 1, "cost_usd": 1.5},
        "license": "MIT",
    },
    "kernels": {KEY: KERNEL, "level_2_problem_40_sample_1": "class ModelNew: ..."},
}
HEAD = (
    "POST /v1/judgements HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    "Content-Length: {length}\r\nConnection: close\r\n\r\n"
)
PATIENCE_S = 0.5
BEYOND_THE_BROWSER = {"kernel-size", "kernel-coding", "file-name"}
"""What the page says that it leaves to `kbl validate`."""


@dataclass
class Count:
    """What came of one kind of thing: answers by what they were, and all that must not happen."""

    sent: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


def submissions(number: int, chance: random.Random) -> Count:
    """Check mutated submissions here and as the site does."""
    count = Count(sent=number)
    files = [mutations.of(chance, SUBMISSION) for _ in range(number)]
    schema = ROOT / "leaderboard" / "schemas" / "submission.schema.json"
    node = [
        "node",
        str(ROOT / "benchmarks" / "browser_verdicts.mjs"),
        str(ROOT / "site" / "assets"),
        str(schema),
    ]
    lines = "\n".join(base64.b64encode(raw).decode() for raw in files)
    shown = subprocess.run(
        node, input=lines + "\n", capture_output=True, text=True, check=True
    ).stdout.split()
    for raw, fits in zip(files, shown, strict=True):
        with _watched(count, raw):
            report = check_bytes(raw, Path("entry.json"))
            rules = {mistake.rule for mistake in report.mistakes}
            count.answers["fine" if not rules else "invalid"] += 1
            if (fits == "1") != (not rules - BEYOND_THE_BROWSER):
                count.wrong.append(f"the site says {fits}, kbl validate {sorted(rules)}: {raw[:2000]!r}")
    return count


def work_files(number: int, chance: random.Random) -> Count:
    """Hand mutated work files to `kbl record`, in a folder with the submission that they are of."""
    from leaderboard.cli import app

    count = Count(sent=number)
    honest = json.loads((ROOT / "data" / "results" / "H200" / "first-light.json").read_text("utf-8"))
    honest["rows"] = honest["rows"][:2]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "submissions", folder / "submissions")
        places = ["--submissions", str(folder / "submissions"), "--data", str(folder / "data")]
        places += [
            "--evaluator",
            honest["rows"][0]["evaluator_sha256"],
            "--baselines",
            str(ROOT / "baselines"),
        ]
        for _ in range(number):
            raw = mutations.of(chance, honest)
            (folder / "work.json").write_bytes(raw)
            ended = typer.testing.CliRunner().invoke(app, ["record", str(folder / "work.json"), *places])
            count.answers[f"exit status {ended.exit_code}"] += 1
            if ended.exit_code not in (0, 1) or "Traceback" in ended.output:
                count.wrong.append(f"{ended.exception!r}: {raw[:2000]!r}")
    return count


def requests(number: int, chance: random.Random) -> Count:
    """Send mutated requests to a server, as bytes."""
    from own_server import serving

    count = Count(sent=number)
    body = {"level": 1, "problem_id": 19, "source": KERNEL, "trials": 3, "timeout_s": 5.0, "id": "a"}
    with serving() as url:
        port = int(url.rpartition(":")[2])
        for _ in range(number):
            sent = mutations.of(chance, body)
            raw = HEAD.format(port=port, length=len(sent)).encode() + sent
            if chance.random() < 0.3:
                raw = mutations.of_bytes(chance, raw)
            with _watched(count, raw):
                answer = _answer(port, raw)
                count.answers[answer] += 1
                if answer.startswith("5"):
                    count.wrong.append(f"{answer}: {raw[:2000]!r}")
    return count


def half_open(number: int, _: random.Random) -> Count:
    """Open connections and never finish a request; the server must go on, and close them all."""
    from own_server import serving

    from leaderboard.serve.connections import PatientConnection

    count = Count(sent=number)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * number)), hard))
    with serving() as url:
        port = int(url.rpartition(":")[2])
        held = []
        for at in range(number):
            with _watched(count, b"connection %d" % at):
                each = socket.create_connection(("127.0.0.1", port), timeout=10)
                each.sendall([b"", b"POST /v1/judgements HT", b"GET / HTTP/1.1\r\nHost: x\r\n"][at % 3])
                held.append(each)
        for _ in range(20):
            if not _answer(port, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"):
                count.wrong.append("the server did not answer beside them")
        deadline = time.monotonic() + PatientConnection.request_s + 30
        for each in held:
            each.settimeout(max(0.1, deadline - time.monotonic()))
            try:
                while each.recv(1 << 16):
                    pass
                count.answers["closed"] += 1
            except ConnectionResetError:
                count.answers["closed"] += 1
            except TimeoutError:
                count.wrong.append("a connection stays open")
            each.close()
    return count


def _answer(port: int, raw: bytes) -> str:
    """The status of the answer to some bytes; `waits` where more is expected, `closed` on hanging up."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            connection.sendall(raw)
            connection.settimeout(PATIENCE_S)
            said = connection.recv(1 << 16)
        except (ConnectionResetError, BrokenPipeError):
            return "closed"
        except TimeoutError:
            return "waits"
    return said.split()[1].decode() if said.startswith(b"HTTP/") else "closed"


class _watched:
    """Note what is raised within, with what was sent."""

    def __init__(self, count: Count, raw: bytes) -> None:
        self._count, self._raw = count, raw

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if isinstance(error, Exception):
            self._count.wrong.append(f"{error!r}: {self._raw[:2000]!r}")
            return True
        return False


PARTS: dict[str, tuple[Callable[[int, random.Random], Count], int]] = {
    "submissions": (submissions, 20_000),
    "work_files": (work_files, 5_000),
    "requests": (requests, 5_000),
    "half_open": (half_open, 1_500),
}


def run(share: float, seed: int, only: set[str]) -> Iterator[tuple[str, Count]]:
    """Run the parts, each with a share of its number."""
    for name, (part, number) in PARTS.items():
        if not only or name in only:
            started = time.monotonic()
            count = part(max(1, round(number * share)), random.Random(f"{name} {seed}"))
            count.seconds = round(time.monotonic() - started, 1)
            yield name, count


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the full numbers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="parts separated by commas")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    chosen = parser.parse_args()
    report: dict[str, Any] = {"schema_version": 1, "seed": chosen.seed}
    for name, count in run(chosen.share, chosen.seed, set(filter(None, chosen.only.split(",")))):
        report[name] = {**asdict(count), "answers": dict(count.answers.most_common())}
        shown = {**report[name], "wrong": [text[:300] for text in count.wrong[:5]]}
        print(name, len(count.wrong), json.dumps(shown), flush=True)
    if chosen.write:
        RESULTS.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    return 1 if any(part["wrong"] for part in report.values() if isinstance(part, dict)) else 0


if __name__ == "__main__":
    sys.exit(main())
