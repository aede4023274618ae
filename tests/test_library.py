"""The examples of docs/library.md run as they stand and print what the page says, on the CPU."""

import contextlib
import io
import re
import sys

import pytest
from own_server import serving

from leaderboard.serve.workers import COMMAND

BLOCK = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


@pytest.mark.timeout(900)
def test_every_example_of_the_page_runs_and_prints_what_it_says(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (repository / "docs/library.md").read_text("utf-8")
    blocks = BLOCK.findall(page)
    assert ["python", "text"] * (len(blocks) // 2) == [kind for kind, _ in blocks]
    names = {"__name__": "__example__"}
    with serving(command=COMMAND) as url:
        for at in range(0, len(blocks), 2):
            source = blocks[at][1].replace("http://localhost:8900", url)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(source, f"docs/library.md, example {at // 2 + 1}", "exec"), names)
            assert blocks[at + 1][1] == printed.getvalue(), source


def test_importing_the_package_loads_no_torch():
    import subprocess

    program = "import sys, kernel_evaluator, kernel_evaluator.upstream.files, kernel_evaluator.labels.static_check; sys.exit('torch' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode
