"""The distributions that timed inputs are drawn from, and which of them were looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kernel_evaluator import secret_draws


class Deck:
    """The distributions that timed inputs are drawn from, by their shares, each call's for itself.

    Of those that decide and on which no output was compared yet, `unseen`, there is one a round.
    """

    def __init__(self, shares: Mapping[str, float]) -> None:
        self._shares = dict(shares)
        equal = max(shares.values(), default=0.0)
        self.seen: set[str] = set()
        self.dealt: Counter[str] = Counter()
        self._told = {name for name, share in shares.items() if share == equal}

    @property
    def unseen(self) -> set[str]:
        """What is still to be looked at while timing goes on."""
        return self._told - self.seen

    def deal(self, calls: int) -> list[str]:
        """Draw a distribution for each call of a round."""
        names = secret_draws.weighed(self._shares, calls)
        if self.unseen:
            names[secret_draws.one(range(calls))] = secret_draws.one(sorted(self.unseen))
        self.dealt.update(names)
        return names

    def see(self, name: str) -> None:
        """Note that an output on this distribution was compared."""
        self.seen.add(name)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Within this no look counts: who knows that a call is alone may be right there and nowhere else."""
        seen = set(self.seen)
        yield
        self.seen = seen

    def drop(self, name: str) -> None:
        """Deal a distribution no more that says nothing, unless there is no other."""
        self.seen.add(name)
        if len(self._shares) > 1:
            self._shares.pop(name, None)
