"""Codes as a second factor: app codes (TOTP, RFC 6238), recovery codes.

Each code works once.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from typing import LiteralString
from urllib.parse import quote

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.hotp import HOTP

from keyrack.core.secret_hashes import digest
from keyrack.db.connection import Connection, Statements
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.encrypted_columns import TOTP_SECRET

STEP_SECONDS = 30  # supported by every app, like six digits and SHA-1
DIGITS = 6
SKEW = (0, -1, 1)  # steps that a clock may be off
SECRET_BYTES = 20  # as long as SHA-1 (RFC 4226, section 4)
RECOVERY_CODES = 10
RECOVERY_BYTES = 10  # 80 random bits: 16 letters of base32

BEGIN: LiteralString = """
insert into totp (manager_id, secret) values ($1, $2)
on conflict (manager_id) do update set secret = excluded.secret, last_step = 0, created_at = now()
where totp.confirmed_at is null
returning manager_id
"""
PENDING: LiteralString = "select secret from totp where manager_id = $1 and confirmed_at is null for update"
CONFIRM: LiteralString = """
update totp set confirmed_at = now(), last_step = $2 where manager_id = $1 and confirmed_at is null
returning manager_id
"""
SEALED: LiteralString = "select secret from totp where manager_id = $1 and confirmed_at is not null"
# The lock on the row decides between concurrent uses of one code
USE: LiteralString = """
update totp set last_step = $2 where manager_id = $1 and last_step < $2 and confirmed_at is not null
returning manager_id
"""
REMOVE: LiteralString = "delete from totp where manager_id = $1 returning confirmed_at is not null"
RENEW: LiteralString = """
insert into recovery (manager_id, hashes) values ($1, $2)
on conflict (manager_id) do update set hashes = excluded.hashes, created_at = now()
"""
USE_RECOVERY: LiteralString = """
update recovery set hashes = array_remove(hashes, $2) where manager_id = $1 and $2 = any(hashes) returning manager_id
"""


def code(secret: str, step: int) -> str:
    """The six-digit code of a base32 secret at a time step.

    See RFC 6238, section 4.
    """
    return HOTP(base64.b32decode(secret), DIGITS, SHA1()).generate(step).decode()  # noqa: S303 - RFC 6238's own


def uri(secret: str, username: str) -> str:
    """The `otpauth:` URI for a QR code, as all apps read it."""
    name = quote(f"Keyrack:{username}", safe=":@")
    return f"otpauth://totp/{name}?secret={secret}&issuer=Keyrack&digits={DIGITS}&period={STEP_SECONDS}"


def is_code(given: str) -> bool:
    """Whether a text has the form of an app's code.

    It has six digits, with or without blanks.
    """
    text = "".join(given.split())
    return len(text) == DIGITS and text.isascii() and text.isdigit()


def step_of(secret: str, given: str, now: float) -> int | None:
    """The time step of a code near `now`, or None.

    `now` is in seconds since 1970.
    """
    text = "".join(given.split()).encode()
    matching_step = None
    for skew in SKEW:
        step = int(now) // STEP_SECONDS + skew
        if hmac.compare_digest(code(secret, step).encode(), text):
            matching_step = step
    return matching_step


async def begin(connection: Connection, vault: Encryption, manager: int) -> str | None:
    """Create a secret for an app, in base32.

    It replaces one that was never confirmed. Returns None if there is a confirmed one.
    """
    secret = base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode()
    sealed = await vault.seal(connection, secret, TOTP_SECRET, 0, str(manager))
    return secret if await connection.fetchval(BEGIN, manager, sealed) is not None else None


async def confirm(connection: Connection, vault: Encryption, manager: int, given: str) -> bool | None:
    """Confirm the pending secret of an app by a code.

    Returns whether the code is right, or None if no secret is pending.
    """
    sealed = await connection.fetchval(PENDING, manager)
    if sealed is None:
        return None
    step = step_of(await vault.open(sealed, TOTP_SECRET, 0, str(manager)), given, time.time())
    return step is not None and await connection.fetchval(CONFIRM, manager, step) is not None


async def use(statements: Statements, vault: Encryption, manager: int, given: str) -> bool:
    """Use an app's code, and end all codes before it.

    Returns False if the code is wrong, or was used before.
    """
    sealed = await statements.fetchval(SEALED, manager)
    if sealed is None:
        return False
    step = step_of(await vault.open(sealed, TOTP_SECRET, 0, str(manager)), given, time.time())
    return step is not None and await statements.fetchval(USE, manager, step) is not None


async def renew_recovery(statements: Statements, manager: int) -> list[str]:
    """Create recovery codes, to be shown once. The previous ones end."""
    made = [base64.b32encode(secrets.token_bytes(RECOVERY_BYTES)).decode() for _ in range(RECOVERY_CODES)]
    await statements.execute(RENEW, manager, [digest(each) for each in made])
    return ["-".join(each[at : at + 4] for at in range(0, len(each), 4)) for each in made]


async def use_recovery(statements: Statements, manager: int, given: str) -> bool:
    """Use up a recovery code of the manager. Returns whether it is one."""
    plain = "".join(given.split()).replace("-", "").upper()
    return await statements.fetchval(USE_RECOVERY, manager, digest(plain)) is not None
