"""The limit on each manager's six-digit codes, and its report.

A code has 20 bits, and three time steps are valid. So codes have a limit of their own per manager, over all processes
and addresses (RFC 6238, section 5.2; OWASP ASVS 5.0, 6.6.3). A right password does not refill it. Recovery codes have
80 bits and keep the limits of passwords: a caller who knows the password cannot block them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import LiteralString

import structlog

from keyrack.api.rate_limits import HOUR, RateLimit, loggable_address
from keyrack.auth.login_throttle import take_limits
from keyrack.core.errors import Unprocessable, WrongCredentials
from keyrack.core.settings import Settings
from keyrack.db.audit_context import Actor
from keyrack.db.connection import Statements

log = structlog.get_logger("keyrack.logins")

DAY = timedelta(days=1)
NOTICE_OF = RateLimit("notice of wrong codes", 1, 1, DAY)

# The installation's log records it: codes belong to no customer
RECORD: LiteralString = """
insert into change_inbox (customer_id, kind, resource, resource_id, who, after)
select 0, 'totp.wrongCodes', 'totp', $1::integer::text, convert_from(decode($2, 'base64'), 'UTF8')::jsonb,
  jsonb_build_object('managerId', $1::integer)
"""
MAIL: LiteralString = """
insert into mail (kind, address, language, notice)
select 'invitation', username, language, 'codes' from manager
where manager_id = $1 and position('@' in username) > 0
  and (select count(*) from (select from mail limit $2) m) < $2
"""


@asynccontextmanager
async def raise_if_throttled(
    statements: Statements, settings: Settings, manager: int, address: str
) -> AsyncGenerator[None]:
    """Take one attempt from the manager's limit on codes.

    The attempt is returned unless the block reports a wrong code. Raises `TooManyRequests`.
    """
    limit = RateLimit("codes", settings.mfa_codes_per_hour, settings.mfa_code_burst, HOUR)
    await take_limits(statements, (limit, manager))
    try:
        yield
    except (WrongCredentials, Unprocessable):
        await _count_wrong(statements, settings, manager, address)
        raise
    except Exception:  # unknown whether the code was right
        await limit.give_back(statements, manager)
        raise
    await limit.give_back(statements, manager)


async def _count_wrong(statements: Statements, settings: Settings, manager: int, address: str) -> None:
    """Count a wrong code, and report many of them, once a day.

    The report follows as many wrong codes within a day as the limit admits at once. So it covers slow guessing below
    the limit.
    """
    most = max(1, settings.mfa_code_burst - 1)
    if await RateLimit("wrong codes", most, most, DAY).count(statements, manager):
        return
    if not await NOTICE_OF.count(statements, manager):
        return
    log.warning("repeated wrong second factor codes", manager=manager, address=loggable_address(address), alert=True)
    await statements.execute(RECORD, manager, Actor("client", None, None, address).encoded)
    if settings.sends_mail:
        await statements.execute(MAIL, manager, settings.mail_waiting)
