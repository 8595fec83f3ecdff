"""Passkeys: registration, sign-in and blocking by WebAuthn (W3C, Level 3).

The user is always verified. Attestation is not requested: the make of a device is its owner's choice. Managers and
drivers have separate passkeys, even on one host: see `PasskeyOwners`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

import structlog

from keyrack.auth import browser_state, login_challenges
from keyrack.core.base64url import base64url
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, Unprocessable, on_constraint
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Row, Statements
from keyrack.db.encryption.cipher import Encryption

if TYPE_CHECKING:
    from keyrack.auth.webauthn_messages import Options, VerifiedAssertion

log = structlog.get_logger("keyrack.logins")

LONGEST_ID = 1_023  # bytes (WebAuthn, section 4, "Credential ID")

NO_PASSKEYS = ErrorCode(
    "passkeys-unavailable",
    "Passkeys require a public address with a host name, and {url} has none.",
    "Set `KEYRACK_PUBLIC_URL`, for drivers `KEYRACK_DRIVE_URL`, to an https address with a host name, or to localhost"
    " for tests.",
)
NOT_VERIFIED = ErrorCode(
    "passkey-not-verified",
    "The passkey could not be verified.",
    "Request new options and try again; the device must verify its user by fingerprint, face or PIN.",
)
KNOWN = ErrorCode("passkey-known", "This passkey is already registered.", "Use it, or choose another device.")
TOO_MANY = ErrorCode(
    "too-many-passkeys",
    "The manager has reached the limit of passkeys. Remove one first.",
    "Remove one by `DELETE /me/passkeys/{passkeyId}`.",
)

WHO: LiteralString = "select username, subject from manager where manager_id = $1"
LOCK: LiteralString = "select sign_outs from manager where manager_id = $1 for no key update"


@dataclass(frozen=True, slots=True)
class PasskeyOwners:
    """The owners of passkeys: managers or drivers. A passkey of one kind is unknown to the other."""

    purpose: str  # of sealed challenges
    address: Callable[[Settings], str]  # of the pages, whose host name the passkeys are bound to
    origins: Callable[[Settings], Collection[str]]
    passkeys: LiteralString  # of the owner $1
    insert: LiteralString
    find: LiteralString  # by the id of the credential, with `handle`, which is the owner for the device
    use: LiteralString
    refuse: LiteralString
    id_constraint: str  # no two passkeys have the same id of a credential
    too_many: ErrorCode

    def host(self, settings: Settings) -> str | None:
        """The host name that passkeys are bound to (the RP ID).

        None if the address has an IP address, which cannot have passkeys.
        """
        name = urlsplit(self.address(settings)).hostname or ""
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name or None
        return None


MANAGERS = PasskeyOwners(
    purpose="sign in with a passkey",
    address=lambda settings: settings.public_url,
    origins=lambda settings: settings.own_origins,
    passkeys="select credential_id, transports from passkey where manager_id = $1 order by passkey_id",
    insert="""
insert into passkey (manager_id, credential_id, public_key, sign_count, transports, aaguid, name, is_backed_up)
values ($1, $2, $3, $4, $5, $6, $7, $8) returning passkey_id
""",
    find="""
select p.passkey_id, p.public_key, p.sign_count, p.is_refused, m.manager_id, m.subject as handle, m.sign_outs
from passkey p join manager m using (manager_id) where p.credential_id = $1 and not m.is_disabled for update of p
""",
    use="update passkey set sign_count = $2, is_backed_up = $3, used_at = now() where passkey_id = $1",
    refuse="update passkey set is_refused = true where passkey_id = $1",
    id_constraint="passkey_credential_id_key",
    too_many=TOO_MANY,
)


class VerifiedPasskey(NamedTuple):
    """A passkey that has signed a challenge: the row of `PasskeyOwners.find`, and the `amr` values."""

    row: Row
    amr: tuple[str, ...]


class PasskeyNotVerified(Unprocessable):
    """The browser sent no known passkey, or none for this challenge."""

    def __init__(self) -> None:
        super().__init__(NOT_VERIFIED)


async def create_registration_options(statements: Statements, settings: Settings, manager: int) -> dict[str, Any]:
    """The options for a manager's new passkey. Raises `Conflict` if none can be added."""
    manager_row = await statements.fetchrow(WHO, manager)
    assert manager_row is not None  # noqa: S101 - the calling manager
    made = await registration_options(
        statements, MANAGERS, settings, manager, manager_row["username"], manager_row["subject"]
    )
    await login_challenges.store_registration(statements, manager, base64url(made.challenge), made.challenge)
    return made.options


async def registration_options(
    statements: Statements, owners: PasskeyOwners, settings: Settings, owner: int, name: str, handle: UUID
) -> Options:
    """The options for a new passkey of this owner. The caller stores the challenge.

    Raises `Conflict` if none can be added.
    """
    rp = _host(owners, settings)
    has = await statements.fetch(owners.passkeys, owner)
    if len(has) >= settings.passkeys_per_manager:
        raise Conflict(owners.too_many)
    from keyrack.auth import webauthn_messages  # imports a large library

    known = [row["credential_id"] for row in has]
    return webauthn_messages.registration_options(rp, name, handle.bytes, known, login_challenges.SECONDS)


