"""Builds the site from synthetic entries and measures it: time, memory, size, files, the index in a browser.

    python benchmarks/site.py --entries 1000

Writes `benchmarks/results/site.json` and exits with 1 where a limit is broken.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from synthetic import write_repository

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {
    "build_seconds": 60.0,
    "size_bytes": 1_000_000_000,
    "size_bytes_an_entry": 200_000,
    "one_changed_build_cpu_seconds": 5.0,
    "files": 20_000,
    "index_compressed_bytes": 60_000,
    "index_usable_seconds": 1.0,
    "memory_bytes": 2_000_000_000,
}
BASELINES = ("torch-compile", "torch-eager")
"""Of the entries so many are PyTorch's own ways, that others are held against."""
CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
]


def main() -> int:
    """Generate, build, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1000)
    parser.add_argument("--source-length", type=int, default=7_800, help="characters of a kernel's source")
    parser.add_argument("--work", type=Path, help="a folder to keep the generated data and the site in")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "site.json")
    arguments = parser.parse_args()
    work = arguments.work or Path(tempfile.mkdtemp(prefix="site-benchmark-"))
    place = machine()
    try:
        figures = measure(work, arguments.entries, arguments.source_length)
    finally:
        if arguments.work is None:
            shutil.rmtree(work)
    broken = [name for name, limit in LIMITS.items() if figures[name] is not None and figures[name] > limit]
    record = {"figures": figures, "limits": LIMITS, "broken": broken, "machine": place, "at": now()}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=2) + "\n", "utf-8")
    print(json.dumps(record, indent=2))
    return 1 if broken else 0


def measure(work: Path, entries: int, source_length: int) -> dict[str, Any]:
    """Build, build again with nothing changed, then with one entry; look at the result."""
    data = work / f"entries-{entries}"
    if not data.exists():
        print(f"generating {entries} entries in {data}", flush=True)
        write_repository(data, entries=entries, source_length=source_length, baselines=BASELINES)
    out = work / "site"
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(out.with_name(f".{out.name}-read"), ignore_errors=True)
    first, again = build(data, out), build(data, out)
    change_one(data)
    changed = build(data, out)
    index = out / "index.html"
    shell = [index, *sorted((out / "assets").glob("*.css")), *sorted(index_scripts(out))]
    files = [path for path in out.rglob("*") if path.is_file()]
    return {
        "entries": entries,
        "build_seconds": first["seconds"],
        "build_cpu_seconds": first["cpu_seconds"],
        "build_share_of_two_cores": round(first["cpu_seconds"] / first["seconds"] / 2, 3),
        "memory_bytes": first["memory_bytes"],
        "unchanged_build_seconds": again["seconds"],
        "unchanged_build_cpu_seconds": again["cpu_seconds"],
        "unchanged_build_report": again["report"],
        "one_changed_build_cpu_seconds": changed["cpu_seconds"],
        "one_changed_build_report": changed["report"],
        "files": len(files),
        "size_bytes": (size := sum(path.stat().st_size for path in files)),
        "size_bytes_an_entry": round(size / entries),
        "source_length": source_length,
        "index_compressed_bytes": sum(len(gzip.compress(path.read_bytes(), 6)) for path in shell),
        "table_compressed_bytes": len(
            gzip.compress(next((out / "boards").glob("*.table.json")).read_bytes(), 6)
        ),
        "index_usable_seconds": usable(out),
    }


def build(data: Path, out: Path) -> dict[str, Any]:
    """Run `kbl site build` as a user would; memory is the sum over its processes, sampled."""
    command = [sys.executable, "-m", "leaderboard", "site", "build", "--data", str(data / "data"),
               "--submissions", str(data / "submissions"), "--out", str(out), "--jobs", "2"]  # fmt: skip
    began, cpu = time.monotonic(), os.times()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    highest = 0
    while process.poll() is None:
        highest = max(highest, family_memory(process.pid))
        time.sleep(0.2)
    seconds = time.monotonic() - began
    if process.returncode:
        raise SystemExit(f"the build failed with {process.returncode}")
    used = os.times()
    report = process.stdout.read().strip() if process.stdout else ""
    print(report, flush=True)
    spent = used.children_user + used.children_system - cpu.children_user - cpu.children_system
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(spent, 2),
        "memory_bytes": highest,
        "report": report,
    }


def change_one(data: Path) -> None:
    """Make one entry of the middle a thousandth faster, as if it had been judged again."""
    results = sorted((data / "data" / "results").glob("*/*.json"))
    path = results[len(results) // 2]
    result = json.loads(path.read_text("utf-8"))
    for row in result["rows"]:
        if row.get("speedup"):
            row["speedup"] *= 1.001
            row["speedup_ci95"] = [1.001 * bound for bound in row["speedup_ci95"]]
    path.write_text(json.dumps(result), "utf-8")


def family_memory(pid: int) -> int:
    """Add up the proportional memory of a process and its children; pages they share count once."""
    total = 0
    children = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
        total += sum(family_memory(int(child)) for child in children.read_text().split())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return total
    return total


def index_scripts(out: Path) -> set[Path]:
    """Give the scripts that the index loads before its data: those that it names, and what these import."""
    named, found = re.findall(r'src="assets/(\w+\.js)"', (out / "index.html").read_text("utf-8")), set[Path]()
    while named:
        path = out / "assets" / named.pop()
        if path not in found:
            found.add(path)
            named += re.findall(r'from "\./(\w+\.js)"', path.read_text("utf-8"))
    return found


def usable(out: Path) -> float | None:
    """Seconds until the index shows its table and its controls, in headless Chromium; the median of five."""
    if not Path(CHROMIUM).exists():
        return None
    from playwright.sync_api import sync_playwright

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=out)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/index.html"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            times = sorted(visit(browser, address) for _ in range(5))
            browser.close()
        server.shutdown()
    return round(times[2], 3)


def visit(browser: Any, address: str) -> float:
    """Open the index in a fresh context and wait until its controls work."""
    page = browser.new_context().new_page()
    began = time.monotonic()
    page.goto(address, wait_until="commit")
    page.wait_for_selector("#standings tbody tr")
    page.wait_for_selector("#search", state="visible")
    seconds = time.monotonic() - began
    page.context.close()
    return seconds


def machine() -> dict[str, Any]:
    """Say what is measured on, and how busy it was before: other people's work makes every time longer."""
    return {
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def now() -> str:
    """Give the time in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


if __name__ == "__main__":
    sys.exit(main())
