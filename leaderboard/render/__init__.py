"""The stage `render`: standings, problems and templates become the static site. Pure but for its folder.

In: what `reading` has read. Out: files of the site. May import: stages and below.
"""

from leaderboard.render.model import BuildReport, SiteConfig, SiteData
from leaderboard.render.output import OccupiedError, require_free
from leaderboard.render.render import build_site, default_jobs

__all__ = [
    "BuildReport",
    "OccupiedError",
    "SiteConfig",
    "SiteData",
    "build_site",
    "default_jobs",
    "require_free",
]
