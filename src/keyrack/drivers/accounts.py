"""Accounts of drivers: sign-in, the acceptance of links, and their end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, LiteralString, NamedTuple

from keyrack.api.principals import Driver
from keyrack.api.rate_limits import HOUR, RateLimit, give_back_each, network, per_network, take_each
from keyrack.auth import passkeys
from keyrack.auth.authenticator import Authenticator
from keyrack.auth.login import CHALLENGES
from keyrack.auth.login_throttle import address_limits, raise_if_throttled
from keyrack.auth.passkeys import PasskeyOwners
from keyrack.core.addresses import address_form
from keyrack.core.error_codes import SIGNED_OUT, ErrorCode
from keyrack.core.errors import BadRequest, Conflict, Forbidden, Unauthorized, WrongCredentials
from keyrack.core.secret_hashes import digest
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Statements
from keyrack.db.encryption.cipher import Encryption
from keyrack.drivers import links
from keyrack.drivers.links import DriverLink, LinkKind
from keyrack.drivers.sessions import AccountVersion
from keyrack.fleet.person_lookup import PERSONS

PASSWORD_METHOD = ("pwd",)  # the `amr` values of a session (RFC 8176)
LINK_METHOD = ("mca",)  # another channel has carried the link

NEEDS_INVITATION = ErrorCode(
    "invitation-needed",
    "This password opens no account. The fleet that created the user is unknown, or the user has left it.",
    "Ask your fleet for an invitation to the app.",
)
NO_ACCESS = ErrorCode(
    "no-app-access",
    "No fleet gives this account access to the app at the moment.",
    "Ask your fleet for an invitation to the app.",
)
ACCOUNT_EXISTS = ErrorCode(
    "driver-account-exists",
    "The driver has an account. Accepting this link with `reset` ends its passwords, passkeys and sessions.",
    "Sign in and join by `POST /drive/api/links/join`, or send `reset` as true.",
)
RESET_REFUSED = ErrorCode(
    "driver-account-of-other-fleets",
    "The account opens cars of other fleets, and has not accepted an invitation of this fleet before. So this link"
    " cannot reset it.",
    "Sign in and join by `POST /drive/api/links/join`, or request a mail by `POST /drive/api/forgot`.",
)
NO_CREDENTIAL = ErrorCode(
    "no-credential-given",
    "The account has neither a password nor a passkey.",
    "Send `password`, or `credential` for a passkey.",
)
TOO_MANY_PASSKEYS = ErrorCode(
    "too-many-driver-passkeys",
    "The account has reached the limit of passkeys. Remove one first.",
    "Remove one by `DELETE /drive/api/passkeys/{passkeyId}`.",
)

# The start password is valid while there is no account, and while the person is a user of the customer that set it
CREDENTIALS: LiteralString = """
select p.user_id, p.password_customer, a.handle, a.sign_outs,
  case when a.user_id is null then p.password_hash else a.password_hash end as password_hash,
  exists (
    select from customer_user u where u.user_id = p.user_id and u.customer_id = p.password_customer) as is_of_customer,
  exists (
    select from driver_withdrawn w where w.user_id = p.user_id and w.customer_id = p.password_customer) as is_withdrawn
from person p left join driver_account a using (user_id)
where p.user_id = {id} and p.type = 'Normal' and exists (select from customer_user u where u.user_id = p.user_id)
""".replace("{id}", PERSONS.key_by_form("$1"))
CREATE: LiteralString = """
insert into driver_account (user_id, handle, password_hash, is_proven) values ($1, $2, $3, $4)
"""
DELETE: LiteralString = "delete from driver_account where user_id = $1"
END_START: LiteralString = """
update person set password_hash = null, password_customer = null where user_id = $1 and password_hash is not null
"""
# Sessions of before end with the sign-out
CHANGE: LiteralString = """
update driver_account set password_hash = $2, sign_outs = sign_outs + 1 where user_id = $1
"""
GRANT: LiteralString = """
insert into driver_access (customer_id, user_id) values ($1, $2) on conflict do nothing
"""
# Finds nothing after a reset or a sign-out, also if these have committed since the request was authenticated
LOCK: LiteralString = """
select true from driver_account a join driver_session s using (user_id)
where a.user_id = $1 and s.session_id = $2 and s.sign_outs = a.sign_outs for no key update of a for key share of s
"""
CURRENT: LiteralString = """
select p.email_address, a.password_hash, a.sign_outs from driver_account a join person p using (user_id)
where a.user_id = $1
"""
# A sign-out since the verification means that the verified password is no longer valid
CHANGE_VERIFIED: LiteralString = """
with changed as (
  update driver_account set password_hash = $3, sign_outs = sign_outs + 1 where user_id = $1 and sign_outs = $4
  returning sign_outs),
