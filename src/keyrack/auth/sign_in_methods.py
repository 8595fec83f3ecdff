"""Sign-in methods of a manager other than the password: list and remove."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import LiteralString, NamedTuple

from keyrack.db.connection import Statements

PASSKEY, APP, RECOVERY, IDENTITY, SESSION = "passkey", "app", "recovery", "identity", "session"
SECOND_FACTORS = frozenset({PASSKEY, APP, RECOVERY})

# A setting or the number of providers limits each kind
METHODS: LiteralString = """
select 'passkey' as kind, passkey_id::bigint as id, name as label, null as address, created_at
from passkey where manager_id = $1
union all select 'app', 0, '', null, confirmed_at from totp
where manager_id = $1 and confirmed_at is not null
union all select 'recovery', 0, cardinality(hashes)::text, null, created_at from recovery where manager_id = $1
union all select 'identity', i.identity_id, p.label, nullif(i.address, ''), i.created_at
from manager_identity i join provider p using (provider_id) where i.manager_id = $1
union all select 'session', s.session_id, s.agent, s.address, s.created_at
from session s join manager m using (manager_id) where s.manager_id = $1 and s.sign_outs = m.sign_outs
order by kind, id
"""
REMOVE: LiteralString = """
with chosen as (select kind, id from unnest($2::text[], $3::bigint[]) c (kind, id)),
passkeys as (delete from passkey where manager_id = $1
  and passkey_id in (select id from chosen where kind = 'passkey') returning true),
apps as (delete from totp where manager_id = $1 and exists (select from chosen where kind = 'app') returning true),
codes as (delete from recovery where manager_id = $1
  and exists (select from chosen where kind = 'recovery') returning true),
identities as (delete from manager_identity where manager_id = $1
  and identity_id in (select id from chosen where kind = 'identity') returning true)
select
"""
# Recovery codes are worth nothing without a second factor
END_RECOVERY: LiteralString = """
delete from recovery r where manager_id = $1 and not exists (select from passkey p where p.manager_id = r.manager_id)
  and not exists (select from totp t where t.manager_id = r.manager_id)
"""
_FACTORS: LiteralString = """
with passkeys as (delete from passkey where manager_id = $1 returning true),
apps as (delete from totp where manager_id = $1 returning true),
codes as (delete from recovery where manager_id = $1 returning true)
"""
REMOVE_FACTORS: LiteralString = _FACTORS + "select"
REMOVE_ALL: LiteralString = (
    _FACTORS
    + """,
identities as (delete from manager_identity where manager_id = $1 returning true),
sessions as (delete from session where manager_id = $1 returning true),
steps as (delete from sign_in_step where manager_id = $1 returning true),
links as (delete from password_link where manager_id = $1 returning true)
select
"""
)


class SignInMethod(NamedTuple):
    """A passkey, app for codes, recovery codes, identity or session.

    `label` is the name of a passkey, the label of an identity's provider, the user agent of a session, or the number of
    recovery codes left. `address` is the verified e-mail address of an identity, or the IP address of a session.
    """

    kind: str
    id: int  # 0 for an app and for recovery codes: a manager has one of each
    label: str
    address: str | None
    created: datetime

    @property
    def key(self) -> str:
        """The name of the method in a form."""
        return f"{self.kind}-{self.id}"


async def sign_in_methods(statements: Statements, manager: int) -> list[SignInMethod]:
    """The methods of a manager, with sessions that still work."""
    return [SignInMethod(*row.values()) for row in await statements.fetch(METHODS, manager)]


async def remove_chosen(statements: Statements, manager: int, methods: Collection[SignInMethod]) -> None:
    """Remove these methods of the manager.

    A session among them is ignored, since it ends when the password is set.
    """
    kinds = [method.kind for method in methods]
    await statements.execute(REMOVE, manager, kinds, [method.id for method in methods])
    await statements.execute(END_RECOVERY, manager)


async def remove_factors(statements: Statements, manager: int) -> None:
    """Remove every second factor: passkeys, the app and recovery codes."""
    await statements.execute(REMOVE_FACTORS, manager)


async def remove_all(statements: Statements, manager: int) -> None:
    """Remove every method, with unfinished sign-ins and open password links."""
    await statements.execute(REMOVE_ALL, manager)
