"""The members of webhooks, each declared once.

`api.schema.declaration` describes what is derived from a declaration. The statements of `webhooks.subscriptions` add
what no body has: the signing secrets, and the encryption of the static secret.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, LiteralString
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from keyrack.api.schema.declaration import FixedValues, MemberInfo, ResourceTable, shown
from keyrack.api.schema.event_types import OUTCOMES, TAKEN, stored
from keyrack.api.schema.request_body import Body, Kind
from keyrack.core.addresses import domain_form
from keyrack.core.text import N_
from keyrack.webhooks.dialects import DEFAULT, DIALECTS


def check_url(url: str) -> None:
    """Raises `ValueError` for an address that no webhook can have. Its text follows the member's name.

    The sender decides whether the address may be dialled.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("must have a valid host") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError("must begin with https:// or http://")
    if not parts.hostname:
        raise ValueError("must name a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user name or a password")
    if parts.fragment:
        raise ValueError("must not have a fragment")
    if any(c.isspace() for c in url):
        raise ValueError("must not have blanks: write %20")
    if not parts.hostname.isascii():
        raise ValueError(f"must have its host in ASCII{_a_labels(parts.hostname)}")
    if not url.isascii() or not url.isprintable():
        raise ValueError("must be printable ASCII: percent-encode the other characters")
    try:
        is_port = parts.port != 0
    except ValueError:
        is_port = False
    if not is_port:
        raise ValueError("must have a port from 1 to 65535")


def _a_labels(host: str) -> str:
    """The remedy for a host with non-ASCII characters (RFC 5891); empty if the host has no A-labels."""
    try:
        return f": write {domain_form(host)}"
    except ValueError:
        return ""


def _checked_url(url: str) -> str:
    """The address of a webhook. Raises `PydanticCustomError`, whose reason appears in the error."""
    try:
        check_url(url)
    except ValueError as error:
        raise PydanticCustomError("url", "String {fault}", {"fault": str(error)}) from None
    return url


Url = Annotated[str, Field(max_length=2_000), AfterValidator(_checked_url)]
DialectName = Annotated[str, FixedValues(tuple(DIALECTS))]
Secret = Annotated[str, Field(max_length=250, pattern=r"^[!-~]([ -~]*[!-~])?$")]
Kinds = Annotated[list[Kind], Field(min_length=1, max_length=len(TAKEN)), AfterValidator(stored)]

_COUNT: LiteralString = (
    "(select count(*)::integer from delivery d where d.customer_id = {t}.customer_id"
    " and d.webhook_id = {t}.webhook_id and d.state = "
)


# The body of a new webhook. A missing or null member gets the default of the row
class NewWebhook(Body):
    url: Url
    dialect: DialectName | None = None
    secret: Secret | None = None
    kinds: Kinds | None = None
    enabled: bool = True


class WebhookRow(Body):
    """The members of a webhook. A patch that removes a member sets its default."""

    url: Annotated[
        Url,
        MemberInfo(
            N_("Address"),
            N_("the address"),
            "Where outcomes and changes are sent: an address of http or https that the operator allows.",
            "https://example.org/keyrack",
            is_searchable=True,
        ),
    ]
    kinds: Annotated[
        Kinds,
        MemberInfo(
            N_("What it is told"),
            N_("the kinds"),
            "What it is told: kinds and wildcards that `GET /webhooks/kinds` lists. Left out or null: the outcomes of"
            " assignments.",
            ["assignment.created", "car.*"],
        ),
    ] = Field(default=stored(OUTCOMES))
    dialect: Annotated[
        DialectName,
        MemberInfo(
            N_("Format"),
            N_("the format"),
            "The form in which messages are sent: the default `keyrack`, or the envelope of another specification."
            " Left out or null: the default.",
            "keyrack",
        ),
    ] = DEFAULT
    enabled: Annotated[
        bool,
        MemberInfo(
            N_("Enabled"),
            N_("the state"),
            "Whether anything is sent. Left out of a body it is true; what comes meanwhile waits.",
            True,
            column="is_enabled",
            recorded_as="isEnabled",
            exported_as="isEnabled",
        ),
    ] = True
    secret: Annotated[
        Secret | None,
        MemberInfo(
            N_("Static secret"),
            N_("the static secret"),
            "A text that every delivery carries in the header `secret`; null for none.",
            "optional-static-text",
            is_secret=True,
        ),
    ] = None
    disabled_reason: Annotated[
        str | None,
        MemberInfo(
            N_("Why it was disabled"),
            N_("the reason why it is disabled"),
            "Why Keyrack has disabled it; null where it has not.",
            None,
            is_read_only=True,
            exported_as=None,
        ),
    ] = None
    has_secret: Annotated[bool, shown("Whether there is a static secret.", True, "({t}.secret is not null)")]
    old_signing_secret_until: Annotated[
        datetime | None,
        MemberInfo(
            N_("Old signing secret until"),
            N_("the end of the old signing secret"),
            "Until when the old secret signs too; null where there is none.",
            "2026-05-02T08:00:00Z",
            is_read_only=True,
            exported_as=None,
            sql="(case when {t}.old_signing_secret_until > now() then {t}.old_signing_secret_until end)",
        ),
    ] = None
    created: Annotated[datetime, shown("When it was registered.", "2026-04-30T12:00:00Z", "{t}.created_at")]
    waiting: Annotated[int, shown("How many deliveries wait to be sent.", 0, _COUNT + "'Waiting')")]
    dead: Annotated[int, shown("How many deliveries were given up.", 0, _COUNT + "'Dead')")]


WEBHOOKS = ResourceTable("Webhook", "webhook", WebhookRow, key="webhook_id", id=("The number of the webhook.", 1))
