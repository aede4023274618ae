"""Pictures for link previews, as PNG: of boards, entries and problems, each with its date."""

from __future__ import annotations

import io
import unicodedata
from dataclasses import dataclass
from functools import lru_cache, partial

from PIL import Image, ImageDraw, ImageFont

from leaderboard.render import places
from leaderboard.render.pages.answers import answer
from leaderboard.render.pages.problems import results
from leaderboard.render.parts import numbers
from leaderboard.render.parts.lines import EntryLine
from leaderboard.render.site import BoardView, Site, problem_title
from leaderboard.render.stamp import digest
from leaderboard.stages.standings import Against

SIZE = (1200, 630)
SHORT = 36
"""Characters of a title that fit in the large size."""
SITE_PICTURE = "pictures/site.png"
_FONTS = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "NotoSansCJK-Regular.ttc",
    "NotoSansArabic-Regular.ttf",
    "NotoSansDevanagari-Regular.ttf",
    "Arial Unicode.ttf",
    "Arial.ttf",
    "Helvetica.ttc",
)
"""Fonts by the names that systems have for them; the first that has a text is taken."""
_ASCENT = 0.93
"""How far below a line's top its letters stand, by their size: the same in every font."""
_INK, _GREY, _ACCENT, _RULE = 5, 3, 6, 7
"""Places in a palette of eight; the edges of letters lie between 0 and ink: more shades double the file."""
_PAPER_RGB, _INK_RGB = (252, 252, 250), (24, 26, 31)
_ACCENT_RGB, _RULE_RGB = (11, 107, 99), (221, 222, 217)


@dataclass(frozen=True, kw_only=True)
class _Sheet:
    """What stands on a picture; `below` are three figures, each with its label and unit."""

    title: str
    subtitle: str
    headline: str
    note: str
    below: list[tuple[str, str, str]]
    foot: str


def write_picture(site: Site, view: BoardView, line: EntryLine) -> None:
    """Draw an entry's picture: who, on which board, when, and how fast."""
    scores = line.standing.overall
    low, high = (numbers.speedup(bound) for bound in line.standing.deployed_ci95)
    below = [
        *_over_best(line.standing.against.get("best")),
        ("correct", _percent(scores.correct_rate), f"{scores.correct} of {scores.problems}"),
        ("fast@1", _percent(scores.fast[1.0]), f"of {scores.problems} problems"),
    ]
    rank = f"rank {line.rank} on {view.title}" if line.standing.rank is not None else view.title
    headline = f"{numbers.speedup(scores.deployed_speedup)}"
    note = f"over eager PyTorch, 95 % interval {low} to {high}"
    sheet = _Sheet(
        title=_covered(line.name, line.standing.entry),
        subtitle=" · ".join(filter(None, (_covered(line.organization, ""), rank))),
        headline=headline,
        note=note,
        below=below,
        foot=f"{site.data.config.title} · {line.date}",
    )
    _write(site, places.picture(view.name, line.standing.entry), sheet)


def write_board_picture(site: Site, view: BoardView) -> None:
    """Draw a board's picture: its best entry, what is unsolved, the day."""
    found = answer(site, view)
    if found is None:
        return
    best = found.best.standing
    cheats = str(found.rates.cheats) if found.rates else numbers.NONE
    beside = f" of {numbers.count(view.sent)} entries" if view.sent > 1 else ""
    sheet = _Sheet(
        title=f"{site.data.config.title}: {view.title}",
        subtitle=f"{_covered(found.best.name, best.entry)}, {found.place}{beside}",
        headline=numbers.speedup(best.overall.deployed_speedup),
        note=f"over eager PyTorch, 95 % interval {numbers.interval(best.deployed_ci95)}",
        below=[
            *_over_best(found.against_best),
            ("problems solved", f"{found.solved}", f"of {found.problems}"),
            ("cheats tried", cheats, f"{found.rates.won or 'none'} won" if found.rates else ""),
        ],
        foot=f"{site.data.config.title} · {numbers.date(view.updated)}",
    )
    _write(site, places.board_picture(view.name), sheet)


