"""Webhooks: manage them, inspect deliveries, and test receivers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, LiteralString

import typer
from pydantic import TypeAdapter, ValidationError

from keyrack.api.schema import event_types
from keyrack.api.schema.request_body import Name
from keyrack.cli import webhook_tools
from keyrack.cli.cell_choice import DefaultCell
from keyrack.cli.commands.customer import no_customer
from keyrack.cli.confirmation import ConfirmationPreview
from keyrack.cli.database_session import SHOWN_ONCE, DatabaseSession, command
from keyrack.cli.options import Customer, OfCustomer, moment, which
from keyrack.cli.output import CommandFailed, CommandResult, ListResult
from keyrack.core.error_codes import NO_CUSTOMER
from keyrack.core.errors import NotFound, on_constraint
from keyrack.db.change_notifier import DELIVERED, Topics
from keyrack.webhooks import outbox, pull_queue, subscriptions
from keyrack.webhooks.declarations import NewWebhook, check_url
from keyrack.webhooks.dialects import DIALECTS

TOPICS_CHANGED: Topics = DELIVERED
NAME = TypeAdapter(Name)

app = typer.Typer()

Webhook = Annotated[int, which("webhook")]

LIST: LiteralString = """
select webhook_id as id, customer_id as "customerId", case when not is_pull then url end as url, name,
  is_pull as "pull", kinds, dialect, is_enabled as "enabled", external_id as "externalId", metadata,
  disabled_reason as "disabledReason",
  (select count(*) from delivery d where d.customer_id = w.customer_id and d.webhook_id = w.webhook_id
   and d.state = 'Waiting') as waiting,
  (select count(*) from delivery d where d.customer_id = w.customer_id and d.webhook_id = w.webhook_id
   and d.state = 'Dead') as dead
from webhook w where $1::integer is null or customer_id = $1 order by webhook_id
"""
GOES: LiteralString = """
select count(*) filter (where state = 'Waiting') as "deliveries that wait",
  count(*) filter (where state <> 'Waiting') as "deliveries in its log"
from delivery where customer_id = $1 and webhook_id = $2
"""
CUSTOMER: LiteralString = "select customer_id, is_enabled from webhook where webhook_id = $1"
DELIVERIES: LiteralString = """
select delivery_id as id, type, message_id::text as "messageId", state, attempts, status, duration, error, answer,
  created_at as created, attempted_at as attempted, next_attempt_at as "nextAttempt"
