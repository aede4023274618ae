"""Pictures for link previews, as PNG: an entry's name, its figures and its interval."""

from __future__ import annotations

import io
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

from leaderboard.render import places
from leaderboard.render.parts import numbers
from leaderboard.render.parts.lines import EntryLine
from leaderboard.render.site import BoardView, Site

SIZE = (1200, 630)
SITE_PICTURE = "pictures/site.png"
_INK, _GREY, _ACCENT, _RULE = 11, 7, 14, 15
"""Places in a palette of sixteen, four bits a pixel; the edges of letters lie between 0 and ink."""
_PAPER_RGB, _INK_RGB = (252, 252, 250), (24, 26, 31)
_ACCENT_RGB, _RULE_RGB = (11, 107, 99), (221, 222, 217)


def write_picture(site: Site, view: BoardView, line: EntryLine) -> None:
    """Draw an entry's picture."""
    scores = line.standing.overall
    low, high = (numbers.speedup(bound) for bound in line.standing.deployed_ci95)
    below = [
        ("geomean", f"{numbers.speedup(scores.geomean_speedup)}", f"n = {scores.geomean_n}"),
        ("fast@1", _percent(scores.fast[1.0]), f"of {scores.problems} problems"),
        ("correct", _percent(scores.correct_rate), f"{scores.correct} of {scores.problems}"),
    ]
    rank = f"rank {line.rank} on {view.title}" if line.standing.rank is not None else view.title
    headline = f"{numbers.speedup(scores.deployed_speedup)}"
    note = f"deployed speedup over PyTorch, 95 % interval {low} to {high}"
    picture = _draw((line.name, rank, headline, note), below)
    site.folder.write(places.picture(view.name, line.standing.entry), picture)


def write_site_picture(site: Site) -> None:
    """Draw the picture of the site itself."""
    boards = ", ".join(view.title for view in site.boards) or "no board yet"
    entries = sum(len(view.entries) for view in site.boards)
    below = [
        ("boards", str(len(site.boards)), ""),
        ("entries", str(entries), ""),
        ("problems", str(len(site.problems)), ""),
    ]
    texts = (
        site.data.config.title,
        numbers.plain(boards, 60),
        "GPU kernels",
        "written by language models, judged and timed",
    )
    site.folder.write(SITE_PICTURE, _draw(texts, below))


def _draw(texts: tuple[str, str, str, str], below: list[tuple[str, str, str]]) -> bytes:
    picture = Image.new("L", SIZE, 0)
    draw = ImageDraw.Draw(picture)
    title, subtitle, headline, note = texts
    draw.rectangle((0, 0, 14, SIZE[1]), fill=_ACCENT)
    draw.text((80, 70), numbers.plain(title, 34), fill=_INK, font=_font(58))
    draw.text((80, 148), subtitle, fill=_GREY, font=_font(32))
    draw.text((80, 214), headline, fill=_INK, font=_font(118))
    draw.text((80, 360), note, fill=_GREY, font=_font(30))
    draw.rectangle((80, 428, 1120, 430), fill=_RULE)
    for at, (label, value, unit) in enumerate(below):
        left = 80 + 360 * at
        draw.text((left, 452), label, fill=_GREY, font=_font(28))
        draw.text((left, 488), value, fill=_INK, font=_font(50))
        draw.text((left, 552), unit, fill=_GREY, font=_font(24))
    picture.putpalette(_palette())  # text runs from paper to ink, two values are accent and rule
    stream = io.BytesIO()
    picture.save(stream, "PNG", compress_level=1, bits=4)
    return stream.getvalue()


def _percent(share: float) -> str:
    return numbers.percent(share).replace(numbers.NARROW, " ")  # not every font has the narrow one


@lru_cache
def _palette() -> bytes:
    colours = []
    for index in range(16):
        share = min(index / _INK, 1.0)
        colours.append(tuple(round(p + (i - p) * share) for p, i in zip(_PAPER_RGB, _INK_RGB, strict=True)))
    colours[_ACCENT], colours[_RULE] = _ACCENT_RGB, _RULE_RGB
    return bytes(value for colour in colours for value in colour)


@lru_cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    for name in ("DejaVuSans.ttf", "Arial.ttf", "Helvetica.ttc"):
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)
