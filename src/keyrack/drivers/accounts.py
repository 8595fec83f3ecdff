"""Accounts of drivers: sign-in with a password, and who a driver is."""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from keyrack.api.rate_limits import network
from keyrack.auth.authenticator import Authenticator
from keyrack.auth.login_throttle import raise_if_throttled
from keyrack.core.addresses import address_form
from keyrack.core.errors import WrongCredentials
from keyrack.core.settings import Settings
from keyrack.db.connection import Statements
from keyrack.fleet.person_lookup import PERSONS

# The start password of `PUT /users` is valid while there is no account, and while the person is a user of the customer
# whose manager knows it
CREDENTIALS: LiteralString = """
select p.user_id, a.user_id is not null as has_account, p.password_customer,
  case when a.user_id is not null then a.password_hash when exists (
    select from customer_user u where u.user_id = p.user_id and u.customer_id = p.password_customer)
    then p.password_hash end as password_hash
from person p left join driver_account a using (user_id)
where p.user_id = {id} and p.type = 'Normal' and exists (select from customer_user u where u.user_id = p.user_id)
""".replace("{id}", PERSONS.key_by_form("$1"))


class PasswordSignIn(NamedTuple):
    """A driver who has sent the right password."""

    user: int
    start_customer: int | None  # the password is the start password that a manager of this customer knows


async def verify_password(
    statements: Statements, access: Authenticator, settings: Settings, address: str, password: str, network_address: str
) -> PasswordSignIn:
    """The driver with this e-mail address and password.

    `Anonymous` users and unknown addresses take the same time, and get the same answer. Raises `WrongCredentials`,
    `TooManyRequests`, `Unavailable`.
    """
    # A manager and a driver of the same address do not lock each other out
    async with raise_if_throttled(statements, settings, network_address, f"driver:{address}"):
        row = await statements.fetchrow(CREDENTIALS, address_form(address))
        hash = None if row is None else row["password_hash"]
        is_right = await access.passwords.verify(password, hash, ("address", network(network_address)))
        if row is None or not is_right:
            raise WrongCredentials
    return PasswordSignIn(row["user_id"], None if row["has_account"] else row["password_customer"])
