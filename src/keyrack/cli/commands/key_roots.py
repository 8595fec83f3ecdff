"""Commands for the root of a customer's key authority: replace it, or move it to an offline machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, LiteralString, cast

import typer

from keyrack.cli.confirmation import ConfirmationPreview
from keyrack.cli.database_session import DatabaseSession, command, explained
from keyrack.cli.help_groups import HelpGroup
from keyrack.cli.options import whose
from keyrack.cli.output import CommandFailed, CommandResult, Json, show
from keyrack.core.base64url import base64url, octets
from keyrack.offline_keys import offline_root, root_keys
from keyrack.offline_keys.issuing_keys import KeySetOverlap, OfflineRoot
from keyrack.offline_keys.offline_root import InvalidRequest, NoRequest, OnlineRoot, OutdatedRequest, Unsigned
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.public_key import PublicKey

app = typer.Typer()
root_app = typer.Typer(cls=HelpGroup, help="Create, replace and move roots, which sign key sets.")
app.add_typer(root_app, name="root")

BOXES: LiteralString = "select count(distinct product_id) from box_epoch where customer_id = $1"
NONE = "Customer {customer} has no key authority yet. Enrolling the first box creates it."
OVERLAP = (
    "A box knows two issuing keys, and keys signed by the older one are valid until {until:%Y-%m-%d %H:%M} UTC. Wait "
    "until then, or add --revoke if a key was stolen."
)
OFFLINE = "The root is on another machine. Run `keyrack keys request`, and sign the request there."
ONLINE = "The root is on the server. Run `keyrack keys rotate`, or move the root with `keyrack keys root offline`."
OUTDATED = "The keys have changed since the request. Create a new one with `keyrack keys request`."
NO_REQUEST = "No request waits for a signature of the root. Run `keyrack keys request` first."
NOT_READ = "{path} is not a file of `keyrack keys {command}`."
TAKEN = "{path} already exists. Choose another file."
NOT_WRITTEN = "{path} cannot be written: {reason}."

Whose = Annotated[int, whose("The customer (id or name).")]
Revoke = Annotated[bool, typer.Option("--revoke", help="After a theft: revoke everything that the older keys signed.")]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write.")]
RootKeyFile = Annotated[Path, typer.Option("--root-key", metavar="FILE", help="File with the private root key.")]
RootKeyFiles = Annotated[
    list[Path], typer.Option("--root-key", metavar="FILE", help="File with the private root key. Repeatable.")
]


def overlap(still: KeySetOverlap) -> CommandFailed:
    """The error while keys of the previous issuing key are still valid."""
    return CommandFailed(OVERLAP.format(until=still.until))


async def _preview(session: DatabaseSession, customer: int) -> ConfirmationPreview:
    """The number of boxes that must learn the new root."""
    boxes: int = await session.sql.fetchval(BOXES, customer)
    return ConfirmationPreview(f"replace the root of customer {customer}", {"boxes": boxes})


@command(root_app, "replace", preview=_preview)
async def replace(session: DatabaseSession, customer: Whose) -> CommandResult:
    """Replace the root with a new one, which the current root signs; phones carry both to the boxes."""
    try:
        new = await root_keys.replace(session.sql, await session.vault(), customer)
    except OfflineRoot:
        raise CommandFailed(OFFLINE) from None
    if new is None:
        raise CommandFailed(NONE.format(customer=customer))
    root = new.thumbprint.hex()
    text = f"The root is now {root}. A box trusts the old root until a phone brings it the new one."
    return CommandResult({"customer": customer, "root": root}, text)


@root_app.command("new")
def new(root_key: RootKeyFile, as_json: Json = False) -> None:
    """Create an offline root on this machine, without a database, and print its public key."""

    def work() -> None:
        key = PrivateKey.generate()
        _write(root_key, key.to_text(), mode=0o600)
        text = base64url(key.public.encoded)
        show(CommandResult({"publicKey": text, "root": key.public.thumbprint.hex()}, text), as_json)

    explained(work, as_json=as_json)


@command(root_app, "offline")
async def offline(
    session: DatabaseSession,
    customer: Whose,
    public_key: Annotated[
        str, typer.Option("--public-key", metavar="KEY", help="The public key that `keyrack keys root new` prints.")
    ],
    out: Out,
) -> CommandResult:
    """Request to move the root to another machine; `keyrack keys accept` completes the move."""
    try:
        new_root = offline_root.read_public_key(public_key)
    except ValueError:
        raise typer.BadParameter("--public-key is not a key printed by `keyrack keys root new`.") from None
    wanted = await offline_root.request(session.sql, await session.vault(), customer, new_root=new_root)
    return _requested(customer, wanted, out)


@command(app, "request")
async def request(session: DatabaseSession, customer: Whose, out: Out, revoke: Revoke = False) -> CommandResult:
    """Request a signature of an offline root: create new keys, and write the request to a file."""
    try:
        wanted = await offline_root.request(session.sql, await session.vault(), customer, revoke=revoke)
    except OnlineRoot:
        raise CommandFailed(ONLINE) from None
    except KeySetOverlap as still:
        raise overlap(still) from None
    return _requested(customer, wanted, out)


@app.command("sign")
def sign(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of `keyrack keys request`.")],
    root_key: RootKeyFiles,
    out: Out,
    as_json: Json = False,
) -> None:
    """Sign a request with an offline root, on its machine; no database is needed."""

    def work() -> None:
        value = _read(file, "request")
        try:
            wanted = [Unsigned.from_json(each) for each in value["wanted"]]
            signed = offline_root.sign(wanted, [_private_key(path) for path in root_key])
        except InvalidRequest as error:
            raise CommandFailed(str(error)) from None
        except (KeyError, TypeError):
            raise CommandFailed(NOT_READ.format(path=file, command="request")) from None
        _write(out, json.dumps({"customer": value["customer"], "signed": [base64url(each) for each in signed]}))
        rows = [_shown(each) for each in wanted]
        text = "\n".join(f"Signed: {json.dumps(row)}" for row in rows)
        show(CommandResult({"file": str(out), "signed": rows}, text), as_json)

    explained(work, as_json=as_json)


@command(app, "accept")
async def accept(
    session: DatabaseSession,
    customer: Whose,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of `keyrack keys sign`.")],
) -> CommandResult:
    """Activate the keys that an offline root has signed."""
    try:
        signed = [octets(each) for each in _read(file, "sign")["signed"]]
        root = await offline_root.accept(session.sql, await session.vault(), customer, signed)
    except (KeyError, TypeError, ValueError):
        raise CommandFailed(NOT_READ.format(path=file, command="sign")) from None
    except NoRequest:
        raise CommandFailed(NO_REQUEST) from None
    except OutdatedRequest:
        raise CommandFailed(OUTDATED) from None
    except InvalidRequest as error:
        raise CommandFailed(str(error)) from None
    text = f"The key set of root {root.thumbprint.hex()} is active. Phones bring it to boxes from their next fetch on."
    return CommandResult({"customer": customer, "root": root.thumbprint.hex()}, text)


def _requested(customer: int, wanted: list[Unsigned] | None, out: Path) -> CommandResult:
    if wanted is None:
        raise CommandFailed(NONE.format(customer=customer))
    _write(out, json.dumps({"customer": customer, "wanted": [each.to_json() for each in wanted]}))
    rows = [_shown(each) for each in wanted]
    text = f"Request written to {out}. Run `keyrack keys sign` on the root's machine, then `keyrack keys accept` here."
    return CommandResult({"customer": customer, "file": str(out), "wanted": rows}, text)


def _private_key(path: Path) -> PrivateKey:
    try:
        return PrivateKey.from_text(path.read_text().strip())
    except (OSError, ValueError):
        raise CommandFailed(NOT_READ.format(path=path, command="root new")) from None


def _shown(each: Unsigned) -> dict[str, Any]:
    """The facts that the operator compares on both machines."""
    shown: dict[str, Any] = {"message": each.message.name, "root": each.signer.thumbprint.hex()}
    for name, value in each.claims.items():
        if isinstance(value, PublicKey):
            shown[name] = value.thumbprint.hex()
        elif isinstance(value, list):
            shown[name] = [key.kid.hex() for key in cast("list[PublicKey]", value)]
        else:
            shown[name] = value
    return shown


def _read(path: Path, command: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        raise CommandFailed(NOT_READ.format(path=path, command=command)) from None
    if not isinstance(value, dict):
        raise CommandFailed(NOT_READ.format(path=path, command=command))
    return cast("dict[str, Any]", value)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a new file. Raises `CommandFailed` if there is one, or if it cannot be written."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
            file.write(text + "\n")
    except FileExistsError:
        raise CommandFailed(TAKEN.format(path=path)) from None
    except OSError as error:
        raise CommandFailed(NOT_WRITTEN.format(path=path, reason=error.strerror)) from None
