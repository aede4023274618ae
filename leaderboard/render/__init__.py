"""Render: standings, problems and templates become the static site. Pure but for the output folder."""

from leaderboard.render.build import build_site, default_jobs
from leaderboard.render.model import Baseline, BuildReport, Kernels, Notice, Revision, SiteConfig, SiteData
from leaderboard.render.output import OccupiedError

__all__ = [
    "Baseline",
    "BuildReport",
    "Kernels",
    "Notice",
    "OccupiedError",
    "Revision",
    "SiteConfig",
    "SiteData",
    "build_site",
    "default_jobs",
]
