"""Mails to drivers: requested links, and invitations.

A mail in the queue holds no secret. Its link is created when the mail is written, so only the newest mail's is valid.
"""

from __future__ import annotations

from typing import LiteralString

from keyrack.auth.mail.templates import (
    DRIVER_INVITATION,
    DRIVER_LINK,
    OutgoingMail,
    accepted_language,
    language_of,
)
from keyrack.core.addresses import address_form
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Row, Statements
from keyrack.drivers import links
from keyrack.drivers.links import LinkKind
from keyrack.fleet.person_lookup import PERSONS

# As in `auth/password_reset`: a request looks up no address, so its duration reveals nothing
ONE_AT_A_TIME: LiteralString = "select pg_advisory_xact_lock(hashtext('driver mail'), hashtext($1))"
AUDIENCE = "driver"
ASK: LiteralString = """
insert into mail (kind, address, language, audience) select 'invitation', $1, $2, 'driver'
where (select count(*) from (select from mail limit $3) m) < $3
  and not exists (select from mail where audience = 'driver' and address = $1 and user_id is null)
"""
# One mail waits for each user of a customer
INVITE: LiteralString = """
insert into mail (kind, address, invited_to, user_id, language, audience)
select 'invitation', '', $1, $2, $3, 'driver' where (select count(*) from (select from mail limit $4) m) < $4
  and not exists (select from mail where audience = 'driver' and invited_to = $1 and user_id = $2)
"""
DRIVER: LiteralString = """
select p.user_id, p.email_address, a.language, null as customer from person p left join driver_account a using (user_id)
where p.user_id = {id} and p.type = 'Normal' and exists (select from customer_user u where u.user_id = p.user_id)
for no key update of p
""".replace("{id}", PERSONS.key_by_form("$1"))
INVITED: LiteralString = """
select p.user_id, p.email_address, a.language, c.name as customer
from customer_user u join person p using (user_id) join customer c using (customer_id)
  left join driver_account a using (user_id)
where u.customer_id = $1 and u.user_id = $2 and p.type = 'Normal'
  and not exists (select from driver_withdrawn w where w.customer_id = u.customer_id and w.user_id = u.user_id)
for no key update of p
"""


async def request_link(db: Database, settings: Settings, address: str, languages: str | None) -> None:
    """Queue a link for the address, if a driver has it. The caller does not learn whether one has.

    `languages` is the `Accept-Language` of the browser. Nothing is added while a mail to the address waits.
    """
    form = address_form(address)
    async with db.transaction() as connection:
        await connection.execute(ONE_AT_A_TIME, form)
        await connection.execute(ASK, form, accepted_language(languages), settings.mail_waiting)


async def invite(statements: Statements, settings: Settings, customer: int, user: int, language: str | None) -> None:
    """Queue an invitation of a user to the app. Nothing is added while one waits."""
    await statements.execute(INVITE, customer, user, language, settings.mail_waiting)


async def write(db: Database, settings: Settings, row: Row) -> OutgoingMail | None:
    """The mail of a row of the queue, with a new link. None if there is no such driver any more.

    The link proves the mailbox, so it goes to the stored address.
    """
    async with db.transaction() as connection:
        customer: int | None = row["invited_to"]
        driver = (
            await connection.fetchrow(DRIVER, row["address"])
            if customer is None
            else await connection.fetchrow(INVITED, customer, row["user_id"])
        )
        if driver is None:
            return None
        link = await links.create(connection, driver["user_id"], customer, LinkKind.MAILED)
    language = language_of(driver["language"] or row["language"])
    template = DRIVER_LINK if customer is None else DRIVER_INVITATION
    places = {"link": links.address(settings, link.secret), "customer": driver["customer"]}
    places |= {"minutes": links.REQUESTED, "hours": links.INVITED // 60}
    return OutgoingMail(template[language], driver["email_address"], places)