kept as (
  update driver_session s set sign_outs = c.sign_outs from changed c where s.user_id = $1 and s.session_id = $2),
ended as (
  delete from driver_session where user_id = $1 and session_id <> $2 and exists (select from changed))
select exists (select from changed)
"""

DRIVERS = PasskeyOwners(
    purpose="sign in with a driver's passkey",
    address=lambda settings: settings.drive_address,
    origins=lambda settings: settings.drive_origins,
    passkeys="select credential_id, transports from driver_passkey where user_id = $1 order by passkey_id",
    insert="""
insert into driver_passkey (user_id, credential_id, public_key, sign_count, transports, aaguid, name, is_backed_up)
values ($1, $2, $3, $4, $5, $6, $7, $8) returning passkey_id
""",
    find="""
select k.passkey_id, k.public_key, k.sign_count, k.is_refused, k.user_id, a.handle
from driver_passkey k join driver_account a using (user_id) where k.credential_id = $1 for update of k
""",
    use="update driver_passkey set sign_count = $2, is_backed_up = $3, used_at = now() where passkey_id = $1",
    refuse="update driver_passkey set is_refused = true where passkey_id = $1",
    id_constraint="driver_passkey_credential_id_key",
    too_many=TOO_MANY_PASSKEYS,
)


class PasswordSignIn(NamedTuple):
    """A driver who has sent the right password."""

    user: int
    version: AccountVersion | None  # None if there is no account
    start_customer: int | None  # the password is the start password that a manager of this customer knows


class NewCredentials(NamedTuple):
    """The credentials that a driver chooses by a link.

    Each part is optional.
    """

    password_hash: str | None
    passkey: Mapping[str, Any] | None
    passkey_name: str


async def verify_password(
    statements: Statements, access: Authenticator, settings: Settings, address: str, password: str, from_address: str
) -> PasswordSignIn:
    """The driver with this e-mail address and password.

    `Anonymous` users and unknown addresses get the same response, after the same time. Raises `WrongCredentials`,
    `TooManyRequests`, `Unavailable`, and `Forbidden` for a start password that opens nothing.
    """
    async with raise_if_throttled(statements, settings, from_address, _throttled_name(address)):
        row = await statements.fetchrow(CREDENTIALS, address_form(address))
        hash = None if row is None else row["password_hash"]
        is_right = await access.passwords.verify(password, hash, ("address", network(from_address)))
        if row is None or not is_right:
            raise WrongCredentials
    if row["handle"] is not None:
        return PasswordSignIn(row["user_id"], AccountVersion(row["handle"], row["sign_outs"]), None)
    if not row["is_of_customer"]:
        raise Forbidden(NEEDS_INVITATION)
    if row["is_withdrawn"]:
        raise Forbidden(NO_ACCESS)
    return PasswordSignIn(row["user_id"], None, row["password_customer"])


async def verify_current(
    statements: Statements, access: Authenticator, settings: Settings, user: int, password: str | None, address: str
) -> int:
    """Check the current password of an account that has one. Returns the sign-outs of the account.

    Raises `WrongCredentials`, `TooManyRequests`, `Unavailable`.
    """
    row = await statements.fetchrow(CURRENT, user)
    if row is None:
        raise WrongCredentials
    if row["password_hash"] is not None:
        async with raise_if_throttled(statements, settings, address, _throttled_name(row["email_address"])):
            if not await access.passwords.verify(password or "", row["password_hash"], ("driver", user)):
                raise WrongCredentials
    return row["sign_outs"]


async def change_password(connection: Connection, driver: Driver, password_hash: str, sign_outs: int) -> bool:
    """Set the password, and end all other sessions. Returns whether nothing has signed the driver out since.

    Runs in the caller's transaction. Raises `Unauthorized` if the session has ended.
    """
    await lock(connection, driver)
    return await connection.fetchval(CHANGE_VERIFIED, driver.user, driver.session, password_hash, sign_outs)


async def lock(connection: Connection, driver: Driver) -> None:
    """Lock the account and the session for the rest of the transaction.

    Each change of the account does so. A session of before a reset would change the account of its new owner otherwise.
    Raises `Unauthorized` if the session has ended.
    """
    if not await connection.fetchval(LOCK, driver.user, driver.session):
        raise Unauthorized(SIGNED_OUT)


def _throttled_name(address: str) -> str:
    """The name for the limits on sign-ins.

    A manager and a driver of one address do not lock each other out.
    """
    return f"driver:{address_form(address)}"


async def challenge_passkey(
    statements: Statements, vault: Encryption, settings: Settings, challenges: str | None, from_address: str
) -> tuple[dict[str, Any], str]:
    """The options to sign in with a passkey, and the new cookie. Raises `Conflict`, `TooManyRequests`."""
    await take_each(statements, *address_limits(settings, from_address, CHALLENGES))
    options = await passkeys.create_authentication_options(vault, DRIVERS, settings, challenges)
    if options is None:
        raise Conflict(passkeys.NO_PASSKEYS.format(url=settings.drive_address))
    return options


async def verify_passkey(
    db: Database, vault: Encryption, settings: Settings, challenges: str | None, credential: str, from_address: str
) -> tuple[int, AccountVersion, tuple[str, ...]]:
    """The driver, account and `amr` values of a signed passkey challenge.

    Raises `WrongCredentials`, `TooManyRequests`.
    """
    async with raise_if_throttled(db, settings, from_address):
        shown = await passkeys.verify_authentication(db, vault, DRIVERS, settings, challenges, credential)
        if shown is None:
            raise WrongCredentials
    await give_back_each(db, *address_limits(settings, from_address, CHALLENGES))
    return shown.row["user_id"], AccountVersion(shown.row["handle"], None), shown.amr


async def accept(
    connection: Connection, settings: Settings, secret: str, new: NewCredentials, *, is_reset: bool
) -> tuple[int, tuple[str, ...]]:
    """Accept a link: create, reset or prove the account. Returns the driver, and the `amr` values of the sign-in.

    Runs in the caller's transaction. Raises `LinkExpired`, `PasskeyNotVerified`, `BadRequest`, and `Conflict` if there
    is an account that the link cannot reset, or that the driver has not agreed to reset.
    """
    link = await links.use(connection, secret)
    # A mailed link proves the mailbox, so the account belongs to the driver whatever happened to it before
    if link.resets and not link.can_reset:
        raise Conflict(RESET_REFUSED)
    if link.resets and link.kind is not LinkKind.MAILED and not is_reset:
        raise Conflict(ACCOUNT_EXISTS)
    if link.resets or not link.has_account:
        await _create(connection, link, new)
    elif new.password_hash is not None:
        await connection.execute(CHANGE, link.user, new.password_hash)
    if new.passkey is not None:
        await _add_passkey(connection, settings, link, new)
    if link.customer is not None:
        await connection.execute(GRANT, link.customer, link.user)
    return link.user, LINK_METHOD if new.password_hash is None else PASSWORD_METHOD


async def _create(connection: Connection, link: DriverLink, new: NewCredentials) -> None:
    """Create the account of a link.

    An earlier account is deleted, with its credentials, sessions and accesses.
    """
    if new.password_hash is None and new.passkey is None:
        raise BadRequest(NO_CREDENTIAL)
    await connection.execute(DELETE, link.user)
    await connection.execute(END_START, link.user)
    is_proven = link.kind is LinkKind.MAILED
    await connection.execute(CREATE, link.user, link.handle, new.password_hash, is_proven)


async def _add_passkey(connection: Connection, settings: Settings, link: DriverLink, new: NewCredentials) -> None:
    assert new.passkey is not None  # noqa: S101 - the caller has checked it
    if link.challenge is None:
        raise passkeys.PasskeyNotVerified
    await passkeys.register(connection, DRIVERS, settings, link.user, new.passkey_name, new.passkey, link.challenge)


def passkey_label(address: str) -> str:
    """The name of a driver's passkey on the device.

    The device may also have the passkey of a manager with this address.
    """
    return f"{address} (driver)"


async def join(connection: Connection, secret: str, driver: Driver) -> None:
    """Add the access of an invitation to the signed-in account.

    Runs in the caller's transaction. Raises `LinkExpired`, also for a link of another user, and `Unauthorized` if the
    session has ended.
    """
    link = await links.use(connection, secret)
    await lock(connection, driver)
    if link.user != driver.user or link.kind is not LinkKind.INVITATION or link.customer is None:
        raise links.LinkExpired
    await connection.execute(GRANT, link.customer, driver.user)


async def delete(connection: Connection, driver: Driver) -> None:
    """Delete the account with its credentials, sessions and accesses. The person stays a user of its customers.

    Runs in the caller's transaction. Raises `Unauthorized` if the session has ended.
    """
    await lock(connection, driver)
    await connection.execute(DELETE, driver.user)


async def take_forgot(statements: Statements, settings: Settings, address: str, from_address: str) -> None:
    """Take from the limits on requested mails. Raises `TooManyRequests`."""
    rate, burst = settings.login_rate_per_username_and_address, settings.login_burst_per_username_and_address
    of_network = per_network(RateLimit("forgot", rate, burst), from_address)
    rate, burst = settings.password_mails_per_hour_per_address, settings.password_mail_burst_per_address
    of_address = RateLimit("forgot", rate, burst, HOUR), digest(_throttled_name(address)).hex()
    await take_each(statements, *of_network, of_address)
