"""The members of webhooks, each declared once.

`api.schema.declaration` describes what is derived from a declaration. The statements of `webhooks.subscriptions` add
what no body has: the signing secrets, and the encryption of the static secret.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, LiteralString
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError, PydanticKnownError

from keyrack.api.schema.declaration import FixedValues, MemberInfo, ResourceTable, shown
from keyrack.api.schema.event_types import OUTCOMES, TAKEN, stored
from keyrack.api.schema.references import ExternalId, Metadata
from keyrack.api.schema.request_body import WHOLE_NUMBER, Body, Kind, Name, int32_from
from keyrack.core.addresses import domain_form
from keyrack.core.text import N_
from keyrack.webhooks.dialects import DEFAULT, DIALECTS


def check_url(url: str) -> None:
    """Check the form of a webhook's URL. Raises `ValueError` with a sentence for the caller.

    The sender checks the address itself, each time before it connects.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("The URL must have a valid host.") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError("The URL must begin with https:// or http://.")
    if not parts.hostname:
        raise ValueError("The URL must name a host.")
    if parts.username is not None or parts.password is not None:
        raise ValueError("The URL must not contain a user name or a password.")
    if parts.fragment:
        raise ValueError("The URL must not have a fragment.")
    if any(c.isspace() for c in url):
        raise ValueError("The URL must not contain blanks. Write %20 instead.")
    if not parts.hostname.isascii():
        raise ValueError(_ascii_host(parts.hostname))
    if not url.isascii() or not url.isprintable():
        raise ValueError("The URL must be printable ASCII. Percent-encode the other characters.")
    try:
        is_port = parts.port != 0
    except ValueError:
        is_port = False
    if not is_port:
        raise ValueError("The URL must have a port from 1 to 65535.")


def _ascii_host(host: str) -> str:
    """The error for a host that is not ASCII, with its A-labels (RFC 5891)."""
    try:
        return f"The host of the URL must be ASCII. Write {domain_form(host)} instead."
    except ValueError:
        return "The host of the URL must be ASCII."


def _checked_url(url: str) -> str:
    """The address of a webhook. Raises `PydanticCustomError`, whose sentence the error shows."""
    try:
        check_url(url)
    except ValueError as error:
        raise PydanticCustomError("url", "{sentence}", {"sentence": str(error)}) from None
    return url


Url = Annotated[str, Field(max_length=2_000), AfterValidator(_checked_url)]
DialectName = Annotated[str, FixedValues(tuple(DIALECTS))]
Secret = Annotated[str, Field(max_length=250, pattern=r"^[!-~]([ -~]*[!-~])?$")]
Kinds = Annotated[list[Kind], Field(min_length=1, max_length=len(TAKEN)), AfterValidator(stored)]

_COUNT: LiteralString = (
    "(select count(*)::integer from delivery d where d.customer_id = {t}.customer_id"
    " and d.webhook_id = {t}.webhook_id and d.state = "
)


_ABSENT = object()  # the address of a body without one
MOST_UNUSED_DAYS = 365
UnusedDays = Annotated[int, int32_from(1, MOST_UNUSED_DAYS), WHOLE_NUMBER]


