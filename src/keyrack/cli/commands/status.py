"""The command `status`: the state of the installation on one screen, for on-call staff and monitoring."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from keyrack import __version__
from keyrack.cli.cell_choice import CellName, named_cell
from keyrack.cli.database_session import Json, State, explain, read_settings
from keyrack.cli.output import columns, plain
from keyrack.cli.screen import CLEAR, WORDS, Screen
from keyrack.core.settings import Cell, Settings
from keyrack.ops.monitoring.backlog import MOST, Backlog
from keyrack.ops.monitoring.findings import Finding, Severity, duration, evaluate, verdict
from keyrack.ops.monitoring.status import DatabaseUnknown, StatusSnapshot, collect_status

app = typer.Typer()

WELL = "All checks passed."


@dataclass(frozen=True, slots=True)
class CellStatus:
    """The state of one cell, or why it is unknown."""

    cell: Cell
    picture: StatusSnapshot | None
    findings: list[Finding] = field(default_factory=list[Finding])
    why: str = ""

    @property
    def level(self) -> Severity:
        return Severity.UNKNOWN if self.picture is None else verdict(self.findings)

    @property
    def headline(self) -> str:
        """The first finding, and the number of others."""
        if self.picture is None:
            return self.why
        more = f" And {len(self.findings) - 1} more." if len(self.findings) > 1 else ""
        return (self.findings[0].text if self.findings else WELL) + more

    @property
    def members(self) -> dict[str, Any]:
        return _unknown(self.why) if self.picture is None else _members(self.picture, self.findings)


@app.command("status")
def status(
    seconds: Annotated[
        float, typer.Argument(metavar="[SECONDS]", min=0.5, max=3600, help="With --watch: seconds between two updates.")
    ] = 5.0,
    watch: Annotated[bool, typer.Option("--watch", help="Update until Ctrl-C.")] = False,
    certificates: Annotated[
        bool,
        typer.Option("--certificates", help="Check the certificates of all webhooks, not only failing ones."),
    ] = False,
    state: State = None,
    cell: CellName = None,
    as_json: Json = False,
) -> None:
    """Show running processes, queued work and problems. Nothing is started or changed.

    With several cells, it shows all of them, or the one of --cell.

    Exit status 0: no findings, 1: a warning, 2: critical, 3: unknown.
    """

    def once() -> Severity:
        try:
            settings = read_settings(state)
            cells = settings.all_cells if cell is None else [named_cell(settings, cell)]
        except Exception as error:  # monitoring must get "unknown" for any error
            _say_unknown(explain(error), as_json, clear=watch)
            return Severity.UNKNOWN
        states = [_collected(one, all_certificates=certificates) for one in cells]
        if settings.cells:
            _show_cells(states, as_json, clear=watch)
        else:
            _show(states[0], as_json, clear=watch)
        return max(one.level for one in states)

    raise typer.Exit(again(once, seconds) if watch else once())


def again(once: Callable[[], Severity], seconds: float) -> Severity:
    """Repeat until Ctrl-C or SIGTERM, and return the last verdict."""
    level = Severity.UNKNOWN
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while True:
            level = once()
            time.sleep(seconds)
    except KeyboardInterrupt:
        return level


def _collected(cell: Cell, *, all_certificates: bool) -> CellStatus:
    try:
        picture = asyncio.run(collect_status(cell.settings, all_certificates=all_certificates))
    except Exception as error:  # monitoring must get "unknown" for any error
        return CellStatus(cell, None, why=str(error) if isinstance(error, DatabaseUnknown) else explain(error))
    return CellStatus(cell, picture, evaluate(picture))


def _show(state: CellStatus, as_json: bool, *, clear: bool) -> None:
    if state.picture is None:
        _say_unknown(state.why, as_json, clear=clear)
    elif as_json:
        _print_json(state.members)
    else:
        screen = Screen()
        lines = [screen.verdict(state.level, state.headline), "", *_details(screen, state)]
        _print_screen(screen, lines, clear=clear)


def _show_cells(states: Sequence[CellStatus], as_json: bool, *, clear: bool) -> None:
    """Show all cells. The first line has the worst one, for monitoring programs that show only that line."""
    worst = max(states, key=lambda state: state.level)
    if as_json:
        cells = [{"cell": state.cell.name, **state.members} for state in states]
        _print_json({"verdict": WORDS[worst.level], "keyrack": __version__, "cells": cells})
        return
    screen = Screen()
    first = WELL if worst.level is Severity.OK else f"Cell {worst.cell.name}: {worst.headline}"
    lines = [screen.verdict(worst.level, first)]
    for state in states:
        lines += ["", screen.heading(f"Cell {state.cell.name}"), *_details(screen, state)]
    _print_screen(screen, lines, clear=clear)


def _details(screen: Screen, state: CellStatus) -> list[str]:
    """The findings and the facts of a cell."""
    if state.picture is None:
        return screen.finding(Severity.UNKNOWN, state.why)
    lines = [*screen.findings(state.findings), ""] if state.findings else []
    for label, texts in _facts(state.picture, state.cell.settings):
        lines += screen.fact(label, *texts)
    return lines


def _print_screen(screen: Screen, lines: list[str], *, clear: bool) -> None:
    if clear:
        lines.append(f"\n{datetime.now(UTC):%H:%M:%S} UTC. Stop with Ctrl-C.")
    print((CLEAR * (clear and screen.terminal)) + "\n".join(lines), flush=True)


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value, default=plain, ensure_ascii=False), flush=True)


def _unknown(reason: str) -> dict[str, Any]:
    return {"verdict": WORDS[Severity.UNKNOWN], "findings": [], "why": reason, "keyrack": __version__}


def _say_unknown(reason: str, as_json: bool, *, clear: bool) -> None:
    if as_json:
        _print_json(_unknown(reason))
        return
    screen = Screen()
    print((CLEAR * (clear and screen.terminal)) + screen.verdict(Severity.UNKNOWN, reason), flush=True)


def _facts(picture: StatusSnapshot, settings: Settings) -> Iterator[tuple[str, list[str]]]:
    backlog = picture.backlog
    if backlog is not None:
        yield "Runs", _runs(backlog) or ["nothing"]
    schema = "" if picture.schema is None else f", schema {picture.schema.revision or 'none'}"
    server = "" if picture.server is None else f", PostgreSQL {picture.server.split()[0]}"
    yield "Versions", [f"Keyrack {__version__} (this command){schema}{server}"]
    where = "embedded, in " if settings.database_url is None else f"{picture.name} at "
    size = "" if backlog is None else f"; {_bytes(backlog.database_bytes)}"
    yield "Database", [f"{where}{picture.database}{size}"]
    if backlog is not None:
        yield "Connections", [_sessions(backlog)]
        yield "Replicas", columns([_replica(item) for item in backlog.standbys]) or ["none"]
        yield "Operations", [_waits(backlog.operations, backlog.operations_age)]
        yield (
            "Deliveries",
            [
                f"{_waits(backlog.deliveries, backlog.deliveries_age)}; {_many(backlog.dead)} given up; "
                f"{_many(backlog.disabled)} webhooks disabled"
            ],
        )
        if backlog.pulled_age:
            yield "Pulled", [f"the oldest waiting message for {duration(backlog.pulled_age)}"]
        if picture.failing:
            yield (
                "Failing",
                [
                    f"{item.host}  webhook {item.webhook} of customer {item.customer}, for {duration(item.age)}, "
                    f"{item.attempts} attempts. {item.error or ''}"
                    for item in picture.failing
                ],
            )
        good = [item for item in picture.certificates if item.days is not None]
        if good:
            yield "Certificates", columns([[item.host, f"valid for {int(item.days or 0)} days"] for item in good])
        steps, late = backlog.housekeeping, sum(step.late for step in backlog.housekeeping)
        yield "Housekeeping", [f"{len(steps)} jobs, {f'{late} late' if late else 'all on time'}"]
        yield "Archive", [_archive(backlog)]
    if picture.backups is not None:
        newest = picture.backups.newest
        yield "Backup", ["none" if newest is None else f"{picture.backups.name}, {duration(_since(newest))} ago"]
    if (disk := picture.disk) is not None:
        free = f"{_bytes(disk.free)} of {_bytes(disk.bytes)} free ({disk.free / disk.bytes:.0%})"
        yield "Disk", [f"{free}, at {disk.path}"]


def _runs(backlog: Backlog) -> list[str]:
    """One line for identical processes, with the uptime of the oldest."""
    alike = Counter((process.role, process.host, process.version) for process in backlog.processes if process.lives)
    rows = [
        [
            f"{count} x {role}", f"on {host}", version,
            "for " + "up to " * (count > 1) + duration(max(_since(process.started) for process in backlog.processes
                if process.lives and (process.role, process.host, process.version) == (role, host, version))),
        ]
        for (role, host, version), count in alike.items()
    ]  # fmt: skip
    lines = columns(rows)
    gone = [process for process in backlog.processes if not process.lives and process.seconds_since_beat < 3600]
    if gone:
        last = min(process.seconds_since_beat for process in gone)
        lines.append(f"{len(gone)} vanished within the last hour, the last one {duration(last)} ago")
    return lines


def _replica(replica: Any) -> list[str]:
    if replica.state is None or replica.seconds is None:
        return [
            replica.name,
            "state unknown: grant pg_monitor to Keyrack's role" if replica.state is None else replica.state,
        ]
    return [
        replica.name,
        f"{replica.state}, {replica.sync}",
        f"{duration(replica.seconds)} behind, {_bytes(replica.bytes or 0)}",
    ]


def _sessions(backlog: Backlog) -> str:
    named = ", ".join(f"{name.removeprefix('keyrack ')} {count}" for name, count in sorted(backlog.sessions.items()))
    return f"{sum(backlog.sessions.values())} of {backlog.most_sessions} ({named})"


def _archive(backlog: Backlog) -> str:
    archive = backlog.archive
    if not archive.on:
        return "off"
    if archive.age is None:
        return "failing" if archive.failing else "nothing yet"
    return f"last WAL segment {duration(archive.age)} ago" + "; archiving fails" * archive.failing


def _waits(count: int, age: float) -> str:
    return "none waiting" if not count else f"{_many(count)} waiting, the oldest for {duration(age)}"


def _many(count: int) -> str:
    return f"{MOST:,} or more" if count >= MOST else f"{count:,}"


def _since(moment: datetime) -> float:
    return max(0.0, (datetime.now(UTC) - moment).total_seconds())


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _members(picture: StatusSnapshot, findings: list[Finding]) -> dict[str, Any]:
    """The whole snapshot as JSON members; unknown values are null."""
    backlog = picture.backlog
    return {
        "verdict": WORDS[verdict(findings)],
        "findings": [
            {"level": WORDS[row.level], "code": row.code, "text": row.text, "action": row.action} for row in findings
        ],
        "keyrack": __version__,
        "schema": None if picture.schema is None else {
            "revision": picture.schema.revision, "state": picture.schema.state.value.replace(" ", "-"),
        },
        "postgresql": picture.server,
        "database": {
            "address": picture.database, "name": picture.name, "standby": picture.standby, "running": picture.running,
            "bytes": backlog and backlog.database_bytes, "connections": backlog and dict(backlog.sessions),
            "connectionsMax": backlog and backlog.most_sessions,
        },
        "processes": backlog and [
            {
                "role": row.role, "host": row.host, "pid": row.pid, "version": row.version, "started": row.started,
                "lives": row.lives, "silent": round(row.seconds_since_beat, 1),
            }
            for row in backlog.processes
        ],
        "replicas": backlog and [
            {"name": row.name, "address": row.address, "state": row.state, "sync": row.sync, "bytes": row.bytes,
             "seconds": row.seconds}
            for row in backlog.standbys
        ],
        "operations": backlog and {"waiting": backlog.operations, "age": round(backlog.operations_age, 1)},
        "unattended": backlog and backlog.unattended,
        "deliveries": backlog and {
            "waiting": backlog.deliveries, "age": round(backlog.deliveries_age, 1),
            "pulledAge": round(backlog.pulled_age, 1), "dead": backlog.dead,
            "givenUp": picture.given_up,
        },
        "webhooks": backlog and {"disabled": backlog.disabled, "failing": [
            {"customer": row.customer, "webhook": row.webhook, "host": row.host, "attempts": row.attempts,
             "age": round(row.age, 1), "error": row.error}
            for row in picture.failing
        ]},
        "certificates": [{"host": row.host, "until": row.until, "wrong": row.wrong} for row in picture.certificates],
        "housekeeping": backlog and [
            {"step": row.name, "late": row.late, "lastGood": row.last_good, "failures": row.failures}
            for row in backlog.housekeeping
        ],
        "archive": backlog and {
            "on": backlog.archive.on, "age": backlog.archive.age, "late": backlog.archive.late,
            "failing": backlog.archive.failing,
        },
        "backup": picture.backups and {
            "name": picture.backups.name, "finished": picture.backups.newest, "wrong": picture.backups.wrong,
        },
        "disk": picture.disk and {
            "path": str(picture.disk.path), "free": picture.disk.free, "bytes": picture.disk.bytes,
        },
    }  # fmt: skip
