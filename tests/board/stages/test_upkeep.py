"""What a board needs from time to time, on the files of a checkout."""

import json
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from kernel_evaluator.records.version import evaluator_sha256

from leaderboard.files.banned import Ban, read_bans
from leaderboard.files.ledger import read_all
from leaderboard.files.merged import merged_results
from leaderboard.files.notices import read_notices
from leaderboard.files.reviews import read_reviews
from leaderboard.files.store import (
    StoreError,
    dump_result,
    history_path,
    read_result,
    recorded_path,
    write_atomically,
)
from leaderboard.files.struck import read_strikes
from leaderboard.stages import upkeep
from leaderboard.stages.boards import load_boards, read_submissions
from leaderboard.stages.standings import Standing
from leaderboard.stages.upkeep import UpkeepError, affordable

ROOT = Path(__file__).resolve().parents[3]
STRUCK = "level_1_problem_1_sample_0"
DATA, SUBMISSIONS = ROOT / "data", ROOT / "submissions"
TIMED = {"speedup", "speedup_ci95", "runtime_ms", "reference_ms", "rounds", "second"}
ALICE = Ban(id=1001, login="al-ice", since="2026-11-24", reason='copied "kernels" 🙂')


def test_a_ban_is_kept_with_its_reason_and_lifted_by_number(tmp_path: Path) -> None:
    path = tmp_path / "banned.toml"
    upkeep.ban(path, ALICE)
    assert (ALICE,) == read_bans(path)

    with pytest.raises(UpkeepError, match="banned already"):
        upkeep.ban(path, ALICE)
    upkeep.unban(path, 1001)
    assert () == read_bans(path)
    with pytest.raises(UpkeepError, match="not banned"):
        upkeep.unban(path, 1001)


def test_a_ban_that_was_written_by_hand_is_read_after_the_next_as_before(tmp_path: Path) -> None:
    path = tmp_path / "banned.toml"
    path.write_text(BAN.replace("why", "sent \\u007f and \\u0000"))
    (by_hand,) = read_bans(path)
    upkeep.ban(path, ALICE)
    assert "sent \x7f and \x00" == by_hand.reason
    assert (by_hand, ALICE) == read_bans(path)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"id": -4}, "number must be 1 to .*, got -4"),
        ({"id": 10**30}, "number must be 1 to "),
        ({"login": ""}, "login must be letters, .*, got ''"),
        ({"login": "bob\n[x]"}, "login must be letters"),
        ({"reason": " \u202e\n"}, "a ban needs a reason"),
    ],
)
def test_a_ban_of_nobody_is_refused(tmp_path: Path, changed: dict, words: str) -> None:
    with pytest.raises(UpkeepError, match=words):
        upkeep.ban(tmp_path / "banned.toml", replace(ALICE, **changed))
    assert not (tmp_path / "banned.toml").exists()


def test_what_no_reader_sees_is_left_out_of_reasons(tmp_path: Path) -> None:
    path, odd = tmp_path / "banned.toml", "copied\n\x07ker\u202enels \x7f🙂"
    upkeep.ban(path, replace(ALICE, reason=odd))
    upkeep.strike(tmp_path, SUBMISSIONS, "founders-triton", STRUCK, why=odd, today=date(2026, 11, 24))

    assert ["copied kernels 🙂"] == [one.reason for one in read_bans(path)]
    assert {"copied kernels 🙂"} == {one.why for one in read_strikes(tmp_path)}
    assert "copied kernels 🙂" in (tmp_path / "notices.json").read_text()


def strike(data: Path) -> None:
    upkeep.strike(data, SUBMISSIONS, "founders-triton", STRUCK, why="x", today=date(2026, 11, 24))


def test_a_kernel_is_struck_once(tmp_path: Path) -> None:
    strike(tmp_path)
    with pytest.raises(UpkeepError, match="struck already, since 2026-11-24"):
        strike(tmp_path)
    assert 1 == len(json.loads((tmp_path / "notices.json").read_text()))


def test_a_struck_kernel_counts_as_missing_and_its_entry_keeps_a_rank(tmp_path: Path) -> None:
    recorded = tmp_path / "results/H200/founders-triton.json"
    recorded.parent.mkdir(parents=True)
    shutil.copy(DATA / "results/H200/founders-triton.json", recorded)

    def standing() -> Standing:
        ((found,),) = (board.standings for board in load_boards(tmp_path, SUBMISSIONS))
        return found

    before = standing()
    row = next(row for row in before.result.rows if row.is_correct and row.key.level == 2)
    upkeep.strike(tmp_path, SUBMISSIONS, "founders-triton", str(row.key), why="x", today=date(2026, 11, 24))
    after = standing()

    assert (before.rank, after.rank) == (1, 1)
    assert before.overall.correct - 1 == after.overall.correct
    assert before.failures["missing"] + 1 == after.failures["missing"]


def test_a_strike_that_cannot_be_told_in_public_is_none(tmp_path: Path) -> None:
    (tmp_path / "notices.json").write_text("{}")
    with pytest.raises(StoreError, match=r"notices\.json"):
        strike(tmp_path)
    assert () == read_strikes(tmp_path)


