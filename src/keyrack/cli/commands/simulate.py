"""The command that drives a virtual fleet through a running server."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer

from keyrack.cli.database_session import Json, explained
from keyrack.cli.options import moment
from keyrack.cli.output import CommandFailed
from keyrack.cli.progress import progress

app = typer.Typer()

WORDS = {
    "cars": "cars",
    "samples": "samples delivered",
    "repeated": "  of them repeated",
    "late": "  of them late",
    "accepted": "samples that the server took",
    "duplicates": "samples that it knew",
    "refused": "samples that it refused",
    "refused_expected": "samples that it had to refuse",
    "events": "door events",
    "events_late": "  of them late",
    "events_repeated": "  delivered again",
    "doors_refused": "doors that stayed closed: no assignment",
    "doors_unanswered": "doors whose box did not answer",
    "checks": "answers compared with what was sent",
}


def _faults(value: str) -> str:
    from keyrack.simulator import FAULTS

    names = [name.strip() for name in value.split(",") if name.strip()]
    unknown = [name for name in names if name not in (*FAULTS, "all")]
    if unknown:
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}; there are {', '.join(FAULTS)}, and all")
    return ",".join(FAULTS if "all" in names else names)


@app.command("simulate")
def simulate(
    url: Annotated[str, typer.Option("--url", envvar="KEYRACK_URL", help="The server, with /v3.")],
    api_key: Annotated[str, typer.Option("--api-key", envvar="KEYRACK_API_KEY", help="The API key.")],
    username: Annotated[str, typer.Option("--username", envvar="KEYRACK_USERNAME", help="The manager's user name.")],
    password: Annotated[str, typer.Option("--password", envvar="KEYRACK_PASSWORD", help="The password.")],
    customer: Annotated[int, typer.Option("--customer", envvar="KEYRACK_CUSTOMER_ID", help="Whose cars drive.")],
    device_key: Annotated[str, typer.Option("--device-key", envvar="KEYRACK_DEVICE_KEY", help="The key of units.")],
    sdk_key: Annotated[
        str,
        typer.Option("--sdk-key", envvar="KEYRACK_SDK_KEY", help="With --live: the key of apps, which open the doors."),
    ] = "",
    brand: Annotated[str, typer.Option("--brand", envvar="KEYRACK_BRAND", help="Of the API key's header.")] = "vendor",
    cars: Annotated[int, typer.Option("--cars", min=1, help="Cars that drive, at most: the fleet's last ones.")] = 5,
    minutes: Annotated[float, typer.Option("--minutes", min=0.1, help="Simulated time.")] = 30,
    every: Annotated[float, typer.Option("--every", min=1, help="Seconds between samples of a driving car.")] = 10,
    seed: Annotated[int, typer.Option("--seed", help="The same seed and start repeat trips and failures.")] = 1,
    faults: Annotated[
        str, typer.Option("--faults", callback=_faults, help="offline,duplicates,skew,jumps,silent or all.")
    ] = "",
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="When the simulated time begins; default: ends now.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Drive in real time, from now on.")] = False,
    as_json: Json = False,
) -> None:
    """Drive a virtual fleet by the public API, and compare what was sent with what the server then reports.

    The exit status is 0 when they agree, 1 when they do not.
    """
    from keyrack.simulator import ApiError, SimulatorCredentials, SimulatorOptions

    access = SimulatorCredentials(url.rstrip("/"), api_key, username, password, customer, device_key, brand, sdk_key)
    chosen = frozenset(name for name in faults.split(",") if name)
    begin: datetime | None = moment(start)
    options = SimulatorOptions(cars, minutes, every, seed, chosen, live, begin)

    def run() -> None:
        try:
            summary = asdict(asyncio.run(_drive(access, options)))
        except ApiError as error:
            raise CommandFailed(str(error)) from None
        print(json.dumps(summary) if as_json else "\n".join(_text(summary)))
        if summary["disagreements"]:
            raise typer.Exit(1)

    explained(run)


async def _drive(access: Any, options: Any) -> Any:
    from keyrack.simulator import SimulationSummary, simulate

    stopping = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, stopping.set)
    with progress() as show:

        def tell(step: int, summary: SimulationSummary) -> None:
            said = f"{summary.cars} cars, {summary.samples} samples, {summary.events} events"
            show(said, step, options.steps)

        return await simulate(access, options, tell, stopping)


def _text(summary: dict[str, Any]) -> list[str]:
    lines = [f"{summary[name]:>9}  {words}" for name, words in WORDS.items()]
    wrong = summary["disagreements"]
    said = ["", "What was sent and what the server reports agree."] if not wrong else ["", "They do not agree:", *wrong]
    return lines + said
