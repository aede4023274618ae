"""What a kernel cannot know: every secret that judging draws, in one place.

All come from the system's generator. No process of a candidate's is told one before it has been used.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, MutableSequence, Sequence
from typing import TypeVar

T = TypeVar("T")

_SEED_BITS = 60
_random = random.SystemRandom()


def seed() -> int:
    """Draw the seed of inputs, of weights or of a call: what the numbers are."""
    return _random.getrandbits(_SEED_BITS)


def uid(first: int, count: int) -> int:
    """Draw whose user a candidate's process is, of `count` from `first`: whom it cannot signal."""
    return first + _random.randrange(count)


def folder_name() -> str:
    """Draw the name of a folder that a build works in: where nobody else can wait for it."""
    return f"{_random.getrandbits(128):032x}"


def dealt(calls: int, reference_calls: int, count: int) -> list[tuple[list[int], list[int]]]:
    """Deal input sets into parts, one a round: in which order they are called, which the reference runs.

    `reference_calls` of the `calls` are the reference's, as near as parts allow, and one a part at least.
    """
    order = _random.sample(range(calls), calls)
    parts = []
    for first in range(min(count, calls)):
        piece = order[first::count]
        chosen = set(_random.sample(piece, max(1, len(piece) * reference_calls // calls)))
        parts.append((piece, [at for at in piece if at in chosen]))
    return parts


def shuffle(turns: MutableSequence[T]) -> None:
    """Draw which side goes first."""
    _random.shuffle(turns)


def in_any_order(things: Sequence[T]) -> list[T]:
    """Draw the order of distributions, of sides, or of outputs to look at."""
    return _random.sample(things, len(things))


def weighed(shares: Mapping[str, float], count: int) -> list[str]:
    """Draw the distribution of each of so many calls, by shares, each for itself."""
    return _random.choices([*shares], [*shares.values()], k=count)


def one(things: Sequence[T]) -> T:
    """Draw a distribution, a call, or an input set to look at."""
    return _random.choice(things)


def happens(chance: float) -> bool:
    """Draw whether a round is looked at."""
    return _random.random() < chance
