"""Single sign-on of drivers: the driver of a provider's account.

A provider signs in the drivers of one customer. The first time, the driver is found by the verified address; after
that only the subject counts. The identities of managers are never asked.
"""

from __future__ import annotations

from typing import LiteralString

from keyrack.auth.sso.errors import NotSignedIn
from keyrack.auth.sso.id_tokens import ProviderAccount
from keyrack.auth.sso.login_flow import SignInAudience
from keyrack.auth.sso.providers import Provider
from keyrack.core.addresses import address_form
from keyrack.db.connection import Connection
from keyrack.fleet.person_lookup import PERSONS

CALLBACK = "/drive/sso"  # follows the address of the app
DRIVERS = SignInAudience("single sign-on of drivers", lambda settings: settings.drive_address.rstrip("/") + CALLBACK)

# The membership is locked, because the session refers to it
KNOWN: LiteralString = """
select i.user_id from driver_identity i join person p using (user_id)
  join customer_user u on u.customer_id = $3 and u.user_id = i.user_id
where i.provider_id = $1 and i.subject = $2 and p.type = 'Normal' for key share of u
"""
# Locked, so that two concurrent accounts are not both connected
BY_ADDRESS: LiteralString = """
select p.user_id from person p join customer_user u on u.customer_id = $3 and u.user_id = p.user_id
where p.user_id = {id} and p.type = 'Normal'
  and exists (select from provider_domain where provider_id = $1 and domain = $4)
for no key update of p for key share of u
""".replace("{id}", PERSONS.key_by_form("$2"))
CREATE: LiteralString = "insert into driver_account (user_id) values ($1) on conflict do nothing"
CONNECT: LiteralString = """
insert into driver_identity (provider_id, subject, user_id) values ($1, $2, $3) on conflict do nothing returning true
"""


def methods(account: ProviderAccount) -> tuple[str, ...]:
    """The `amr` values of a session by this account."""
    return ("fed", "mfa") if account.has_mfa else ("fed",)


async def find_driver(connection: Connection, provider: Provider, account: ProviderAccount) -> int:
    """The driver of an account, connected now if the address allows it.

    Raises `NotSignedIn`, also if the driver is no longer a user of the provider's customer.
    """
    user: int | None = await connection.fetchval(KNOWN, provider.id, account.subject, provider.driver_customer)
    return await _by_address(connection, provider, account) if user is None else user


async def _by_address(connection: Connection, provider: Provider, account: ProviderAccount) -> int:
    """Connect the account with the driver of its verified address.

    A new account of the app has no credentials.
    """
    if account.email is None:
        raise NotSignedIn("unknown", "no driver is connected with the account, and it has no verified address")
    form = address_form(account.email)
    domain = form.rpartition("@")[2]
    user: int | None = await connection.fetchval(BY_ADDRESS, provider.id, form, provider.driver_customer, domain)
    if user is None:
        raise NotSignedIn("unknown", "no driver is connected with the account, and its address finds none")
    await connection.execute(CREATE, user)
    if not await connection.fetchval(CONNECT, provider.id, account.subject, user):
        raise NotSignedIn("unknown", "the driver with this address is connected with another account")
    return user
