"""Take the pictures of the pages for docs/pages, of a site built from the recorded results: `make picture`.

python benchmarks/pictures.py --site build/site --out docs/pages
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench"), str(ROOT)]

from PIL import Image  # noqa: E402

from leaderboard.commands.site import opened  # noqa: E402

BOARD, A, B, PROBLEM = "H200", "founders-triton", "founders-cuda", "2_76"
PAGES = {
    "board": "index.html",
    "entry": f"entries/{BOARD}/{A}.html",
    "problems": "problems/index.html",
    "problem": f"problems/{PROBLEM}.html",
    "code": f"problems/{PROBLEM}.html?a={A}&b={B}#code",
    "compare": "compare.html",
    "versus": f"compare/{BOARD}/{A}~{B}.html",
    "matrix": f"matrix/{BOARD}.html",
    "records": f"records/{BOARD}.html",
    "trust": "trust.html",
    "audits": "trust.html#audits",
    "method": "method.html",
    "submit": "submit.html",
    "about": "about.html",
    "embed": f"embed/{BOARD}.html",
}
LOOKS = {"desktop": (1440, "light"), "phone": (390, "dark")}
"""How wide each look is, and its colours."""
HEIGHT = 1100
SHARED = {
    "board": f"{BOARD}.png",
    "entry": f"{BOARD}/{A}.png",
    "problem": f"problems/{PROBLEM}.png",
    "comparison": f"compare/{BOARD}/{A}~{B}.png",
}
"""What others show where an address is sent: the site's own pictures."""
COLOURS = 128


def take(site: Path, out: Path) -> None:
    """Take every page in every look, and copy the pictures that the site itself has."""
    with opened(site) as (address, browser):
        for look, (width, scheme) in LOOKS.items():
            size = {"width": width, "height": HEIGHT}
            context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
            for name, page in PAGES.items():
                shown = context.new_page()
                answer = shown.goto(address + page, wait_until="networkidle")
                if answer is None or not answer.ok:
                    raise FileNotFoundError(f"no page {page} in {site}; run: kbl site build")
                picture = Image.open(io.BytesIO(shown.screenshot())).convert("RGB")
                picture.quantize(COLOURS, dither=Image.Dither.NONE).save(
                    out / f"{name}-{look}.png", optimize=True
                )
                shown.close()
    for name, path in SHARED.items():
        shutil.copyfile(site / "pictures" / path, out / f"shared-{name}.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Take the pictures of the pages of a built site.")
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pages")
    given = parser.parse_args()
    take(given.site, given.out)
