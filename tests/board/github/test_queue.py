"""Who goes first, who waits where, and that nothing is lost on the way through the queue."""

import functools
import json
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from leaderboard.files.store import StoreError
from leaderboard.github import queue
from leaderboard.github.queue import QueueItem

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)


def item(pull: int, *, by: str = "maria", author: int = 0, minute: int = 0, **facts: object) -> QueueItem:
    values = {
        "pull": pull,
        "head_sha": f"{pull:040x}",
        "board": "H100",
        "entry": f"entry-{pull}",
        "path": f"submissions/entry-{pull}.json",
        "blob_sha": "b" * 40,
        "submission_sha256": "c" * 64,
        "display_name": "x",
        "kernels": 250,
        "asked_by": by,
        "author": author or pull,
        "asked_at": queue.stamp(NOW + timedelta(minutes=minute)),
        "seconds": 600.0,
    }
    return QueueItem(**{**values, **facts})


def run(found: queue.Queue, one: QueueItem, number: int = 1) -> queue.Queue:
    return queue.replaced(found, one, queue.begun(one, run=number, max_usd=60.0, now=NOW))


def test_the_oldest_goes_first() -> None:
    waiting = (item(3, minute=3), item(1, minute=1), item(2, minute=2))

    assert [1, 2, 3] == [one.pull for one in queue.in_order(waiting, "H100")]


def test_a_maintainer_who_labels_forty_keeps_another_waiting_for_one() -> None:
    crowd = tuple(item(n, minute=n) for n in range(1, 41))
    waiting = (*crowd, item(99, by="paul", minute=50))

    assert [1, 99, 2] == [one.pull for one in queue.in_order(waiting, "H100")][:3]


def test_a_sender_of_forty_keeps_another_waiting_for_one() -> None:
    crowd = tuple(item(n, author=7, minute=n) for n in range(1, 41))
    waiting = (*crowd, item(99, author=8, minute=50))

    assert [1, 99, 2] == [one.pull for one in queue.in_order(waiting, "H100")][:3]


@pytest.mark.parametrize("whose", [{"by": "paul"}, {"author": 8}])
def test_who_has_one_at_work_waits_for_another_who_has_none(whose: dict) -> None:
    mine = [item(n, author=7, minute=n) for n in (1, 2)]
    there = run((*mine, item(3, **{"author": 7, "minute": 3, **whose})), mine[0])

    assert [3, 2] == [one.pull for one in queue.in_order(there, "H100")]


def test_new_ones_of_others_never_push_back_what_waits_longest() -> None:
    oldest = item(1, minute=0)
    newer = tuple(item(n, by=f"maintainer-{n}", author=n, minute=n) for n in range(2, 30))

    assert oldest == queue.in_order((*newer, oldest), "H100")[0]


def test_no_more_run_than_may_and_boards_do_not_wait_for_each_other() -> None:
    there = (item(1), item(2), item(3, board="B200"))
    there = run(there, there[0])

    assert queue.next_up(there, "H100", 1) is None
    assert 2 == queue.next_up(there, "H100", 2).pull
    assert 3 == queue.next_up(there, "B200", 1).pull


def test_labelling_again_keeps_the_place_and_a_new_commit_takes_a_new_one() -> None:
    there = (item(1, minute=1), item(2, minute=2))
    same = queue.with_item(there, item(1, minute=9))
    pushed = queue.with_item(there, item(1, minute=9, head_sha="e" * 40))

    assert [1, 2] == [one.pull for one in queue.in_order(same, "H100")]
    assert [2, 1] == [one.pull for one in queue.in_order(pushed, "H100")]
    assert 2 == len(same) == len(pushed)


def test_a_commit_at_work_is_known_as_that_and_nothing_that_is_asked_for_takes_its_place() -> None:
    there = run((item(1), item(2)), item(1))
    pushed = item(1, head_sha="e" * 40)

    assert queue.running(there, item(1))
    others = (item(2), pushed, item(1, board="B200"), item(3, head_sha=item(1).head_sha))
    assert not any(queue.running(there, other) for other in others)
    assert (*there, pushed) == queue.with_item(there, pushed)


