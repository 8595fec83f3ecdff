"""In charge of settings of mail, and of links that people are sent."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field
from pydantic_settings import BaseSettings

from keyrack.core.settings.secret_files import SECRET


class Mail(BaseSettings):
    """Settings of mail, and of links that people are sent."""

    section: ClassVar[str] = "mail"

    mail_host: str | None = Field(
        default=None,
        description="The SMTP server that takes mails: invitations, and links by which a password is set anew. Without "
        "it none are sent: links are shown to who makes them.",
    )
    mail_port: int = Field(default=587, ge=1, le=65_535, description="Its port.")
    mail_tls: Literal["starttls", "tls", "none"] = Field(
        default="starttls",
        description="`starttls`: encrypted after the greeting, else nothing is sent; `tls`: from the first byte, as on "
        "port 465; `none`: not at all, for a server on the same machine.",
    )
    mail_user: str | None = Field(default=None, description="The name to sign in with there; without one nobody does.")
    mail_password: str | None = Field(default=None, description="Its password, or in a file.", json_schema_extra=SECRET)
    mail_from: str | None = Field(
        default=None, description="The address that mails come from, as `Keyrack <keyrack@example.com>`."
    )
    mail_seconds: float = Field(
        default=20.0, gt=0, le=600, description="Seconds that the server may take for one mail."
    )
    mail_hours: int = Field(
        default=24,
        ge=1,
        le=168,
        description="Hours for which a mail that is not taken is tried again; then it is given up.",
    )
    mail_waiting: int = Field(
        default=10_000, ge=1, description="Mails that wait at most; beyond, none are added, and the log says so."
    )
    invitation_hours: int = Field(default=168, ge=1, le=8_760, description="Hours for which an invitation is good.")
    invitation_limit: int = Field(default=100, ge=1, description="Open invitations of each customer, at most.")
    invitations_per_hour_per_customer: int = Field(
        default=100, ge=1, description="Invitations of each customer an hour, over time; withdrawn ones count as well."
    )
    invitation_burst_per_customer: int = Field(default=100, ge=1, description="Invitations of each customer at once.")
    invitations_per_hour_per_manager: int = Field(
        default=50, ge=1, description="Invitations by each manager an hour, over time, for all customers together."
    )
    invitation_burst_per_manager: int = Field(default=50, ge=1, description="Invitations by each manager at once.")
    invitations_per_day_per_address: int = Field(
        default=10, ge=1, description="Invitations of each address by a customer a day, over time."
    )
    invitation_burst_per_address: int = Field(
        default=5, ge=1, description="Invitations of each address by a customer at once."
    )
    phone_mails_per_day_per_user: int = Field(
        default=10, ge=1, description="Mails about new phones to each user of a customer a day, over time and at once."
    )
    phone_mails_per_hour_per_customer: int = Field(
        default=300,
        ge=1,
        description="Mails about new phones to all users of a customer an hour, over time and at once.",
    )
    password_mails_per_hour_per_address: int = Field(
        default=6,
        ge=1,
        description="Links to set a password that can be asked for an hour for each address, over time, from all "
        "networks together.",
    )
    password_mail_burst_per_address: int = Field(
        default=5, ge=1, description="Links to set a password that can be asked for at once for each address."
    )
    password_link_minutes: int = Field(
        default=60, ge=5, le=1_440, description="Minutes for which a link is good by which a password is set anew."
    )

    @property
    def sends_mail(self) -> bool:
        """Whether there is a server that takes mails."""
        return self.mail_host is not None and self.mail_from is not None
