"""What a run may be called: its name becomes a folder's."""

from __future__ import annotations

from pathlib import Path


def plain_run_name(name: str) -> str:
    """Give a run's name back; raise ValueError where it is not the name of one folder in the runs' folder."""
    is_one_folder = name == Path(name).name != ".." and "\\" not in name
    if not name or not is_one_folder or not name.isprintable():
        raise ValueError(
            f"run_name must be a plain name, without / and \\ and not .., got {name!r}; call it my-run, say"
        )
    return name