def test_merged_entries_wait_beside_each_other_and_each_but_once() -> None:
    there = tuple(item(0, entry=name, verb="again") for name in ("a", "b", "a"))
    waiting = functools.reduce(queue.with_item, there, ())

    assert ["b", "a"] == [one.entry for one in waiting]
    assert [True, False] == [one.is_fresh for one in (there[0], item(0, verb="due"))]


def test_the_place_and_the_time_follow_from_those_before() -> None:
    there = tuple(item(n, minute=n) for n in range(1, 5))
    there = run(there, there[0])
    last = queue.place_of(there, there[3], 2, NOW)

    assert (3, 3) == (last.number, last.waiting)
    assert NOW + 2 * timedelta(seconds=600 + queue.PUBLISHING_S) == last.done_at


def test_the_time_that_is_told_waits_for_the_first_to_end_and_for_no_other_board() -> None:
    long, short, other = item(1, seconds=3000.0), item(2), item(3, board="B200", seconds=1.0)
    there = (*(run((one,), one)[0] for one in (long, short, other)), item(4))
    each = timedelta(seconds=600 + queue.PUBLISHING_S)
    late = NOW + timedelta(hours=9)

    assert NOW + 2 * each == queue.place_of(there, there[3], 2, NOW).done_at
    assert late + each == queue.place_of(there, there[3], 2, late).done_at


def test_what_was_put_back_waits_in_its_old_place() -> None:
    there = (item(1, minute=1), item(2, minute=2))
    begun = run(there, there[0])

    assert there == queue.replaced(begun, begun[0], queue.waiting(begun[0]))


def test_a_run_that_works_off_a_second_one_names_each_by_itself() -> None:
    there = run(run((item(1), item(2)), item(1)), item(2))

    assert there[:1] == queue.without(there, there[1].ticket)
    assert [1] == [one.pull for one in queue.overdue(queue.due_at_once(there, there[0].ticket), NOW)]


def test_what_should_have_ended_is_looked_after_and_what_was_untold_at_once() -> None:
    there = run((item(1), item(2)), item(1))
    due = NOW + timedelta(seconds=2 * 600 + 3600)

    assert () == queue.overdue(there, due)
    assert there[:1] == queue.overdue(there, due + timedelta(seconds=1))
    assert 1 == len(queue.overdue(queue.due_at_once(there, there[0].ticket), NOW))


def test_a_queue_survives_its_file(tmp_path: Path) -> None:
    there = run((item(1), replace(item(2), usd=12.5)), item(1))
    queue.write(tmp_path, there)

    assert there == queue.read(tmp_path)
    assert () == queue.read(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"due": "garbage", "run": 5}, "due must be a moment such as .*, got 'garbage'"),
        ({"due": "", "run": 5}, "due must be a moment"),
        ({"asked_at": "2026-11-24"}, "asked_at must be a moment"),
        ({"seconds": "a"}, "item 1: seconds must be a finite number, got 'a'"),
        ({"usd": "1"}, "usd must be a finite number or null, got '1'"),
        ({"pull": None}, "pull must be a whole number, got None"),
        ({"run": True}, "run must be a whole number, got True"),
        ({"strange": 1}, "strange"),
    ],
)
def test_a_value_that_no_item_can_have_is_named(tmp_path: Path, facts: dict, words: str) -> None:
    text = json.dumps([{**asdict(item(1)), **facts}])
    (tmp_path / queue.FILE).write_text(text)

    with pytest.raises(StoreError, match=f"queue.json: not a queue: .*{words}"):
        queue.read(tmp_path)


@pytest.mark.parametrize("text", ['[{"pull": 1}]', "[null]", "{}"])
def test_a_broken_file_is_an_error_and_no_empty_queue(tmp_path: Path, text: str) -> None:
    (tmp_path / queue.FILE).write_text(text)

    with pytest.raises(StoreError, match="not a queue"):
        queue.read(tmp_path)