async def use_registration_challenge(statements: Statements, manager: int, credential: Mapping[str, Any]) -> bytes:
    """The challenge that a manager's new passkey answers. It is used up even if the registration fails afterwards.

    The manager must have been given it. Raises `PasskeyNotVerified`.
    """
    from keyrack.auth import webauthn_messages

    try:
        challenge = webauthn_messages.registration_challenge(credential)
    except Exception as error:  # untrusted input breaks the parser in many ways
        raise _unverified(error) from None
    if not await login_challenges.registered(statements, manager, base64url(challenge)):
        raise PasskeyNotVerified
    return challenge


async def register(
    connection: Connection, owners: PasskeyOwners, settings: Settings, owner: int, name: str,
    credential: Mapping[str, Any], challenge: bytes,
) -> tuple[int, str]:  # fmt: skip
    """Store a new passkey that answers this challenge.

    Returns its id, and the `amr` value of its key. Runs in the caller's transaction, which has the owner's row
    locked. Raises `PasskeyNotVerified`, `Conflict`.
    """
    from keyrack.auth import webauthn_messages

    rp = _host(owners, settings)
    if len(await connection.fetch(owners.passkeys, owner)) >= settings.passkeys_per_manager:
        raise Conflict(owners.too_many)
    try:
        made = webauthn_messages.verify_registration(credential, challenge, rp, owners.origins(settings))
    except Exception as error:  # untrusted input, as above
        raise _unverified(error) from None
    if len(made.credential_id) > LONGEST_ID:
        raise PasskeyNotVerified
    with on_constraint({owners.id_constraint: (Conflict, KNOWN)}):
        id = await connection.fetchval(
            owners.insert, owner, made.credential_id, made.public_key, made.sign_count, made.transports, made.aaguid,
            name, made.is_backed_up,
        )  # fmt: skip
    return id, made.amr


async def create_authentication_options(
    vault: Encryption, owners: PasskeyOwners, settings: Settings, cookie: str | None
) -> tuple[dict[str, Any], str] | None:
    """The options to sign in (PublicKeyCredentialRequestOptionsJSON), and the new cookie.

    None if passkeys are not available. No user name is needed, since the device knows its user. Raises `CannotDecrypt`.
    """
    rp = owners.host(settings)
    if rp is None:
        return None
    from keyrack.auth import webauthn_messages

    options, challenge = webauthn_messages.authentication_options(rp, browser_state.SECONDS)
    state = {"challenge": base64url(challenge)}
    return options, await browser_state.add(vault, owners.purpose, cookie, state)


async def verify_authentication(
    db: Database, vault: Encryption, owners: PasskeyOwners, settings: Settings, cookie: str | None, credential: str
) -> VerifiedPasskey | None:
    """The passkey that has signed one of this browser's challenges.

    None otherwise. A passkey uses up the challenge that it has signed. A sign count that does not grow is that of a
    copy: the passkey is blocked, and the change log records it. Passkeys that are synced between devices do not count,
    and send 0 each time (section 6.1.1).
    """
    rp = owners.host(settings)
    challenges = {state["challenge"] for state in await browser_state.valid(vault, owners.purpose, cookie)}
    if rp is None or not challenges:
        return None
    from keyrack.auth import webauthn_messages

    async with db.transaction() as connection:
        try:
            assertion = webauthn_messages.parse_assertion(credential)
            row = await connection.fetchrow(owners.find, assertion.credential_id)
            if row is None or row["is_refused"] or not _is_of(assertion.user_handle, row["handle"]):
                return None
            if base64url(assertion.challenge) not in challenges:
                return None
            verified = webauthn_messages.verify_assertion(assertion, rp, owners.origins(settings), row["public_key"])
        except Exception as error:  # untrusted input, as above
            _unverified(error)
            return None
        if not await browser_state.use(connection, base64url(assertion.challenge)):
            return None
        return await _counted(connection, owners, row, verified)


async def _counted(
    connection: Connection, owners: PasskeyOwners, row: Row, verified: VerifiedAssertion
) -> VerifiedPasskey | None:
    count = verified.sign_count
    if (count or row["sign_count"]) and count <= row["sign_count"]:
        log.warning("passkey counter decreased, passkey blocked", passkey=row["passkey_id"], alert=True)
        await connection.execute(owners.refuse, row["passkey_id"])
        return None
    await connection.execute(owners.use, row["passkey_id"], count, verified.is_backed_up)
    return VerifiedPasskey(row, (verified.amr, "user", "mfa"))


def _host(owners: PasskeyOwners, settings: Settings) -> str:
    """The host name that passkeys are bound to. Raises `Conflict` if passkeys are not available."""
    rp = owners.host(settings)
    if rp is None:
        raise Conflict(NO_PASSKEYS.format(url=owners.address(settings)))
    return rp


def _is_of(sent: bytes | None, handle: UUID) -> bool:
    return sent == handle.bytes


def _unverified(error: Exception) -> PasskeyNotVerified:
    log.info("passkey verification failed", error_type=type(error).__name__)
    return PasskeyNotVerified()
