"""Malformed submissions, each with the rule, the message and the place that its author is shown."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from leaderboard.checks.report import Report, check_bytes

KERNEL = "class ModelNew:\n    pass\n"
KEY = "level_1_problem_1_sample_0"


def submission(metadata: object = None, kernels: object = None, **more: object) -> bytes:
    value = {
        "metadata": {"display_name": "A name"} if metadata is None else metadata,
        "kernels": {KEY: KERNEL} if kernels is None else kernels,
        **more,
    }
    return json.dumps(value).encode()


def named(**metadata: object) -> bytes:
    return submission(metadata={"display_name": "A name", **metadata})


def kernel(source: object) -> bytes:
    return submission(kernels={KEY: source})


def keyed(key: str) -> bytes:
    return submission(kernels={key: KERNEL})


@dataclass(frozen=True)
class Malformed:
    raw: bytes
    rule: str
    message: str


MALFORMED = {
    "nothing": Malformed(b"", "file-size", "the file is empty"),
    "white space": Malformed(b" \n", "file-size", "the file is empty"),
    "50 MB": Malformed(b"x" * 50_000_000, "file-size", "more than 16,777,216 bytes"),
    "broken UTF-8": Malformed(submission()[:-1] + b"\xff}", "encoding", "(0xff) is not UTF-8"),
    "Latin-1": Malformed('{"metadata": "é"}'.encode("latin-1"), "encoding", "byte 14 (0xe9) is not UTF-8"),
    "UTF-8 with a mark": Malformed(b"\xef\xbb\xbf" + submission(), "encoding", "byte order mark (UTF-8)"),
    "UTF-16": Malformed(submission().decode().encode("utf-16"), "encoding", "byte order mark (UTF-16)"),
    "UTF-16 without a mark": Malformed(
        submission().decode().encode("utf-16-le"), "json-syntax", "Expecting a key"
    ),
    "depth 100,000": Malformed(
        b"[" * 100_000 + b"]" * 100_000, "json-syntax", "Nested deeper than 16 levels"
    ),
    "depth 17": Malformed(b"[" * 17 + b"]" * 17, "json-syntax", "Nested deeper than 16 levels"),
    "depth 16": Malformed(b"[" * 16 + b"]" * 16, "field", "must be an object, found an array"),
    "open brackets only": Malformed(b'{"a":' * 100_000, "json-syntax", "Nested deeper than 16 levels"),
    "truncated": Malformed(submission()[:-20], "json-syntax", "Unterminated string"),
    "truncated between values": Malformed(b'{"metadata":', "json-syntax", "found the end of the file"),
    "trailing garbage": Malformed(submission() + b" x", "json-syntax", "Something follows the end"),
    "two documents": Malformed(submission() * 2, "json-syntax", "Something follows the end"),
    "trailing comma": Malformed(submission()[:-1] + b",}", "json-syntax", "Expecting a key in double quotes"),
    "single quotes": Malformed(b"{'metadata': 1}", "json-syntax", "Expecting a key in double quotes"),
    "a comment": Malformed(b"// hello\n" + submission(), "json-syntax", "Expecting a value, found '// hello"),
    "NaN": Malformed(named(generation={"temperature": float("nan")}), "json-syntax", "NaN is not JSON"),
    "Infinity": Malformed(
        named(generation={"cost_usd": float("inf")}), "json-syntax", "Infinity is not JSON"
    ),
    "control character": Malformed(b'{"metadata": "\x01"}', "json-syntax", "Invalid control character"),
    "not JSON at all": Malformed(b"import torch\n", "json-syntax", "Expecting a value, found 'import torch"),
    "10 MB integer": Malformed(
        b'{"metadata": ' + b"9" * 10_000_000 + b"}", "number-range", "'99999999999999999999…' is out of range"
    ),
    "overflow": Malformed(
        submission().replace(b'"A name"', b'"A", "generation": {"temperature": 1e999999}'),
        "number-range",
        "'1e999999' is out of range",
    ),
    "repeated kernel": Malformed(
        submission().replace(b'"kernels": {', b'"kernels": {"%s": "", ' % KEY.encode()),
        "repeated-key",
        f"key '{KEY}' is repeated",
    ),
    "repeated metadata": Malformed(
        b'{"metadata": {}, ' + submission()[1:], "repeated-key", "key 'metadata' is repeated"
    ),
    "array at top": Malformed(
        b"[" + submission() + b"]", "field", "the submission must be an object, found an array"
    ),
    "string at top": Malformed(b'"hello"', "field", "the submission must be an object, found a string"),
    "null at top": Malformed(b"null", "field", "the submission must be an object, found null"),
    "no metadata": Malformed(
        json.dumps({"kernels": {KEY: KERNEL}}).encode(), "field", "the submission lacks 'metadata'"
    ),
    "no kernels": Malformed(
        json.dumps({"metadata": {"display_name": "x"}}).encode(), "field", "lacks 'kernels'"
    ),
    "no display name": Malformed(submission(metadata={}), "field", "metadata lacks 'display_name'"),
    "blank display name": Malformed(
        submission(metadata={"display_name": "  "}), "field", "display_name is blank"
    ),
    "direction override": Malformed(
        submission(metadata={"display_name": "A\u202eB"}), "field", "control characters: 'A\\u202eB'"
    ),
    "display name with a line end": Malformed(
        submission(metadata={"display_name": "A\n"}), "field", "'A\\n'"
    ),
    "wrong type of a name": Malformed(
        submission(metadata={"display_name": 7}),
        "field",
        "metadata.display_name must be a string, found a number (7)",
    ),
    "wrong type of notes": Malformed(
        named(notes=["x"]), "field", "metadata.notes must be a string, found an array"
    ),
    "two lines of organization": Malformed(
        named(organization="A\nB"), "field", "has control characters: 'A\\nB'"
    ),
    "metadata as a list": Malformed(
        submission(metadata=[]), "field", "metadata must be an object, found an array"
    ),
    "kernels as a list": Malformed(
        submission(kernels=[KERNEL]), "field", "kernels must be an object, found an array"
    ),
    "a boolean as text": Malformed(named(baseline="yes"), "field", "metadata.baseline must be a boolean"),
    "unknown field": Malformed(
        submission(entry="me"), "field", "the submission has an unknown field 'entry'"
    ),
    "unknown metadata": Malformed(named(author="me"), "field", "metadata has an unknown field 'author'"),
    "unknown generation field": Malformed(
        named(generation={"top_p": 1}), "field", "metadata.generation has an unknown field 'top_p'"
    ),
    "a script as address": Malformed(
        named(url="javascript:alert(1)"), "field", "metadata.url must be a web address"
    ),
    "negative cost": Malformed(
        named(generation={"cost_usd": -1}),
        "field",
        "metadata.generation.cost_usd must be at least 0, found -1",
    ),
    "no sample": Malformed(named(generation={"samples": 0}), "field", "samples must be at least 1, found 0"),
    "endless notes": Malformed(
        named(notes="x" * 4001), "field", "metadata.notes is longer than 4000 characters"
    ),
    "empty kernels": Malformed(submission(kernels={}), "field", "kernels must not be empty"),
    "unknown level": Malformed(
        keyed("level_5_problem_1_sample_0"), "field", "is not a kernel key: kernel key must"
    ),
    "problem 101": Malformed(
        keyed("level_1_problem_101_sample_0"), "field", "problem of level 1 must be 1-100, got 101"
    ),
    "problem 51 of level 3": Malformed(keyed("level_3_problem_51_sample_0"), "field", "must be 1-50, got 51"),
    "sample 100": Malformed(keyed("level_1_problem_1_sample_100"), "field", "is not a kernel key"),
    "capital key": Malformed(keyed("Level_1_Problem_1_Sample_0"), "field", "not a kernel key as it is spelt"),
    "key with a line end": Malformed(keyed(KEY + "\n"), "field", "not a kernel key as it is spelt"),
    "key of other shape": Malformed(
        keyed("conv2d"), "field", "'conv2d' is not a kernel key: it names no problem"
    ),
    "key with leading zeros": Malformed(keyed("level_1_problem_01_sample_0"), "field", "is not a kernel key"),
    "kernel as a list of lines": Malformed(
        kernel(["import torch"]), "field", f"kernels.{KEY} must be a string"
    ),
    "null kernel": Malformed(kernel(None), "field", f"kernels.{KEY} must be a string, found null"),
    "lone surrogate": Malformed(kernel("x = '\ud800'"), "surrogate", "holds the lone surrogate '\\ud800'"),
    "lone surrogate in metadata": Malformed(
        named(notes="\udfff"), "surrogate", "'metadata.notes' holds the lone"
    ),
    "huge kernel": Malformed(kernel(KERNEL + "#" * 600_000), "kernel-size", "has 600,025 bytes"),
    "huge kernel in UTF-8 only": Malformed(
        kernel(KERNEL + "#" + "é" * 300_000), "kernel-size", "has 600,026 bytes"
    ),
    "coding comment": Malformed(
        kernel(f"# -*- coding: utf-7 -*-\n{KERNEL}"), "kernel-coding", "declares the encoding 'utf-7'"
    ),
    "coding comment behind a blank line": Malformed(
        kernel(f" \t\n# coding: latin-1\n{KERNEL}"), "kernel-coding", "declares the encoding 'latin-1'"
    ),
    "coding comment behind an indented one": Malformed(
        kernel(f"  # a kernel\n# coding: latin-1\n{KERNEL}"),
        "kernel-coding",
        "declares the encoding 'latin-1'",
    ),
    "coding comment on the second line": Malformed(
        kernel(f"#!/usr/bin/env python\n# coding: latin-1\n{KERNEL}"),
        "kernel-coding",
        "declares the encoding 'latin-1'",
    ),
}

WARNED = {
    "NUL": Malformed(kernel(f"{KERNEL}x = '\0'"), "kernel-nul", "holds a NUL character on line 3"),
    "empty": Malformed(kernel(""), "kernel-syntax", "defines no ModelNew"),
    "blanks": Malformed(kernel(" \n"), "kernel-syntax", "defines no ModelNew"),
    "thoughts": Malformed(
        kernel(f"<think>well</think>\n{KERNEL}"), "kernel-syntax", "invalid syntax (line 1"
    ),
    "byte order mark within": Malformed(kernel(f"import x\n\ufeff{KERNEL}"), "kernel-syntax", "U+FEFF"),
    "syntax error": Malformed(
        kernel("class ModelNew\n  pass"), "kernel-syntax", "expected ':' (line 1, column 15)"
    ),
    "kernel in Markdown": Malformed(
        kernel(f"```python\n{KERNEL}```"), "kernel-syntax", "invalid syntax (line 1"
    ),
    "kernel nested deeply": Malformed(
        kernel("-" * 100_000 + "1"), "kernel-syntax", "it is nested too deeply"
    ),
    "kernel of endless attributes": Malformed(kernel("a" + ".b" * 100_000), "kernel-syntax", "is nested"),
    "kernel of a long sum": Malformed(
        kernel(KERNEL + "x = 1" + "+1" * 600), "kernel-syntax", "nested more than 250 levels deep"
    ),
    "kernel with a huge integer": Malformed(kernel("x = " + "9" * 5000), "kernel-syntax", "is not Python"),
    "no ModelNew": Malformed(kernel("class Model:\n    pass"), "kernel-syntax", "defines no ModelNew"),
    "ModelNew inside a function": Malformed(
        kernel("def f():\n class ModelNew: ..."), "kernel-syntax", "no ModelNew"
    ),
    "ModelNew only used": Malformed(kernel("print(ModelNew)"), "kernel-syntax", "defines no ModelNew"),
    "only a comment": Malformed(kernel("# ModelNew"), "kernel-syntax", "defines no ModelNew"),
}


def check(raw: bytes, name: str = "entry.json") -> Report:
    return check_bytes(raw, Path(name))


@pytest.mark.parametrize("case", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_submission_gets_its_own_message(case: Malformed) -> None:
    report = check(case.raw)

    found = [mistake for mistake in report.mistakes if mistake.rule == case.rule]
    assert found, report.mistakes
    assert case.message in found[0].message
    assert all(mistake.mend and mistake.line >= 1 and mistake.column >= 1 for mistake in report.mistakes)
    assert all(len(mistake.message) < 400 and mistake.message.isprintable() for mistake in report.mistakes)


@pytest.mark.parametrize("case", WARNED.values(), ids=WARNED.keys())
def test_a_kernel_that_will_not_compile_is_taken_as_it_is_and_pointed_out(case: Malformed) -> None:
    report = check(case.raw)

    assert report.is_fine
    [warning] = report.warnings
    assert case.rule == warning.rule
    assert case.message in warning.message
    assert len(warning.message) < 400 and warning.message.isprintable()


@pytest.mark.parametrize(
    "source",
    [
        f"\ufeff{KERNEL}",
        KERNEL.replace("\n", "\r\n"),
        f"{KERNEL}\nif __name__ == '__main__':\n    ModelNew()\n",
        f"{KERNEL}weights = [{'1.5, ' * 20_000}]\n",
    ],
    ids=["byte order mark", "CRLF", "__main__", "long literal"],
)
def test_what_else_models_write_is_no_matter(source: str) -> None:
    report = check(kernel(source))

    assert (True, ()) == (report.is_fine, report.warnings)


@pytest.mark.parametrize("text", ["\ufeff", " \ufeff ", "a\x85b", "a\u2028b"])
def test_a_name_is_a_line_that_can_be_seen_by_the_same_rule_in_the_browser(text: str) -> None:
    assert ["field"] == [each.rule for each in check(submission(metadata={"display_name": text})).mistakes]


@pytest.mark.parametrize(
    "text", ["https://a.example/\ufeff", "https://a.example/\x85", "https://a.example/\x1c"]
)
def test_an_address_has_no_blanks_by_the_same_rule_in_the_browser(text: str) -> None:
    assert ["field"] == [each.rule for each in check(named(url=text)).mistakes]


NO_ENTRY = ("Entry.json", "-entry.json", "ent ry.json", "é.json", "x" * 65 + ".json", "a..json", ".json")
UNSUFFIXED = ("entry.txt", "entry.", "entry.json\n")
RESERVED = ("index.json", "nul.json", "con.v2.json")


@pytest.mark.parametrize("name", [*NO_ENTRY, *UNSUFFIXED, *RESERVED])
def test_a_file_name_that_no_entry_can_have_is_refused(name: str) -> None:
    assert ["file-name"] == [mistake.rule for mistake in check(submission(), name).mistakes]


@pytest.mark.parametrize("name", ["a.json", "0.json", "gpt-5.2_run.json", "x" * 64 + ".json"])
def test_an_entry_id_is_accepted(name: str) -> None:
    assert check(submission(), name).is_fine


def test_each_of_two_lacking_fields_is_told_once() -> None:
    assert ["the submission lacks 'metadata'", "the submission lacks 'kernels'"] == [
        mistake.message for mistake in check(b"{}").mistakes
    ]


def test_every_mistake_is_listed_at_once_in_the_order_of_the_file() -> None:
    raw = submission(metadata={"url": "x"}, kernels={"k": KERNEL, KEY: "1 +"}, extra=1)

    report = check(raw)

    assert ["field", "field", "field", "field"] == [mistake.rule for mistake in report.mistakes]
    assert ["kernel-syntax"] == [warning.rule for warning in report.warnings]
    assert sorted(mistake.column for mistake in report.mistakes) == [
        mistake.column for mistake in report.mistakes
    ]


def test_mistakes_beyond_twenty_are_counted() -> None:
    report = check(submission(kernels={f"kernel {n}": KERNEL for n in range(50)}))

    assert (20, 30) == (len(report.mistakes), report.more)


def test_no_more_of_a_kind_is_looked_for_than_can_be_told() -> None:
    report = check(named(backend="x1," * 20_000))

    assert (20, 980) == (len(report.warnings), report.more_warnings)
    assert ["field"] == [mistake.rule for mistake in report.mistakes]


def test_a_kernel_that_is_too_large_is_not_parsed() -> None:
    report = check(kernel("1 +" + " " * 600_000))

    assert ["field", "kernel-size"] == [mistake.rule for mistake in report.mistakes]
    assert () == report.warnings


def test_a_syntax_error_is_placed_inside_the_string_that_holds_the_kernel() -> None:
    source = 'é = "\\n😀"\n1 = ModelNew'
    raw = f'{{"metadata": {{"display_name": "x"}},\n "kernels": {{"{KEY}":\n{json.dumps(source)}}}}}'.encode()

    (mistake,) = check(raw).warnings

    line = raw.decode().splitlines()[2]
    assert (3, "1 = ModelNew") == (mistake.line, line[mistake.column - 1 :][:12])
