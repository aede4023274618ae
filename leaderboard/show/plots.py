"""Pictures of scores, for people's own papers and reports. Needs matplotlib; the board draws its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kernel_evaluator.machine.extras import require

from leaderboard.files.store import written_beside


class PlotError(Exception):
    """The picture cannot be drawn. The message says what to do."""


def draw_fast_p(path: Path, title: str, curves: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Draw fast_p over p, a step curve for each reference; the file's suffix chooses the format."""
    require("plots", "drawing")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for name, points in curves.items():
        axes.step([p for p, _ in points], [share for _, share in points], where="post", label=name)
    axes.axvline(1.0, color="grey", linewidth=0.8, linestyle="--")
    axes.set(xlabel="p", ylabel="share of problems correct and faster than p", title=title, ylim=(0, None))
    axes.legend()
    try:
        with written_beside(path) as beside:
            figure.savefig(beside, format=path.suffix[1:] or None)
    except ValueError as error:
        raise PlotError(f"{path}: {error}") from error
    finally:
        pyplot.close(figure)
