"""Mail: whether the SMTP server takes what Keyrack sends."""

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
    address: Annotated[str, typer.Argument(metavar="ADDRESS", callback=words, help="Where it goes.")],
) -> CommandResult:
    """Send a mail by the settings that hold, and say what the server answered."""
    import aiosmtplib

    from keyrack.auth.mail.outbox import send
    from keyrack.auth.mail.templates import TEST, written

    settings = session.settings
    if not settings.sends_mail or settings.mail_from is None:
        raise CommandFailed(
            "No mail is sent: KEYRACK_MAIL_HOST and KEYRACK_MAIL_FROM say by which server, and from whom."
        )
    try:
        await send(settings, written(TEST, settings.mail_from, address, host=settings.public_url))
    except (aiosmtplib.SMTPException, MessageError, OSError, ValueError) as error:
        raise CommandFailed(f"{settings.mail_host}:{settings.mail_port} did not take it: {error}") from None
    value = {"address": address, "host": settings.mail_host}
    return CommandResult(value, f"{settings.mail_host} has taken a mail to {address}.")
