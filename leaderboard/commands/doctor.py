"""`kbl doctor`: prints what this machine can do, what it lacks, and how to get it."""

from __future__ import annotations

import typer

from leaderboard.texts.say import say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor_command)


def doctor_command() -> None:
    """Say what this machine can do and what is missing. Exit status 1 where it cannot even run the demo."""
    from leaderboard.doctor import abilities, examine

    findings = []
    for finding in examine():
        findings.append(finding)
        say(f"{'ok' if finding.ok else 'missing':8}{finding.name:16}{finding.found}")
        if not finding.ok:
            say(f"{'':24}for {finding.need}: {finding.mend}")
    say("\nThis machine can")
    able = abilities(findings)
    for what, can in able.items():
        say(f"  {'yes' if can else 'no ':4}{what}")
    raise typer.Exit(0 if list(able.values())[1] else 1)
