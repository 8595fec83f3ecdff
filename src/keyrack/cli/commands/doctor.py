"""The command `doctor`: checks of settings, machine, database and reachable services, with remedies."""

from __future__ import annotations

import asyncio

import typer

from keyrack import __version__
from keyrack.cli.database_session import Json, State, explained, read_settings
from keyrack.cli.output import CommandFailed, CommandResult, show
from keyrack.cli.screen import WORDS, Screen
from keyrack.ops.monitoring.findings import Finding, Severity, verdict

app = typer.Typer()

FAULT = {**WORDS, Severity.CRITICAL: "fault"}


@app.command("doctor")
def doctor(state: State = None, as_json: Json = False) -> None:
    """Check settings, machine and database, and suggest fixes. Nothing is changed.

    Exit status 0: no findings, 1: a warning, 2: a fault.
    """

    def run() -> None:
        from keyrack.ops.doctor import examined

        try:
            findings_by_subject = asyncio.run(examined(read_settings(state)))
        except CommandFailed as failed:
            settings_finding = Finding(
                Severity.CRITICAL, "settings", str(failed), "docs/settings.md lists the valid values."
            )
            findings_by_subject = {"Settings": [settings_finding]}
        level = verdict([finding for findings in findings_by_subject.values() for finding in findings])
        checks = [
            {
                "subject": subject,
                "result": FAULT[check.level],
                "check": check.code,
                "text": check.text,
                "action": check.action,
            }
            for subject, findings in findings_by_subject.items()
            for check in findings
        ]
        value = {"verdict": FAULT[level], "keyrack": __version__, "checks": checks}
        if as_json:
            show(CommandResult(value, ""), as_json)
        else:
            typer.echo("\n".join(_lines(findings_by_subject, level)))
        raise typer.Exit(level)

    explained(run)


def _lines(findings_by_subject: dict[str, list[Finding]], level: Severity) -> list[str]:
    screen = Screen()
    flat = [finding for findings in findings_by_subject.values() for finding in findings]
    counts = [
        f"{count} {word if count == 1 else word + 's'}"
        for word, which in (("fault", Severity.CRITICAL), ("warning", Severity.WARNING))
        if (count := sum(finding.level == which for finding in flat))
    ]
    lines = [screen.verdict(level, f"{len(flat)} checks, {' and '.join(counts) or 'no findings'}.", FAULT[level])]
    for subject, findings in findings_by_subject.items():
        if findings:
            lines += ["", screen.heading(subject)]
        for finding in sorted(findings, key=lambda finding: -finding.level):
            lines += screen.finding(finding.level, finding.text, finding.action, FAULT[finding.level])
    return lines