from delivery where customer_id = $1 and webhook_id = $2 and ($3::text is null or state = $3)
order by delivery_id desc limit $4
"""


def _url(value: str | None) -> str | None:
    if value is not None:
        try:
            check_url(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return value


def _kinds(value: list[str] | None) -> list[str] | None:
    for kind in value or []:
        try:
            event_types.check(kind)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return event_types.stored(value) if value else None


def _dialect(value: str | None) -> str | None:
    if value is not None and value not in DIALECTS:
        raise typer.BadParameter(f"{value!r} is not a dialect. Valid: {', '.join(DIALECTS)}.")
    return value


def _static(value: str | None) -> str | None:
    if value is not None and not (value.isascii() and value.isprintable() and value.strip() == value):
        raise typer.BadParameter("must be printable ASCII without leading or trailing spaces")
    return value


def _name(value: str | None) -> str | None:
    try:
        return value and NAME.validate_python(value)
    except ValidationError as error:
        raise typer.BadParameter(error.errors()[0]["msg"]) from None


Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind", callback=_kinds, help="Event type to send, such as assignment.created or car.*. Repeatable."
    ),
]
DialectOption = Annotated[
    str | None,
    typer.Option("--dialect", callback=_dialect, help=f"Format of the payload: {', '.join(DIALECTS)}."),
]
Static = Annotated[
    str | None, typer.Option("--secret", callback=_static, help="Static secret, sent in the header `secret`.")
]


async def _customer(session: DatabaseSession, id: int, *, enabled: bool = False) -> int:
    row = await session.sql.fetchrow(CUSTOMER, id)
    if row is None:
        raise CommandFailed(f"There is no webhook {id}.")
    if enabled and not row["is_enabled"]:
        raise CommandFailed(f"Webhook {id} is disabled. Enable it first: keyrack webhook change {id} --enable")
    return row["customer_id"]


@command(app, "add", topics=TOPICS_CHANGED)
async def add(
    session: DatabaseSession,
    customer: Customer,
    url: Annotated[str | None, typer.Argument(metavar="[URL]", callback=_url)] = None,
    pull: Annotated[
        bool, typer.Option("--pull", help="Let a client fetch the messages, instead of sending them to a URL.")
    ] = False,
    name: Annotated[str | None, typer.Option("--name", callback=_name, help="Name for people.")] = None,
    secret: Static = None,
    taken: Kinds = None,
    dialect: DialectOption = None,
) -> CommandResult:
    """Add a webhook; its signing secret is shown once."""
    if pull == (url is not None):
        raise typer.BadParameter("Give either a URL or --pull.")
    webhook = NewWebhook.model_construct(
        url=url, pull=pull, name=name or None, secret=secret or None, kinds=taken, dialect=dialect
    )  # checked above
    with on_constraint({"webhook_customer_id_fkey": (NotFound, NO_CUSTOMER.with_text(str(no_customer(customer))))}):
        added = await subscriptions.add(
            session.sql, await session.vault(), customer, webhook, session.settings.webhook_limit
        )
    if added is None:
        raise CommandFailed(f"Customer {customer} has reached its limit of webhooks (KEYRACK_WEBHOOK_LIMIT).")
    id, signing = added
    fetched = f"\nA client fetches its messages: GET /webhooks/{id}/messages?wait=30" if pull else ""
    return CommandResult({"id": id, "signingSecret": signing}, f"Webhook {id} added: {signing}\n{SHOWN_ONCE}{fetched}")


@command(app, "list", default=DefaultCell.ALL, topics=TOPICS_CHANGED)
async def list_(session: DatabaseSession, customer: OfCustomer = None) -> ListResult:
    """List all webhooks."""
    columns = {
        "ID": "id", "CUSTOMER": "customerId", "URL": "url", "NAME": "name", "PULL": "pull", "DIALECT": "dialect",
        "ENABLED": "enabled", "WAITING": "waiting", "DEAD": "dead", "WHY DISABLED": "disabledReason",
    }  # fmt: skip
    return ListResult([dict(row) for row in await session.sql.fetch(LIST, customer)], columns)


@command(app, "change", topics=TOPICS_CHANGED)
async def change(
    session: DatabaseSession,
    id: Webhook,
    url: Annotated[str | None, typer.Option("--url", callback=_url, help="New address.")] = None,
    secret: Annotated[
        str | None, typer.Option("--secret", callback=_static, help="New static secret; empty for none.")
    ] = None,
    taken: Kinds = None,
    dialect: DialectOption = None,
    enable: Annotated[bool | None, typer.Option("--enable/--disable", help="Enable or disable deliveries.")] = None,
) -> CommandResult:
    """Change a webhook; only the given options change."""
    given: dict[str, Any] = {"url": url, "kinds": taken, "dialect": dialect, "enabled": enable}
    changes = {name: value for name, value in given.items() if value is not None}
    if secret is not None:
        changes["secret"] = secret or None
    customer = await _customer(session, id)
    if url is not None and await session.sql.fetchval(pull_queue.STATE, customer, id):
        raise CommandFailed(f"Webhook {id} is pulled, so it cannot get a URL. Add another webhook.")
    if changes.get("secret"):
        await subscriptions.change(session.sql, await session.vault(), customer, id, changes)
    else:
        await session.sql.execute(
            subscriptions.UPDATE, customer, id, changes, None
        )  # no secret, so no master key is needed
    return CommandResult({"id": id}, f"Webhook {id} changed.")


async def _preview(session: DatabaseSession, id: int) -> ConfirmationPreview | None:
    """The deliveries that are removed with a webhook. Raises `CommandFailed`."""
    customer = await _customer(session, id)
    row = await session.sql.fetchrow(GOES, customer, id)
    goes = {} if row is None else dict(row)
    return ConfirmationPreview(f"remove webhook {id} of customer {customer}", goes) if any(goes.values()) else None


@command(app, "remove", preview=_preview, topics=TOPICS_CHANGED)
async def remove(session: DatabaseSession, id: Webhook) -> CommandResult:
    """Remove a webhook and the log of its deliveries."""
    await session.sql.execute(subscriptions.DELETE, await _customer(session, id), id)
    return CommandResult({"id": id}, f"Webhook {id} removed.")


@command(app, "rotate-secret", topics=TOPICS_CHANGED)
async def rotate_secret(session: DatabaseSession, id: Webhook) -> CommandResult:
    """Create a new signing secret; the old one also signs for a transition period."""
    customer, vault = await _customer(session, id), await session.vault()
    rotated = await subscriptions.rotate(
        session.sql, vault, customer, id, session.settings.webhook_secret_overlap_hours
    )
    if rotated is None:
        raise CommandFailed(f"There is no webhook {id}.")
    secret, until = rotated
    text = f"{secret}\n{SHOWN_ONCE} The old one also signs until {until:%Y-%m-%d %H:%M} UTC."
    return CommandResult({"id": id, "signingSecret": secret, "oldSigningSecretUntil": until}, text)


@command(app, "deliveries", topics=TOPICS_CHANGED)
async def deliveries(
    session: DatabaseSession,
    id: Webhook,
    only: Annotated[
        str | None, typer.Option("--only", help="Show only this state: Waiting, Delivered or Dead.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of deliveries, newest first.")
    ] = 50,
) -> ListResult:
    """List the deliveries of a webhook, newest first."""
    rows = await session.sql.fetch(DELIVERIES, await _customer(session, id), id, only, limit)
    columns = {
        "ID": "id", "TYPE": "type", "STATE": "state", "ATTEMPTS": "attempts", "STATUS": "status", "MS": "duration",
        "CREATED": "created", "NEXT ATTEMPT": "nextAttempt", "ERROR": "error",
    }  # fmt: skip
    return ListResult([dict(row) for row in rows], columns)


@command(app, "replay", topics=TOPICS_CHANGED)
async def replay(
    session: DatabaseSession,
    id: Webhook,
    delivery: Annotated[
        int | None, typer.Option("--delivery", min=1, max=2**63 - 1, help="Replay this delivery.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Replay all its event types from this time on, oldest first."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="With --from: until this time. Default: now.")
    ] = None,
    undelivered: Annotated[bool, typer.Option("--undelivered", help="With --from: only undelivered messages.")] = False,
) -> CommandResult:
    """Replay one delivery, or all messages of a period."""
    begin, end = moment(since), moment(until) or datetime.now(UTC)
    if (delivery is None) == (begin is None):
        raise CommandFailed("Choose either --delivery ID or --from TIME.")
    customer = await _customer(session, id, enabled=True)
    count, following = 1, None
    if delivery is not None:
        if not await outbox.replay(session.sql, customer, id, delivery):
            raise CommandFailed(f"There is no delivery {delivery} of webhook {id}.")
    elif begin is not None:
        count, following = await outbox.replay_range(session.sql, customer, id, begin, end, undelivered=undelivered)
    more = f" More messages remain. Continue with --from {following.isoformat()}" if following else ""
    return CommandResult({"count": count, "next": following}, f"{count} queued for replay.{more}")


@command(app, "test", topics=TOPICS_CHANGED)
async def test(session: DatabaseSession, id: Webhook) -> CommandResult:
    """Send a test message to a webhook."""
    delivery = await session.sql.fetchval(outbox.SEND_TEST, await _customer(session, id, enabled=True), id)
    return CommandResult(
        {"id": delivery}, f"Delivery {delivery} is queued. See its result with: keyrack webhook deliveries {id}"
    )


app.registered_commands.extend(webhook_tools.app.registered_commands)