def test_a_strike_that_a_full_disk_cuts_off_is_told_first_and_once(tmp_path: Path) -> None:
    old = {"date": "2026-01-01", "entry": "other", "what": "Withdrawn", "why": "y" * 4000}
    (tmp_path / "notices.json").write_text(json.dumps([old]))
    with room_for(4000), pytest.raises(OSError, match="File too large"):
        strike(tmp_path)
    assert () == read_strikes(tmp_path)
    strike(tmp_path)
    (tmp_path / "struck.json").unlink()  # as where it was killed in between
    strike(tmp_path)
    assert 2 == len(json.loads((tmp_path / "notices.json").read_text()))


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file be written that is larger, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_entry_of_another_precision_is_never_due(tmp_path: Path) -> None:
    whole = ["founders-triton", "founders-triton-bf16"]
    found = upkeep.due(
        tmp_path, SUBMISSIONS, "H200-bf16", engine="modal", gpu="H100", precision="bf16", whole=whole
    )

    assert ["founders-triton-bf16"] == [one.submission.entry for one in found]


BAN = '[[banned]]\nid = 1\nlogin = "a"\nsince = "2026-11-01"\nreason = "why"\n'


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("reason =", "reasn =", r"ban 1: missing \['reason'\], unknown \['reasn'\]"),
        ("[[banned]]", "", "must hold .*banned.* tables alone, got id"),
        ("[[banned]]", "[banned]", "tables alone"),
        ("id = 1", 'id = "1"', "ban 1: id must be a whole number, got '1'"),
        ('"2026-11-01"', "2026-11-01", "ban 1: since must be text in quotes, got datetime.date"),
        ("[[banned]]", "\ufeff[[banned]]", "byte-order mark"),
        (BAN, "[", "Invalid"),
    ],
)
def test_a_mistake_in_the_list_of_bans_lets_nobody_in(
    tmp_path: Path, before: str, after: str, words: str
) -> None:
    (tmp_path / "banned.toml").write_text(BAN.replace(before, after))

    with pytest.raises(StoreError, match=rf"banned\.toml: not a list of bans: .*{words}"):
        read_bans(tmp_path / "banned.toml")


@pytest.mark.parametrize(
    ("read", "name", "item", "words"),
    [
        (read_strikes, "struck.json", {"why": 3}, "item 2: why must be text in quotes, got 3"),
        (read_notices, "notices.json", {"date": None}, "item 2: date must be text in quotes, got None"),
        (read_notices, "notices.json", {"date": "lately"}, "item 2: date must be YYYY-MM-DD, got 'lately'"),
        (read_notices, "notices.json", {"date": "2026-02-30"}, "item 2: date must be YYYY-MM-DD"),
        (read_notices, "notices.json", {"date": "20260230"}, "item 2: date must be YYYY-MM-DD"),
        (read_strikes, "struck.json", {"day": ""}, "item 2: day must be YYYY-MM-DD, got ''"),
        (read_reviews, "reviews/2026-11.json", {"day": "2026-11"}, "item 2: day must be YYYY-MM-DD"),
        (read_reviews, "reviews/2026-11.json", {"differs": []}, "item 2: differs must be"),
        (read_reviews, "reviews/2026-11.json", {"differs": {"level_1": ""}}, "item 2: .*level_1"),
        (read_all, "spending/2026-11.json", {"usd": "3"}, "item 2: usd must be a finite number, got '3'"),
        (read_all, "spending/2026-11.json", {"day": "1 May"}, "item 2: day must be YYYY-MM-DD"),
        (read_all, "spending/2026-11.json", {"usd": -0.01}, "item 2: usd must be 0 or more, got -0.01"),
        (read_all, "spending/2026-11.json", {"seconds": -1}, "item 2: seconds must be 0 or more, got -1"),
        (
            read_all,
            "spending/2026-11.json",
            {"calls": -1},
            "item 2: calls must be 0 to 1,000,000,000, got -1",
        ),
    ],
)
def test_a_mistake_in_a_list_is_named_with_the_item_and_the_field(
    tmp_path: Path, read: Callable[[Path], object], name: str, item: dict[str, object], words: str
) -> None:
    of_each = {
        "struck": {"entry": "a", "key": "k", "kernel_sha256": "0", "day": "2026-11-01", "why": "w"},
        "notices": {"date": "2026-11-01", "entry": "a", "what": "w", "why": "w"},
        "reviews": {"day": "2026-11-01", "run": 1, "verb": "again", "board": "b", "entry": "a"}
        | {"revision": 1, "kernels": 1, "differs": {}},
        "spending": {"day": "2026-11-01", "run": 1, "entry": "a", "board": "b", "usd": 3},
    }
    fine = of_each[Path(name).parts[0].removesuffix(".json")]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([fine]))
    read(tmp_path)
    path.write_text(json.dumps([fine, fine | item]))

    with pytest.raises(StoreError, match=f"{path.name}: not a list of .*{words}"):
        read(tmp_path)


