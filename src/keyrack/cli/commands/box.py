"""Boxes that open without a network: enrol one by a wire."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from keyrack.cli import api_calls, profiles
from keyrack.cli.api_calls import ForCustomer, ProfileName
from keyrack.cli.box_enrolment import BoxEnroller, BoxState, ExpectedKeys
from keyrack.cli.box_link import BoxLink, Wire
from keyrack.cli.output import CommandFailed, CommandResult, Json, plain, show, visible
from keyrack.core.api_client.responses import ApiError
from keyrack.core.api_client.session import Client

app = typer.Typer()

# By error code of the server
REMEDIES = {
    "enrolment-in-use": "If the box on the wire replaces that one, add --replaces with the thumbprint of the pending"
    " enrolment: keyrack api /boxes/{product}/enrolment",
    "box-key-used": "Reset the box, and run the command again",
}


@app.command("enrol")
def enrol(
    product: Annotated[str, typer.Argument(metavar="PRODUCT", help="The id or serial number of the key box.")],
    serial: Annotated[
        str | None, typer.Option("--serial", metavar="DEVICE", help="The serial port, such as /dev/ttyUSB0.")
    ] = None,
    simulate: Annotated[bool, typer.Option("--simulate", help="Simulate a box in this process.")] = False,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FILE", help="With --simulate: the file that keeps the box.")
    ] = None,
    thumbprint: Annotated[
        str | None,
        typer.Option("--thumbprint", metavar="TEXT", help="The thumbprint that the box displays, to be compared."),
    ] = None,
    replaces: Annotated[
        str | None,
        typer.Option("--replaces", metavar="TEXT", help="The thumbprint of a pending enrolment in use that ends."),
    ] = None,
    customer: ForCustomer = None,
    profile: ProfileName = profiles.DEFAULT,
    as_json: Json = False,
) -> None:
    """Enrol a box on a wire, and bring it keys and time.

    A box without an authority gets an enrolment. A box of this product gets new keys and the time, so the command can
    be repeated. It needs the permissions boxes:read and boxes:write, and for a serial number products:read.
    """
    if (serial is not None) == simulate:
        raise typer.BadParameter("Choose either --serial for a box on a wire, or --simulate.")
    if state is not None and not simulate:
        raise typer.BadParameter("--state needs --simulate.")

    async def work() -> None:
        with _wire(serial, state) as wire:
            async with api_calls.client_of(profile, customer) as client:
                id = await _product(client, product)
                enroller = BoxEnroller(client, BoxLink(wire), id, lambda text: typer.echo(visible(text), err=True))
                try:
                    result = await enroller.run(ExpectedKeys(thumbprint, replaces))
                except ApiError as error:
                    raise _with_remedy(error, id) from None
        show(_shown(id, result), as_json)

    api_calls.run(work(), profile)


@contextmanager
def _wire(serial: str | None, state: Path | None) -> Generator[Wire]:
    """The wire to the box, or to a simulated one. Raises `CommandFailed`."""
    if serial is not None:
        try:
            from keyrack.cli.serial_port import SerialPort
        except ImportError:  # no `termios` on Windows
            raise CommandFailed("This system has no serial ports for Keyrack. Use Linux or macOS.") from None
        with SerialPort(serial) as port:
            yield port
        return
    from keyrack.simulator.wire_box import SimulatedWire, WireBox

    try:
        box = WireBox(state)
    except OSError as error:
        raise CommandFailed(f"{state} cannot be used: {error.strerror}.") from None
    except ValueError:
        raise CommandFailed(f"{state} has no box: the file is damaged. To reset the box, delete the file.") from None
    yield SimulatedWire(box)


async def _product(client: Client, text: str) -> int:
    """The id of a product. Raises `CommandFailed`, `ApiError`."""
    if text.isascii() and text.isdigit():
        return int(text)
    literal = text.replace("'", "''")
    query = quote(f"serialNumber eq '{literal}'", safe="")
    rows = await client.get(f"/products?$select=id&$filter={query}")
    if not rows:
        raise CommandFailed(f"There is no product with the serial number {text}.")
    return int(rows[0]["id"])


def _with_remedy(error: ApiError, product: int) -> ApiError:
    remedy = REMEDIES.get(error.code or "", "").format(product=product)
    return ApiError(f"{str(error).rstrip('.')}. {remedy}", error.status, error.code) if remedy else error


def _shown(product: int, state: BoxState) -> CommandResult:
    """The result, with the work that is left."""
    challenge, pending = state.challenge, state.pending
    at = datetime.fromtimestamp(challenge.time, UTC)
    epoch = pending["epoch"] if pending is not None and state.is_pending else state.server["epoch"]
    left = list(_left(product, state))
    value: dict[str, Any] = {
        "productId": product, "name": challenge.name, "epoch": epoch, "thumbprint": state.thumbprint,
        "isEnrolledNow": state.is_enrolled_now, "isPending": state.is_pending, "boxTime": at, "leftToDo": left,
    }  # fmt: skip
    lines = [
        f"Product {product} is {challenge.name}: {'enrolled' if state.is_enrolled_now else 'enrolled before'}, and"
        f" provisioned. Its clock is {plain(at)}.",
        f"Thumbprint: {state.thumbprint}",
        *(f"- {text}" for text in left),
    ]
    return CommandResult(value, "\n".join(lines))


def _left(product: int, state: BoxState) -> Generator[str]:
    """The work that is left to a person."""
    pending = state.pending
    if state.is_enrolled_now:
        yield "Compare the thumbprint with the one that the box displays. If they differ, reset the box."
    if pending is None:
        return
    own = f"Undo it otherwise: keyrack api DELETE '/boxes/{product}/enrolment?thumbprint={pending['thumbprint']}'"
    if not state.is_pending:
        yield f"Another enrolment is pending: {pending['name']}, thumbprint {pending['thumbprint']}. {own}"
        return
    yield f"The enrolment is pending, so the box before is still at work. {own}"
    if not pending["isProven"]:
        yield "Open the box once with a phone that has fetched its keys, and let the phone deliver the log."
    if pending["needsApproval"] and not pending["isApproved"]:
        yield (
            "Let another manager approve it in the console, or by: keyrack api POST"
            f' /boxes/{product}/enrolment/approval -d \'{{"thumbprint": "{pending["thumbprint"]}"}}\''
        )
    if pending["isContested"]:
        yield "A discarded enrolment is in use. Compare the thumbprint again before you approve or undo this one."
