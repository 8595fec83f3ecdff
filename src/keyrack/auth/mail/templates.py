"""Texts of mails, in the language of the recipient or of the sender."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTPUTF8
from email.utils import formatdate, make_msgid, parseaddr

from keyrack.core.addresses import mail_recipient

DEFAULT = "en"


@dataclass(frozen=True, slots=True)
class MailTemplate:
    """A subject and a body, with placeholders."""

    subject: str
    body: str


INVITATION: Mapping[str, MailTemplate] = {
    "en": MailTemplate(
        "Invitation to Keyrack: {customer}",
        """\
{by} invites you to act for {customer} in Keyrack, in the role {role}.

Open this link to accept. It works once, until {until}:

{link}

If you do not know what this is about, do nothing: without the link nothing happens.
""",
    ),
    "de": MailTemplate(
        "Einladung zu Keyrack: {customer}",
        """\
{by} lädt Sie ein, in Keyrack für {customer} zu handeln, in der Rolle {role}.

Öffnen Sie diesen Link, um anzunehmen. Er gilt einmal, bis {until}:

{link}

Wenn Sie nicht wissen, worum es geht, tun Sie nichts: Ohne den Link geschieht nichts.
""",
    ),
}
PASSWORD: Mapping[str, MailTemplate] = {
    "en": MailTemplate(
        "Set a new password for Keyrack",
        """\
Somebody, probably you, has asked for a new password for the account {address} in Keyrack.

Open this link to set one. It works once, for {minutes} minutes:

{link}

If it was not you, do nothing: your password stays as it is.
""",
    ),
    "de": MailTemplate(
        "Neues Kennwort für Keyrack",
        """\
Jemand, wahrscheinlich Sie, hat für das Konto {address} in Keyrack ein neues Kennwort verlangt.

Öffnen Sie diesen Link, um eines zu setzen. Er gilt einmal, für {minutes} Minuten:

{link}

Wenn Sie es nicht waren, tun Sie nichts: Ihr Kennwort bleibt, wie es ist.
""",
    ),
}
CODES: Mapping[str, MailTemplate] = {
    "en": MailTemplate(
        "Many wrong codes for your Keyrack account",
        """\
Many wrong codes were sent for the account {address} in Keyrack, after a sign-in with your password.

If it was you, wait before you try the next code, or sign in with a passkey or a recovery code.

If it was not you, your password is no secret any more. Change it now: {link}
""",
    ),
    "de": MailTemplate(
        "Viele falsche Codes für Ihr Konto in Keyrack",
        """\
Für das Konto {address} in Keyrack wurden viele falsche Codes gesendet, nach einer Anmeldung mit Ihrem Kennwort.

Wenn Sie es waren, warten Sie vor dem nächsten Code, oder melden Sie sich mit einem Passkey oder einem
Wiederherstellungscode an.

Wenn Sie es nicht waren, ist Ihr Kennwort nicht mehr geheim. Ändern Sie es jetzt: {link}
""",
    ),
}
# The phone's name was chosen by its app, so a mail does not repeat it
PHONE: Mapping[str, MailTemplate] = {
    "en": MailTemplate(
        "New phone for your car keys: {customer}",
        """\
A new phone was registered for you at {customer}. It can get keys that open boxes of your cars.

If it was you, do nothing.

If it was not you, call {customer} now. A manager there can remove the phone, and its keys are revoked.
""",
    ),
    "de": MailTemplate(
        "Neues Telefon für Ihre Autoschlüssel: {customer}",
        """\
Für Sie wurde bei {customer} ein neues Telefon registriert. Es kann Schlüssel erhalten, die Boxen Ihrer Autos öffnen.

Wenn Sie es waren, tun Sie nichts.

Wenn Sie es nicht waren, melden Sie sich jetzt bei {customer}. Ein Verwalter kann das Telefon dort entfernen, und seine
Schlüssel werden widerrufen.
""",
    ),
}
TEST = MailTemplate(
    "Keyrack can send mail", "This is a test from {host}. Whoever runs that server has asked for it.\n"
)  # fmt: skip
ROLES_DE = {
    "Owner": "Inhaber", "Manager": "Verwalter", "Dispatcher": "Disponent", "Technician": "Techniker",
    "Auditor": "Prüfer", "Viewer": "Betrachter",
}  # fmt: skip


def language_of(language: str | None) -> str:
    """The language of a mail."""
    return language if language is not None and language in INVITATION else DEFAULT


def written(text: MailTemplate, sender: str, to: str, **places: object) -> EmailMessage:
    """A mail in plain text (RFC 5322, RFC 6532), which can be serialized.

    The subject is one line, so no place ends a header. Raises errors of `email`, and `ValueError` for a recipient that
    is no e-mail address.
    """
    name, address = parseaddr(sender)
    message = EmailMessage()
    message["From"] = Address(name, addr_spec=address)
    message["To"] = _recipient(to)
    message["Subject"] = " ".join(text.subject.format(**places).split())
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain=address.rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no automatic reply
    message.set_content(text.body.format(**places))
    message.as_bytes(policy=SMTPUTF8)
    return message


def _recipient(to: str) -> Address:
    address = mail_recipient(to)
    if address.isascii():
        return Address(addr_spec=address)
    local_part, _, domain = address.rpartition("@")
    return Address(username=local_part, domain=domain)  # `addr_spec` takes ASCII alone
