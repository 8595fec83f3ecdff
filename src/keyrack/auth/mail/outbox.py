"""The mail queue: mails are written, sent by SMTP, and retried.

A mail in the table holds no secret. Its link is created when the mail is written, in a transaction that ends before the
server is contacted. So only the newest mail's link is valid, and the contents of the database open nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from email.message import EmailMessage
from typing import LiteralString

import aiosmtplib
import asyncpg
import structlog

from keyrack.auth import password_reset
from keyrack.auth.invitations import link
from keyrack.auth.mail.templates import CODES, INVITATION, PASSWORD, PHONE, ROLES_DE, OutgoingMail, language_of
from keyrack.auth.usernames import MANAGERS
from keyrack.core.addresses import address_form
from keyrack.core.metrics.catalog import MAILS
from keyrack.core.secret_hashes import digest, new_secret
from keyrack.core.settings import Settings
from keyrack.db.connection import UNREACHABLE, Database, Row
from keyrack.db.throttled_log import ThrottledLogger

log = structlog.get_logger("keyrack.mail")
seldom = ThrottledLogger("keyrack.mail")

POLL = 2.0  # seconds between polls
FIRST, LONGEST = 30, 3_600  # seconds until a failed mail is retried, at first and at most
PERMANENT = 500  # the lowest reply code of a permanent error (RFC 5321, section 4.2.1)
# A claim schedules the next attempt, so that another worker retries the mail if this one dies
CLAIM: LiteralString = """
update mail set attempts = attempts + 1, due_at = now() + make_interval(secs => least($1 * 2 ^ attempts, $2))
where mail_id = (select mail_id from mail where due_at <= now() order by due_at, mail_id limit 1 for update skip locked)
returning *, created_at < now() - make_interval(hours => $3) as is_old
"""
DONE: LiteralString = "delete from mail where mail_id = $1"
FAILED: LiteralString = "update mail set last_error = $2 where mail_id = $1"
# The link proves an address, so it goes to the stored one. Two spellings of one normal form may be two mailboxes
OF_INVITATION: LiteralString = """
update invitation i set mailed_hash = $3, mailed_to = (select username from manager where manager_id = {id})
from customer c
where i.customer_id = $1 and i.invitation_id = $2 and i.expires_at > now() and c.customer_id = i.customer_id
returning i.role, i.invited_by, c.name, to_char(i.expires_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI "UTC"') as until,
  coalesce(i.mailed_to, i.address) as address
""".replace("{id}", MANAGERS.key_by_form("$4"))
# Null for a user that has left the customer
OF_PHONE: LiteralString = """
select p.email_address as address, c.name as customer
from customer_user u join person p using (user_id) join customer c using (customer_id)
where u.customer_id = $1 and u.user_id = $2
"""


async def send(settings: Settings, message: EmailMessage) -> None:
    """Send a mail to the SMTP server. Raises what `aiosmtplib.send` raises."""
    await aiosmtplib.send(
        message,
        hostname=settings.mail_host,
        port=settings.mail_port,
        username=settings.mail_user,
        password=settings.mail_password,
        start_tls=settings.mail_tls == "starttls",
        use_tls=settings.mail_tls == "tls",
        timeout=settings.mail_seconds,
    )


# Writes a mail of another audience than managers. None if its recipient is gone
MailWriter = Callable[[Database, Settings, Row], Awaitable[OutgoingMail | None]]


class MailDispatcher:
    """Sends the mails of all customers, one after another.

    Each worker runs one. Workers never claim the same mail at the same time.
    """

    def __init__(self, db: Database, settings: Settings, writers: Mapping[str, MailWriter]) -> None:
        self._db = db
        self._settings = settings
        self._writers = writers  # by audience

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            try:
                while await self.send_next():
                    pass
            except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError) as error:
                seldom.warning("mail queue interrupted, retrying", error=error)
            await asyncio.sleep(POLL)

    async def send_next(self) -> bool:
        """Send the mail that has waited longest. Returns whether there was one."""
        settings = self._settings
        row = await self._db.fetchrow(CLAIM, FIRST, LONGEST, settings.mail_hours)
        if row is None:
            return False
        if row["is_old"]:
            MAILS.add("given up")
            log.error("mail delivery abandoned", kind=row["kind"], error=row["last_error"])
            await self._db.execute(DONE, row["mail_id"])
            return True
        mail = await self._mail(row)
        if mail is None:  # the account or the invitation is gone
            await self._db.execute(DONE, row["mail_id"])
            return True
        try:
            message = mail.message(settings)
        except Exception as error:  # `email` raises many errors, and no retry fixes them
            MAILS.add("given up")
            log.error("mail delivery abandoned", kind=row["kind"], error=_described(error))
            await self._db.execute(DONE, row["mail_id"])
            return True
        try:
            await send(settings, message)
        except Exception as error:  # other mails are still sent
            await self._not_taken(row, error)
        else:
            MAILS.add("sent")
            await self._db.execute(DONE, row["mail_id"])
        return True

    async def _not_taken(self, row: Row, error: Exception) -> None:
        """Drop a mail after a permanent error, or retry it.

        `_is_permanent` decides.
        """
        error_text, for_good = _described(error), _is_permanent(error)
        MAILS.add("refused" if for_good else "failed")
        if for_good:
            log.warning("mail delivery rejected", kind=row["kind"], error=error_text, attempts=row["attempts"])
            await self._db.execute(DONE, row["mail_id"])
        else:
            log.warning("mail delivery failed, retrying", kind=row["kind"], error=error_text, attempts=row["attempts"])
            await self._db.execute(FAILED, row["mail_id"], error_text)

    async def _mail(self, row: Row) -> OutgoingMail | None:
        """The mail with a new link, or None.

        None means that its account or invitation is gone.
        """
        settings, secret = self._settings, new_secret()
        language = language_of(row["language"])
        if row["audience"] is not None:
            return await self._writers[row["audience"]](self._db, settings, row)
        if row["notice"] == "phone":
            return await self._notice_of_phone(row, language)
        if row["notice"] is not None:
            places = {"address": row["address"], "link": f"{settings.public_url}/console"}
            return OutgoingMail(CODES[language], row["address"], places)
        async with self._db.transaction() as connection:
            if row["kind"] == "password":
                anew = await password_reset.create_link(connection, settings, row["address"], is_mailed=True)
                if anew is None:
                    return None
                places = {"address": anew.address, "link": anew.link, "minutes": settings.password_link_minutes}
                return OutgoingMail(PASSWORD[language_of(anew.language)], anew.address, places)
            details = await connection.fetchrow(
                OF_INVITATION, row["invited_to"], row["invitation"], digest(secret), address_form(row["address"])
            )
        if details is None:
            return None
        role = ROLES_DE.get(details["role"], details["role"]) if language == "de" else details["role"]
        places = {
            "customer": details["name"], "by": details["invited_by"], "role": role, "until": details["until"],
            "link": link(settings, secret),
        }  # fmt: skip
        return OutgoingMail(INVITATION[language], details["address"], places)

    async def _notice_of_phone(self, row: Row, language: str) -> OutgoingMail | None:
        """The notice of a new phone to its user.

        None if the user has left the customer.
        """
        user = await self._db.fetchrow(OF_PHONE, row["invited_to"], row["user_id"])
        return None if user is None else OutgoingMail(PHONE[language], user["address"], {"customer": user["customer"]})


def _is_permanent(error: Exception) -> bool:
    """Whether no retry can succeed.

    That is so for 5yz of RFC 5321, and for a missing SMTPUTF8. A failed authentication is retried, because the operator
    can correct it.
    """
    if isinstance(error, aiosmtplib.SMTPNotSupported):  # SMTPUTF8 (RFC 6531), which the address needs
        return True
    if isinstance(error, aiosmtplib.SMTPRecipientsRefused):  # has the codes of its recipients, none of its own
        return all(recipient.code >= PERMANENT for recipient in error.recipients)
    if isinstance(error, aiosmtplib.SMTPAuthenticationError):
        return False
    return isinstance(error, aiosmtplib.SMTPResponseException) and error.code >= PERMANENT


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]
