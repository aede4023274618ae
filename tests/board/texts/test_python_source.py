"""A source of half a megabyte that would take Python's parser 70 GB is read by nobody, and honest ones are by all."""

from __future__ import annotations

import hashlib

import pytest
from kernel_evaluator.labels.sources import Backend

from leaderboard.checks.kernels import is_too_deep
from leaderboard.generate.extract import kernel_block
from leaderboard.generate.looking import Looking
from leaderboard.runs.copies import structure_sha256
from leaderboard.stages.checked import problem_source
from leaderboard.stages.uses import backends_of

ENDLESS = {
    "an import": "import " + "a." * 400 + "a",
    "a second one": "import b, " + "a." * 400 + "a",
    "from one": "from " + "a." * 400 + "a import b",
    "from a relative one": "from .. " + "a." * 400 + "a import b",
    "over lines": "import a" + " \\\n . a" * 400,
    "with marks": "import " + "a\u0331." * 400 + "a",
}
"""Short enough to be read where nobody looks first: then these tests fail, and this machine stands."""


@pytest.mark.parametrize("line", ENDLESS.values(), ids=ENDLESS)
def test_an_import_of_a_name_without_end_is_read_by_nobody(line: str) -> None:
    source = f"{line}\nimport triton\nclass ModelNew: pass\n"
    looked = Looking(backend="cuda", precision="fp32", check_kernel=True).at(f"```python\n{source}```\n")

    assert is_too_deep(source)
    assert (Backend.TORCH,) == backends_of(source)
    assert hashlib.sha256(source.encode()).hexdigest() == structure_sha256(source)
    assert "more than 250 parts" in looked.complaint
    assert "class Other: pass" == kernel_block(f"```\nclass Other: pass\n```\n\n```\n{source}```\n").code
    with pytest.raises(ValueError, match="more than 250 parts"):
        problem_source(source)


@pytest.mark.parametrize(
    "line",
    [
        "import a.b.c, torch.nn.functional as F",
        "x = [" + ",".join(["0.5"] * 3000) + "]",
        "x = [" + ", ".join(["a.b"] * 3000) + "]",
        "# import " + "a, b. " * 3000,
    ],
)
def test_what_has_many_names_and_numbers_is_read(line: str) -> None:
    source = f"{line}\nimport triton\nclass ModelNew: pass\n"

    assert not is_too_deep(source)
    assert (Backend.TRITON,) == backends_of(source)
