"""Settings of mail, invitations and password links."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field
from pydantic_settings import BaseSettings

from keyrack.core.settings.secret_files import SECRET


class Mail(BaseSettings):
    """Settings of mail, invitations and password links."""

    section: ClassVar[str] = "mail"
    title: ClassVar[str] = "Mail and invitations"

    mail_host: str | None = Field(
        default=None,
        description="SMTP server for invitations and password links. If unset, no mail is sent, and the links are "
        "shown to the manager or operator who creates them.",
    )
    mail_port: int = Field(default=587, ge=1, le=65_535, description="Port of the SMTP server.")
    mail_tls: Literal["starttls", "tls", "none"] = Field(
        default="starttls",
        description="Encryption of the connection to the SMTP server. `starttls`: after the greeting, required. `tls`:"
        " from the first byte, as on port 465. `none`: unencrypted, for a server on the same machine.",
    )
    mail_user: str | None = Field(
        default=None, description="User name at the SMTP server. If unset, Keyrack does not authenticate."
    )
    mail_password: str | None = Field(
        default=None, description="Password at the SMTP server.", json_schema_extra=SECRET
    )
    mail_from: str | None = Field(
        default=None,
        description="Sender of mails, for example `Keyrack <keyrack@example.com>`. Without it no mail is sent.",
    )
    mail_seconds: float = Field(
        default=20.0, gt=0, le=600, description="Timeout of the SMTP server (seconds). After it, the mail is retried."
    )
    mail_hours: int = Field(
        default=24,
        ge=1,
        le=168,
        description="Time for which a failed mail is retried (hours). After it, the mail is discarded, and an error is"
        " logged.",
    )
    mail_waiting: int = Field(
        default=10_000, ge=1, description="Maximum number of queued mails. Above it, no mail is added."
    )
    invitation_hours: int = Field(default=168, ge=1, le=8_760, description="Validity of an invitation (hours).")
    invitation_limit: int = Field(
        default=100,
        ge=1,
        description="Maximum number of open invitations of one customer. Above it, a new one gets 409.",
    )
    invitations_per_hour_per_customer: int = Field(
        default=100,
        ge=1,
        description="Rate limit of invitations for one customer (per hour). Above it, requests get 429. Withdrawn "
        "invitations count.",
    )
    invitation_burst_per_customer: int = Field(default=100, ge=1, description="Burst of invitations for one customer.")
    invitations_per_hour_per_manager: int = Field(
        default=50,
        ge=1,
        description="Rate limit of invitations by one manager, for all customers together (per hour). Above it, "
        "requests get 429.",
    )
    invitation_burst_per_manager: int = Field(default=50, ge=1, description="Burst of invitations by one manager.")
    invitations_per_day_per_address: int = Field(
        default=10,
        ge=1,
        description="Rate limit of invitations by one customer to one e-mail address (per day). Above it, requests get"
        " 429.",
    )
    invitation_burst_per_address: int = Field(
        default=5, ge=1, description="Burst of invitations by one customer to one e-mail address."
    )
    phone_mails_per_day_per_user: int = Field(
        default=10,
        ge=1,
        description="Rate limit and burst of mails about new phones to one user of a customer (per day). Above it, no "
        "mail is sent.",
    )
    phone_mails_per_hour_per_customer: int = Field(
        default=300,
        ge=1,
        description="Rate limit and burst of mails about new phones to all users of one customer (per hour). Above it,"
        " no mail is sent.",
    )
    password_mails_per_hour_per_address: int = Field(
        default=6,
        ge=1,
        description="Rate limit of requests for a password link to one e-mail address, from all networks together (per"
        " hour). Above it, requests get 429.",
    )
    password_mail_burst_per_address: int = Field(
        default=5, ge=1, description="Burst of requests for a password link to one e-mail address."
    )
    password_link_minutes: int = Field(
        default=60, ge=5, le=1_440, description="Validity of a link to set a password (minutes)."
    )

    @property
    def sends_mail(self) -> bool:
        """Whether mail is configured."""
        return self.mail_host is not None and self.mail_from is not None
