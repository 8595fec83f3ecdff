"""Texts of mails, in the recipient's or the sender's language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTPUTF8
from email.utils import formatdate, make_msgid, parseaddr
from typing import NamedTuple

from keyrack.core.addresses import mail_recipient
from keyrack.core.settings import Settings

DEFAULT = "en"


@dataclass(frozen=True, slots=True)
class MailTemplate:
    """A subject and a body with placeholders."""

    subject: str
    body: str


INVITATION: Mapping[str, MailTemplate] = {
    "en": MailTemplate(
        "Invitation to Keyrack: {customer}",
        """\
{by} invites you to {customer} in Keyrack, with the role {role}.

Open this link to accept. It works once, until {until}:

{link}

If you did not expect this invitation, ignore this mail.
""",
    ),
    "de": MailTemplate(
        "Einladung zu Keyrack: {customer}",
        """\
{by} lädt Sie zu {customer} in Keyrack ein, mit der Rolle {role}.

Öffnen Sie diesen Link, um die Einladung anzunehmen. Er gilt einmal, bis {until}:

{link}

Wenn Sie diese Einladung nicht erwartet haben, ignorieren Sie diese E-Mail.
""",
    ),
}
PASSWORD: Mapping[str, MailTemplate] = {
    "en": MailTemplate(
        "Set a new password for Keyrack",
        """\
A new password was requested for the account {address} in Keyrack.

Open this link to set a new password. It works once, for {minutes} minutes:

{link}

If you did not request this, ignore this mail. Your password does not change.
""",
    ),
    "de": MailTemplate(
        "Neues Passwort für Keyrack",
        """\
Für das Konto {address} in Keyrack wurde ein neues Passwort angefordert.

Öffnen Sie diesen Link, um ein neues Passwort zu setzen. Er gilt einmal, {minutes} Minuten lang:

{link}

Wenn Sie es nicht angefordert haben, ignorieren Sie diese E-Mail. Ihr Passwort ändert sich nicht.
""",
    ),
}
CODES: Mapping[str, MailTemplate] = {
    "en": MailTemplate(
        "Many wrong codes for your Keyrack account",
        """\
Many wrong codes were entered for the account {address} in Keyrack, after a sign-in with your password.

If it was you, wait before you try the next code, or sign in with a passkey or a recovery code.

If it was not you, another person knows your password. Change it now: {link}
""",
    ),
    "de": MailTemplate(
        "Viele falsche Codes für Ihr Keyrack-Konto",
        """\
Für das Konto {address} in Keyrack wurden viele falsche Codes eingegeben, nach einer Anmeldung mit Ihrem Passwort.

Wenn Sie das waren, warten Sie vor dem nächsten Code, oder melden Sie sich mit einem Passkey oder einem
Wiederherstellungscode an.

Wenn Sie das nicht waren, kennt eine andere Person Ihr Passwort. Ändern Sie es jetzt: {link}
""",
    ),
}
# The app chooses the phone's name, so the mail does not repeat it
PHONE: Mapping[str, MailTemplate] = {
    "en": MailTemplate(
        "New phone for your car keys: {customer}",
        """\
A new phone was registered for you at {customer}. It can get keys to the cars that you book.

If it was you, you do not need to do anything.

If it was not you, call {customer} now and have the phone removed. Its keys are then revoked.
""",
    ),
    "de": MailTemplate(
        "Neues Telefon für Ihre Fahrzeugschlüssel: {customer}",
        """\
Für Sie wurde bei {customer} ein neues Telefon registriert. Es kann Schlüssel der Fahrzeuge bekommen, die Sie buchen.

Wenn Sie das waren, müssen Sie nichts tun.

Wenn Sie das nicht waren, rufen Sie jetzt bei {customer} an und lassen Sie das Telefon entfernen. Seine Schlüssel werden
dann widerrufen.
""",
    ),
}
DRIVER_LINK: Mapping[str, MailTemplate] = {
    "en": MailTemplate(
        "Sign in to your car keys",
        """\