def _url_unless_pull(value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> str | None:
    """The address, which a pull webhook must not have. Raises `PydanticCustomError`."""
    is_given = value is not _ABSENT
    if not info.data.get("pull"):
        if value is None:
            raise PydanticKnownError("string_type")
        if not is_given:
            raise PydanticKnownError("missing")
        return handler(value)
    if is_given and value is not None:
        raise PydanticCustomError(
            "url", "{sentence}", {"sentence": "A pull webhook has no `url`. Leave one of them out."}
        )
    return None


def _only_of_pull(value: int | None, info: ValidationInfo) -> int | None:
    """Days without use, which only a pull webhook has. Raises `PydanticCustomError`."""
    if value is not None and not info.data.get("pull"):
        sentence = "Only a pull webhook has `deleteUnusedAfterDays`."
        raise PydanticCustomError("url", "{sentence}", {"sentence": sentence})
    return value


# The body of a new webhook. A missing or null member gets the default of the row
class NewWebhook(Body):
    pull: bool = False
    url: Annotated[Url | None, WrapValidator(_url_unless_pull)] = Field(
        default_factory=lambda: _ABSENT,  # pyright: ignore[reportArgumentType] - the validator replaces it
        validate_default=True,
    )
    dialect: DialectName | None = None
    secret: Secret | None = None
    kinds: Kinds | None = None
    enabled: bool = True
    external_id: ExternalId = None
    metadata: Metadata = None
    name: Name | None = None
    delete_unused_after_days: Annotated[UnusedDays | None, AfterValidator(_only_of_pull)] = None


class WebhookRow(Body):
    """The members of a webhook. A patch that removes a member sets its default."""

    url: Annotated[
        Url | None,
        MemberInfo(
            N_("Address"),
            N_("the address"),
            "The URL to which outcomes and changes are sent: http or https, at an address that the operator allows."
            " Null for a pull webhook.",
            "https://example.org/keyrack",
            is_searchable=True,
            sql="(case when not {t}.is_pull then {t}.url end)",
        ),
    ]
    kinds: Annotated[
        Kinds,
        MemberInfo(
            N_("Sent event types"),
            N_("the event types"),
            "The event types and wildcards to send, from `GET /webhooks/kinds`. Omitted or null: the"
            " outcomes of assignments.",
            ["assignment.created", "car.*"],
        ),
    ] = Field(default=stored(OUTCOMES))
    dialect: Annotated[
        DialectName,
        MemberInfo(
            N_("Format"),
            N_("the format"),
            "The format of messages: the default `keyrack`, or the envelope of another specification."
            " Omitted or null: the default.",
            "keyrack",
        ),
    ] = DEFAULT
    enabled: Annotated[
        bool,
        MemberInfo(
            N_("Enabled"),
            N_("the state"),
            "Whether deliveries are sent. Omitted from a body, it is true. A disabled webhook gets no new deliveries,"
            " and its waiting ones are not sent.",
            True,
            column="is_enabled",
            recorded_as="isEnabled",
            exported_as="isEnabled",
        ),
    ] = True
    external_id: ExternalId = None
    metadata: Metadata = None
    secret: Annotated[
        Secret | None,
        MemberInfo(
            N_("Static secret"),
            N_("the static secret"),
            "A static text that deliveries in the format `keyrack` contain in the header `secret`; null for none.",
            "optional-static-text",
            is_secret=True,
        ),
    ] = None
    name: Annotated[
        Name | None,
        MemberInfo(
            N_("Name"),
            N_("the name"),
            "A name for people; null for none.",
            "Booking software",
            is_searchable=True,
        ),
    ] = None
    pull: Annotated[
        bool,
        MemberInfo(
            N_("Pulled"),
            N_("the way of delivery"),
            "Whether clients fetch the messages, with `GET /webhooks/{webhookId}/messages`. A pull webhook has no"
            " `url`. A patch cannot change it.",
            False,
            column="is_pull",
        ),
    ] = False
    delete_unused_after_days: Annotated[
        UnusedDays | None,
        MemberInfo(
            N_("Deleted after days without use"),
            N_("the days without use"),
            "Keyrack deletes the pull webhook after this number of days in which no client has asked for its messages;"
            " null for never.",
            7,
        ),
    ] = None
    disabled_reason: Annotated[
        str | None,
        MemberInfo(
            N_("Reason of the disabling"),
            N_("the reason of the disabling"),
            "Why Keyrack disabled the webhook; null if it did not.",
            None,
            is_read_only=True,
            exported_as=None,
        ),
    ] = None
    has_secret: Annotated[bool, shown("Whether the webhook has a static secret.", True, "({t}.secret is not null)")]
    old_signing_secret_until: Annotated[
        datetime | None,
        MemberInfo(
            N_("Old signing secret until"),
            N_("the end of the old signing secret"),
            "Until when the old secret also signs; null if there is none.",
            "2026-05-02T08:00:00Z",
            is_read_only=True,
            exported_as=None,
            sql="(case when {t}.old_signing_secret_until > now() then {t}.old_signing_secret_until end)",
        ),
    ] = None
    pulled: Annotated[
        datetime | None,
        shown(
            "When a client last asked for the messages of the pull webhook, to the minute; null for never.",
            "2026-04-30T12:10:00Z",
            "{t}.pulled_at",
        ),
    ] = None
    created: Annotated[datetime, shown("When the webhook was created.", "2026-04-30T12:00:00Z", "{t}.created_at")]
    waiting: Annotated[int, shown("The number of waiting deliveries.", 0, _COUNT + "'Waiting')")]
    dead: Annotated[int, shown("The number of deliveries that were given up.", 0, _COUNT + "'Dead')")]


WEBHOOKS = ResourceTable("Webhook", "webhook", WebhookRow, key="webhook_id", id=("The id of the webhook.", 1))
