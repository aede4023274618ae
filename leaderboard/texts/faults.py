"""What is said of an error in one line: the file and the mend. Faults of the machine are no file's."""

from __future__ import annotations

import errno
from pathlib import Path

MACHINES = frozenset({errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EPIPE, errno.EROFS})
"""What stops a verb, whatever file is at hand: a full disk, one that nobody may write to, a closed pipe."""

_WORDS = {
    errno.ENOENT: "there is no such file; check the path",
    errno.EISDIR: "it is a folder, where a file is asked for",
    errno.ENOTDIR: "a part of this path is a file, where a folder is asked for",
}


def words_for(error: Exception, about: Path | None = None) -> str:
    """Say what is wrong, and with which file: the error's own, else the one that was at hand.

    A fault of the machine is raised again, for `cli.run` to end the verb with.
    """
    if isinstance(error, OSError) and error.errno in MACHINES:
        raise error
    return plain_words(error, about)


def plain_words(error: Exception, about: Path | None = None) -> str:
    """Say what is wrong, and with which file, as `words_for` does; of a fault of the machine too."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        return f"{error.filename}: {_WORDS.get(error.errno, error.strerror)}"
    said = error.args[0] if isinstance(error, KeyError) and error.args else error  # its str is a repr
    return f"{about}: {said}" if about and not str(said).startswith(str(about)) else str(said)
