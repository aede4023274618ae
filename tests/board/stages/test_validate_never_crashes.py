"""Whatever bytes arrive, `validate` answers with a report, and agrees with the standard module on what is JSON."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from leaderboard.checks.report import check_bytes
from leaderboard.files.submission import InvalidSubmissionError, parse
from leaderboard.texts.json_positions import line_and_column, offset_inside, pointer_of, walk

KEY = "level_1_problem_1_sample_0"
FINE = json.dumps(
    {
        "metadata": {"display_name": "x", "baseline": True, "generation": {"temperature": 0.5}},
        "kernels": {KEY: "# a\nclass ModelNew:\n    x = '\\u00e9'\n"},
    },
    indent=1,
).encode()

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | st.just(KEY), inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    raw = bytearray(FINE)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(raw) - 1))
        piece = draw(
            st.binary(max_size=4) | st.sampled_from([b'"', b"{", b"}", b"[", b",", b"\\", b"\\ud800", b"\0"])
        )
        raw[at : at + draw(st.integers(0, 6))] = piece
        raw = raw or bytearray(b" ")
    return bytes(raw)


@settings(max_examples=300)
@given(raw=st.binary(max_size=200) | mutated())
@example(raw=FINE)
def test_any_bytes_give_a_report_with_places_inside_the_file(raw: bytes) -> None:
    report = check_bytes(raw, Path("entry.json"))

    lines = raw.decode("utf-8", "replace").count("\n") + 1
    assert all(1 <= mistake.line <= lines and mistake.message.isprintable() for mistake in report.mistakes)


@settings(max_examples=200)
@given(metadata=json_values, kernels=json_values | st.dictionaries(st.just(KEY), st.text(), max_size=1))
def test_any_values_give_a_report(metadata: object, kernels: object) -> None:
    raw = json.dumps({"metadata": metadata, "kernels": kernels}).encode()

    report = check_bytes(raw, Path("entry.json"))

    assert not report.mistakes or report.mistakes[0].mend


@settings(max_examples=300)
@given(raw=mutated())
def test_what_loads_is_what_the_standard_module_reads(raw: bytes) -> None:
    try:
        submission = parse(raw, "entry.json")
    except InvalidSubmissionError as error:
        assert error.mistakes
    else:
        assert json.loads(raw)["metadata"].items() >= submission.metadata.items()


@settings(max_examples=200)
@given(value=json_values, ascii_only=st.booleans())
def test_the_walker_finds_every_value_where_it_stands(value: object, ascii_only: bool) -> None:
    text = json.dumps({"a/b~": value}, ensure_ascii=ascii_only, indent=1)

    start = walk(text).values[pointer_of(("a/b~",))]

    assert value == json.JSONDecoder().raw_decode(text, start)[0]
    line, column = line_and_column(text, start)
    assert text.split("\n")[line - 1][column - 1 :] in text[start:]


@settings(max_examples=200)
@given(before=st.text(), after=st.text(), ascii_only=st.booleans())
def test_a_character_is_found_behind_any_escapes(before: str, after: str, ascii_only: bool) -> None:
    text = json.dumps(f"{before}@{after}", ensure_ascii=ascii_only)

    assert "@" == text[offset_inside(text, 0, len(before))]
