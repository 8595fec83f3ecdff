"""The command `mail test`, which checks the SMTP server."""

from __future__ import annotations

from email.errors import MessageError
from typing import Annotated

import typer

from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.options import words
from keyrack.cli.output import CommandFailed, CommandResult

app = typer.Typer()


@command(app, "test")
async def test(
    session: DatabaseSession,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", callback=words, help="The recipient.")],
) -> CommandResult:
    """Send a test mail with the current settings, and show the response of the mail server."""
    import aiosmtplib

    from keyrack.auth.mail.outbox import send
    from keyrack.auth.mail.templates import TEST, written

    settings = session.settings
    if not settings.sends_mail or settings.mail_from is None:
        raise CommandFailed("Mail is not configured. Set KEYRACK_MAIL_HOST and KEYRACK_MAIL_FROM.")
    try:
        await send(settings, written(TEST, settings.mail_from, address, host=settings.public_url))
    except (aiosmtplib.SMTPException, MessageError, OSError, ValueError) as error:
        raise CommandFailed(f"{settings.mail_host}:{settings.mail_port} did not accept the mail: {error}") from None
    value = {"address": address, "host": settings.mail_host}
    return CommandResult(value, f"{settings.mail_host} accepted a mail to {address}.")