def test_a_struck_kernel_is_missing_for_every_reader_and_no_other_version_or_copy_is(tmp_path: Path) -> None:
    result = read_result(recorded_path(DATA, "H100", "founders-triton"))
    known = read_submissions(SUBMISSIONS, ["founders-triton"])
    row = result.rows[0]
    upkeep.strike(
        tmp_path, SUBMISSIONS, "founders-triton", str(row.key), why="because", today=date(2026, 11, 24)
    )
    (found,) = merged_results(tmp_path, [result], known)

    assert {row.key} == {r.key for r in result.rows} - {r.key for r in found.rows}
    assert "because" in (tmp_path / "notices.json").read_text()

    text = (tmp_path / "struck.json").read_text()
    for other in (
        text.replace(row.kernel_sha256, "0" * 64),
        text.replace("founders-triton", "founders-cuda"),
    ):
        (tmp_path / "struck.json").write_text(other)
        (found,) = merged_results(tmp_path, [result], known)
        assert result.rows == found.rows


def test_a_strike_needs_a_kernel_that_is_there_and_a_reason(tmp_path: Path) -> None:
    for entry, key, why in (("nobody", "x", "y"), ("founders-triton", "level_1_problem_101_sample_0", "y")):
        with pytest.raises(UpkeepError):
            upkeep.strike(tmp_path, SUBMISSIONS, entry, key, why=why, today=date(2026, 11, 24))


def test_what_is_due_comes_cheapest_first_and_no_more_than_the_dollars_pay(tmp_path: Path) -> None:
    (tmp_path / "results/H200").mkdir(parents=True)
    whole = ["founders-triton", "founders-cuda", "founders-cutile"]
    for entry in whole[:2]:
        recorded_path(tmp_path, "H200", entry).symlink_to(recorded_path(DATA, "H200", entry))
    listed = upkeep.due(tmp_path, SUBMISSIONS, "H200", engine="modal", gpu="H100", whole=whole)
    costs = [one.cost.usd for one in listed]

    assert sorted(costs) == costs
    assert set(whole) == {one.submission.entry for one in listed}
    assert listed[:1] == affordable(listed, costs[0] + 0.001)
    assert [] == affordable(listed, 0.0)
    priced = [replace(listed[0], cost=replace(listed[0].cost, usd=usd)) for usd in (1.0, 9.0, 1.0)]
    assert priced[:1] == affordable(priced, 3.0), "what waits longest is never passed over"
    assert priced[:2] == affordable(priced, 10.0), "the last dollar pays too"


def test_what_another_evaluator_judged_and_what_waits_for_a_verdict_or_its_second_is_due(
    tmp_path: Path,
) -> None:
    (path,) = DATA.glob("results/H200/founders-triton.json")
    values = json.loads(path.read_text())
    for row in values["rows"]:
        row["evaluator_sha256"] = evaluator_sha256()
    old, lost, *good = values["rows"]
    old["evaluator_sha256"] = "0" * 64
    values["rows"][1] = {name: lost[name] for name in lost.keys() - TIMED} | {"status": "infra_error"}
    once = next(row for row in good if row.get("second"))
    del once["second"]
    (tmp_path / "results/H200").mkdir(parents=True)
    (tmp_path / "results/H200/founders-triton.json").write_text(json.dumps(values))

    digests = read_submissions(SUBMISSIONS, ["founders-triton"])["founders-triton"].digests
    judged = {row["key"]: row["kernel_sha256"] for row in good if row is not once}
    left = {str(key) for key, digest in digests.items() if judged.get(str(key)) != digest}
    listed = upkeep.due(tmp_path, SUBMISSIONS, "H200", engine="modal", gpu="H100")
    assert {old["key"], lost["key"], once["key"]} <= left
    assert left == {str(key) for one in listed for key in one.kernels}


def test_what_is_due_goes_by_what_counts_for_the_merged_file(tmp_path: Path) -> None:
    merged = read_result(recorded_path(DATA, "H100", "first-light"))
    merged = replace(merged, rows=tuple(replace(r, evaluator_sha256=evaluator_sha256()) for r in merged.rows))
    unmerged = replace(merged, revision=merged.revision + 1, submission_sha256="0" * 64, rows=())
    write_atomically(history_path(tmp_path, "H100", "first-light", merged.revision), dump_result(merged))
    write_atomically(recorded_path(tmp_path, "H100", "first-light"), dump_result(unmerged))

    def listed(whole: list[str] | None = None) -> list[str]:
        found = upkeep.due(tmp_path, SUBMISSIONS, "H100", engine="modal", gpu="H100", whole=whole)
        return [one.submission.entry for one in found]

    assert [] == listed(), "a version that nobody merged is not what is due"
    write_atomically(recorded_path(tmp_path, "H100", "first-light"), dump_result(replace(merged, rows=())))
    assert ["first-light"] == listed()
    assert [] == listed(whole=[]), "a second look at a board without ranks judges nothing"
