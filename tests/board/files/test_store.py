"""Writing files: whole or not at all, by several at once, and over what a killed writer left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leaderboard.files.store import write_atomically

WRITER = """
import sys
from pathlib import Path
from leaderboard.files.store import write_atomically
path, letter = Path(sys.argv[1]), sys.argv[2]
for number in range(50):
    write_atomically(path, letter * (1000 + number))
    assert len(set(path.read_text())) == 1
"""


def test_what_a_killed_writer_left_is_gone_after_the_next(tmp_path: Path) -> None:
    (tmp_path / ".entry.json.new").write_text("half of something longer than what is written now")
    write_atomically(tmp_path / "entry.json", "{}")

    assert {"entry.json": "{}"} == {path.name: path.read_text() for path in tmp_path.iterdir()}


def test_writers_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "entry.json")]
    writers = [subprocess.Popen([*command, letter]) for letter in "abc"]

    assert [0, 0, 0] == [writer.wait() for writer in writers]
    assert ["entry.json"] == [path.name for path in tmp_path.iterdir()]
    assert 1049 == len((tmp_path / "entry.json").read_text())


def test_a_pipe_or_a_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "out.json"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="must be a file") as raised:
        write_atomically(pipe, "text")
    assert raised.value.filename == str(pipe)
    assert pipe.is_fifo()
    assert [pipe] == list(tmp_path.iterdir())


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("kept")
    (tmp_path / ".entry.json.new").symlink_to(tmp_path / "secret")

    with pytest.raises(OSError, match=r"entry\.json"):
        write_atomically(tmp_path / "entry.json", "{}")
    assert "kept" == (tmp_path / "secret").read_text()