def _over_best(held: Against | None) -> list[tuple[str, str, str]]:
    """Give the figure over the best of PyTorch; none where only eager PyTorch was measured."""
    return [("over the best of PyTorch", numbers.speedup(held.deployed_speedup), "deployed")] if held else []


def write_problem_picture(site: Site, problem: str) -> None:
    """Draw a problem's picture: the fastest kernel on the first board."""
    item = site.problems[problem]
    view = site.boards[0] if site.boards else None
    found = results(site, view, problem) if view else None
    best, roof = (found.best_sent, found.roof) if found else (None, None)
    light = numbers.milliseconds(roof.light_ms).replace(numbers.NARROW, " ") if roof else numbers.NONE
    sheet = _Sheet(
        title=f"{item.level}/{item.problem_id} {problem_title(item.name)}",
        subtitle=f"on {view.title}" if view else "no board yet",
        headline=numbers.speedup(best.speedup) if best else "unsolved",
        note=f"over eager PyTorch, by {_covered(view.names[best.entry].name, best.entry)}"
        if best and view
        else "",
        below=[
            ("over the best of PyTorch", numbers.speedup(found.over_best if found else None), ""),
            ("light speed", light, f"{roof.bound}-bound" if roof else ""),
            (
                "of light speed",
                _percent(best.light_share) if best and best.light_share else numbers.NONE,
                "reached",
            ),
        ],
        foot=site.data.config.title + (f" · {numbers.date(view.updated)}" if view else ""),
    )
    _write(site, places.problem_picture(problem), sheet)


def write_comparison_picture(
    site: Site,
    view: BoardView,
    sides: tuple[EntryLine, EntryLine],
    *,
    wins: tuple[int, int],
    ties: int,
    ratio: float | None,
) -> None:
    """Draw a comparison's picture: who wins how often, and by how much."""
    names = [_covered(line.name, line.standing.entry) for line in sides]
    sheet = _Sheet(
        title=f"{names[0]} against {names[1]}",
        subtitle=f"head to head on {view.title}",
        headline=f"{wins[0]} : {wins[1]}",
        note=f"wins beyond doubt on {numbers.counted(sum(wins) + ties, 'problem')} that both solve; "
        f"{numbers.counted(ties, 'tie')}",
        below=[
            ("first over second", numbers.speedup(ratio), "geomean of both"),
            *(
                (
                    numbers.plain(name, 24),
                    numbers.speedup(line.standing.overall.deployed_speedup),
                    "over eager PyTorch",
                )
                for name, line in zip(names, sides, strict=True)
            ),
        ],
        foot=f"{site.data.config.title} · {max(line.date for line in sides)}",
    )
    a, b = (line.standing.entry for line in sides)
    _write(site, places.versus_picture(view.name, a, b), sheet)


def write_site_picture(site: Site) -> None:
    """Draw the picture of the site itself."""
    boards = ", ".join(view.title for view in site.boards) or "no board yet"
    entries = {entry for view in site.boards for entry in view.names.keys() - view.baselines}
    sheet = _Sheet(
        title=site.data.config.title,
        subtitle=numbers.plain(boards, 60),
        headline="GPU kernels",
        note="written by language models, judged and timed",
        below=[
            ("boards", str(len(site.boards)), ""),
            ("entries", str(len(entries)), ""),
            ("problems", str(len(site.problems)), ""),
        ],
        foot=max((numbers.date(view.updated) for view in site.boards), default=""),
    )
    _write(site, SITE_PICTURE, sheet)


def _write(site: Site, name: str, sheet: _Sheet) -> None:
    site.folder.write_made(name, digest(sheet, _fonts_here()), partial(_draw, sheet))


