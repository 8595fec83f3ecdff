"""The command `simulate`, which simulates a fleet on a running server."""

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
from keyrack.cli.radio_options import RadioFaults, radio_conditions

app = typer.Typer()

WORDS = {
    "cars": "cars",
    "samples": "samples delivered",
    "repeated": "  repeated",
    "late": "  late",
    "accepted": "samples accepted by the server",
    "duplicates": "samples known to the server",
    "refused": "samples rejected by the server",
    "refused_expected": "samples expected to be rejected",
    "events": "door events",
    "events_late": "  late",
    "events_repeated": "  repeated",
    "doors_refused": "doors not opened: no assignment",
    "doors_unanswered": "doors not opened: no response of the box",
    "connections_lost": "connections lost between phones and boxes, and made again",
    "checks": "responses compared with sent data",
}


def _faults(value: str) -> str:
    from keyrack.simulator import FAULTS

    names = [name.strip() for name in value.split(",") if name.strip()]
    unknown = [name for name in names if name not in (*FAULTS, "all")]
    if unknown:
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}; valid: {', '.join(FAULTS)}, all")
    return ",".join(FAULTS if "all" in names else names)


@app.command("simulate")
def simulate(
    url: Annotated[str, typer.Option("--url", envvar="KEYRACK_URL", help="The server's address, with /v3.")],
    api_key: Annotated[str, typer.Option("--api-key", envvar="KEYRACK_API_KEY", help="The API key.")],
    username: Annotated[str, typer.Option("--username", envvar="KEYRACK_USERNAME", help="The manager's user name.")],
    password: Annotated[str, typer.Option("--password", envvar="KEYRACK_PASSWORD", help="The password.")],
    customer: Annotated[int, typer.Option("--customer", envvar="KEYRACK_CUSTOMER_ID", help="Customer of the cars.")],
    device_key: Annotated[
        str, typer.Option("--device-key", envvar="KEYRACK_DEVICE_KEY", help="The device key of the units.")
    ],
    sdk_key: Annotated[
        str,
        typer.Option(
            "--sdk-key", envvar="KEYRACK_SDK_KEY", help="With --live: the SDK key of the apps that open doors."
        ),
    ] = "",
    brand: Annotated[
        str, typer.Option("--brand", envvar="KEYRACK_BRAND", help="Brand in the API key header.")
    ] = "vendor",
    cars: Annotated[int, typer.Option("--cars", min=1, help="Maximum number of cars; the last ones of the fleet.")] = 5,
    minutes: Annotated[float, typer.Option("--minutes", min=0.1, help="Simulated minutes.")] = 30,
    every: Annotated[float, typer.Option("--every", min=1, help="Seconds between samples of a driving car.")] = 10,
    seed: Annotated[
        int, typer.Option("--seed", help="Random seed: the same seed and start repeat trips and faults.")
    ] = 1,
    faults: Annotated[
        str,
        typer.Option(
            "--faults", callback=_faults, help="Faults to simulate: offline,duplicates,skew,jumps,silent or all."
        ),
    ] = "",
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Start of the simulated time. Default: it ends now.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Simulate in real time, starting now.")] = False,
    radio: RadioFaults = "",
    as_json: Json = False,
) -> None:
    """Simulate a fleet by the public API, and compare sent data with the server's responses.

    The exit status is 0 if they agree, else 1.
    """
    from keyrack.simulator import ApiError, SimulatorCredentials, SimulatorOptions

    access = SimulatorCredentials(url.rstrip("/"), api_key, username, password, customer, device_key, brand, sdk_key)
    chosen = frozenset(name for name in faults.split(",") if name)
    begin: datetime | None = moment(start)
    options = SimulatorOptions(cars, minutes, every, seed, chosen, live, begin, radio=radio_conditions(radio))

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
    said = ["", "Sent data and responses agree."] if not wrong else ["", "They do not agree:", *wrong]
    return lines + said
