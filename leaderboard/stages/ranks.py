"""Who shares a rank, leader by leader: what follows a leader hangs on nothing that comes before it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from kernel_evaluator import scores

from leaderboard.stages.known import Known, digest_of

TOGETHER = 128
"""Entries that are looked at together where nothing is known; twice as many where all share one rank."""
_END = ""


def shared_ranks(gains: Mapping[str, scores.Gains], known: Known) -> dict[str, int]:
    """Rank entries as `scores.shared_ranks` does, anew only behind leaders whose followers are others."""
    names = sorted(gains, key=lambda name: (-float(gains[name].sum()), name))
    digests = [*(digest_of("leads", gains[name]) for name in names), _END]
    ranks: dict[str, int] = {}
    leader = 0
    while leader < len(names):
        behind = known.get(digests[leader])  # who shares its rank, and who leads the next one
        following = leader + len(behind or ())
        if behind is None or tuple(digests[leader + 1 : following + 1]) != behind:
            found = [leader + at for at in _leaders(names[leader:], gains)]
            known.used |= {
                digests[one]: tuple(digests[one + 1 : next_ + 1]) for one, next_ in pairwise(found)
            }
            continue
        ranks |= dict.fromkeys(names[leader:following], leader + 1)
        leader = following
    return ranks


def _leaders(names: Sequence[str], gains: Mapping[str, scores.Gains]) -> list[int]:
    """Give the places of the first leaders, two at least; the end counts as one."""
    size = TOGETHER
    while True:
        ranks = scores.shared_ranks({name: gains[name] for name in names[:size]})
        found = sorted({rank - 1 for rank in ranks.values()})
        if size >= len(names):
            return [*found, len(names)]
        if len(found) > 1:
            return found
        size *= 2