def _draw(sheet: _Sheet) -> bytes:
    picture = Image.new("L", SIZE, 0)
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, 14, SIZE[1]), fill=_ACCENT)
    title = numbers.plain(sheet.title, 50)
    for top, size, fill, text in (
        (60, 54 if len(title) <= SHORT else 38, _INK, title),
        (134, 30, _GREY, numbers.plain(sheet.subtitle, 64)),
        (190, 112, _INK, sheet.headline),
        (330, 30, _GREY, numbers.plain(sheet.note, 64)),
        (572, 26, _GREY, sheet.foot),
    ):
        _write_text(draw, (80, top), text, size, fill)
    draw.rectangle((80, 392, 1120, 394), fill=_RULE)
    for at, (label, value, unit) in enumerate(sheet.below):
        left = 80 + 360 * at
        _write_text(draw, (left, 412), label, 26, _GREY)
        _write_text(draw, (left, 446), value, 48, _INK)
        _write_text(draw, (left, 508), unit, 24, _GREY)
    picture.putpalette(_palette())  # text runs from paper to ink, two values are accent and rule
    stream = io.BytesIO()
    picture.save(stream, "PNG", compress_level=6, bits=4)
    return stream.getvalue()


def _percent(share: float) -> str:
    return numbers.percent(share).replace(numbers.NARROW, " ")  # not every font has the narrow one


@lru_cache
def _palette() -> bytes:
    colours = []
    for index in range(8):
        share = min(index / _INK, 1.0)
        colours.append(tuple(round(p + (i - p) * share) for p, i in zip(_PAPER_RGB, _INK_RGB, strict=True)))
    colours[_ACCENT], colours[_RULE] = _ACCENT_RGB, _RULE_RGB
    return bytes(value for colour in colours for value in colour)


def not_covered(site: Site) -> list[str]:
    """Name the entries whose pictures show something else, since no font here has all signs of a name."""
    lines = (line for view in site.boards for line in view.entries)
    return sorted(
        {line.standing.entry for line in lines if not _is_covered(f"{line.name} {line.organization}")}
    )


def _covered(text: str, instead: str) -> str:
    """Give a text that the fonts here can draw, or what stands for it: nobody reads boxes."""
    return text if _is_covered(text) else instead


def _is_covered(text: str) -> bool:
    return all(_font_of(sign) for sign in set(text) if not _clings(sign))


def _write_text(draw: ImageDraw.ImageDraw, place: tuple[int, int], text: str, size: int, fill: int) -> None:
    """Draw a line of text: in the first font that has all of it, else each part in one that has that."""
    left, top = place
    for name, part in _parts(text):
        font = _font(name, size)
        draw.text((left, top + _ASCENT * size), part, fill=fill, font=font, anchor="ls")
        left += round(draw.textlength(part, font=font))


def _parts(text: str) -> list[tuple[str, str]]:
    whole = next((name for name in _fonts_here() if all(_has(name, sign) for sign in set(text))), "")
    if whole:
        return [(whole, text)]
    parts: list[tuple[str, str]] = []
    for sign in text:
        name, before = parts.pop() if parts else (_font_of(sign), "")
        if _clings(sign) or name == _font_of(sign):
            parts.append((name, before + sign))
        else:
            parts += [(name, before), (_font_of(sign), sign)]
    return parts


def _clings(sign: str) -> bool:
    """Whether a sign goes with the one before: spaces, and marks above and below letters."""
    return sign.isspace() or unicodedata.category(sign).startswith("M")


@lru_cache(maxsize=65_536)
def _font_of(sign: str) -> str:
    """Name the first font here that has a sign; empty where none has."""
    return next((name for name in _fonts_here() if _has(name, sign)), "")


@lru_cache(maxsize=65_536)
def _has(name: str, sign: str) -> bool:
    font = _font(name, 16)
    return _clings(sign) or bytes(font.getmask(sign)) != bytes(font.getmask("\U0010ffff"))


@lru_cache
def _fonts_here() -> tuple[str, ...]:
    found = []
    for name in _FONTS:
        try:
            ImageFont.truetype(name, 16)
        except OSError:
            continue
        found.append(name)
    return tuple(found)


@lru_cache
def _font(name: str, size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.truetype(name, size) if name else ImageFont.load_default(size)