A link to the app for your car keys was requested for this address.

Open this link to sign in, or to set a password. It works once, for {minutes} minutes:

{link}

If you did not request this, ignore this mail. Your account does not change.
""",
    ),
    "de": MailTemplate(
        "Anmeldung zu Ihren Fahrzeugschlüsseln",
        """\
Für diese Adresse wurde ein Link zur App für Ihre Fahrzeugschlüssel angefordert.

Öffnen Sie diesen Link, um sich anzumelden oder ein Passwort zu setzen. Er gilt einmal, {minutes} Minuten lang:

{link}

Wenn Sie ihn nicht angefordert haben, ignorieren Sie diese E-Mail. Ihr Konto ändert sich nicht.
""",
    ),
}
DRIVER_INVITATION: Mapping[str, MailTemplate] = {
    "en": MailTemplate(
        "Your car keys from {customer}",
        """\
{customer} invites you to the app for your car keys. With the app you open the cars that you book.

Open this link on your phone. It works once, for {hours} hours:

{link}

If you did not expect this invitation, ignore this mail.
""",
    ),
    "de": MailTemplate(
        "Ihre Fahrzeugschlüssel von {customer}",
        """\
{customer} lädt Sie zur App für Ihre Fahrzeugschlüssel ein. Mit der App öffnen Sie die Fahrzeuge, die Sie buchen.

Öffnen Sie diesen Link auf Ihrem Telefon. Er gilt einmal, {hours} Stunden lang:

{link}

Wenn Sie diese Einladung nicht erwartet haben, ignorieren Sie diese E-Mail.
""",
    ),
}
TEST = MailTemplate(
    "Keyrack can send mail", "This is a test mail from {host}. The operator of that server sent it.\n"
)  # fmt: skip
ROLES_DE = {
    "Owner": "Eigentümer", "Manager": "Verwalter", "Dispatcher": "Disponent", "Technician": "Techniker",
    "Auditor": "Prüfer", "Viewer": "Betrachter",
}  # fmt: skip


def language_of(language: str | None) -> str:
    """The language itself if there are mails in it, else English."""
    return language if language is not None and language in INVITATION else DEFAULT


def accepted_language(header: str | None) -> str:
    """The first language of `Accept-Language` that there are mails in, else English."""
    tags = (part.partition(";")[0].strip().lower().partition("-")[0] for part in (header or "").split(",", 20)[:20])
    return next((tag for tag in tags if tag in INVITATION), DEFAULT)


class OutgoingMail(NamedTuple):
    """A template, the recipient's stored address, and values to fill in."""

    template: MailTemplate
    to: str
    places: Mapping[str, object]

    def message(self, settings: Settings) -> EmailMessage:
        """The mail. Raises what `written` raises."""
        return written(self.template, settings.mail_from or "", self.to, **self.places)


def written(text: MailTemplate, sender: str, to: str, **places: object) -> EmailMessage:
    """A plain-text mail (RFC 5322, RFC 6532) that can be serialized.

    The subject is one line, so a value cannot end a header. Raises errors of `email`, and `ValueError` if the recipient
    is not an e-mail address.
    """
    name, address = parseaddr(sender)
    message = EmailMessage()
    message["From"] = Address(name, addr_spec=address)
    message["To"] = _recipient(to)
    message["Subject"] = " ".join(text.subject.format(**places).split())
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain=address.rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: suppresses absence notes
    message.set_content(text.body.format(**places))
    message.as_bytes(policy=SMTPUTF8)
    return message


def _recipient(to: str) -> Address:
    address = mail_recipient(to)
    if address.isascii():
        return Address(addr_spec=address)
    local_part, _, domain = address.rpartition("@")
    return Address(username=local_part, domain=domain)  # `addr_spec` accepts only ASCII
