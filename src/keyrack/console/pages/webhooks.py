"""Webhooks: state, log of deliveries, and actions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console import delivery_errors
from keyrack.console.dialect_labels import dialect_label
from keyrack.console.event_type_labels import NAMES
from keyrack.console.local_times import NoSuchTime, instant
from keyrack.console.paged_fetch import rows_of
from keyrack.console.rendering import base, clock, gettext, live_id, page, redirect, translate_error
from keyrack.core.errors import Refusal, Unauthorized
from keyrack.core.text import N_
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SECTION = "webhooks"
ROWS = 20  # deliveries of a page
DIGITS = 9  # of a page's number, or of a count in an address
SHOWN = {  # parts of the log -> $filter
    "failed": "error ne null",
    "waiting": "state eq 'Waiting'",
    "dead": "state eq 'Dead'",
}
LOG = "id,type,state,attempts,attempted,nextAttempt,status,duration,error,created"
STATES = {
    "working": ("good", N_("Working")),
    "failing": ("bad", N_("Failing")),
    "unused": ("note", N_("Nothing sent yet")),
    "unfetched": ("note", N_("Not fetched yet")),
    "disabled": ("idle", N_("Disabled")),
    "stopped": ("bad", N_("Disabled by Keyrack")),
}
FAILING = ("failing", "stopped")  # states of a webhook that should deliver and does not


@dataclass(frozen=True, slots=True)
class WebhookHealth:
    """The state of a webhook: its newest successful delivery, and its newest failed one."""

    succeeded: dict[str, Any] | None
    failed: dict[str, Any] | None

    def state(self, webhook: Mapping[str, Any]) -> str:
        """One of `STATES`."""
        if not webhook["enabled"]:
            return "stopped" if webhook["disabledReason"] else "disabled"
        if self.failed and (not self.succeeded or instant(self.failed["attempted"]) > _at(self.succeeded)):
            return "failing"
        if self.succeeded:
            return "working"
        return "unfetched" if webhook["pull"] else "unused"


def _at(delivery: Mapping[str, Any]) -> Any:
    return instant(delivery["attempted"])


async def course(visit: Visit, webhook: int) -> WebhookHealth:
    """The state of a webhook from its deliveries."""

    async def newest(filter: str) -> dict[str, Any] | None:
        query = {"$filter": filter, "$orderby": "id desc", "$top": "1", "$select": LOG}
        rows = (await visit.call("GET", "/webhooks/{webhookId}/deliveries", webhook, query=query)).json
        return rows[0] if rows else None

    succeeded, failed = await asyncio.gather(newest("state eq 'Delivered'"), newest("error ne null"))
    return WebhookHealth(succeeded, failed)


async def _with_health(
    visit: Visit, webhooks: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], WebhookHealth]]:
    healths = await asyncio.gather(*(course(visit, webhook["id"]) for webhook in webhooks))
    return list(zip(webhooks, healths, strict=True))


async def count_failing(visit: Visit) -> int:
    """The number of failing webhooks. Their logs are read only if there are failed deliveries."""
    listed = (await visit.call("GET", "/webhooks")).json
    undelivered = [webhook for webhook in listed if webhook["waiting"] or webhook["dead"] or webhook["disabledReason"]]
    return sum(health.state(webhook) in FAILING for webhook, health in await _with_health(visit, undelivered))


@pages.get("/{customer}/webhooks", permission=Permission.WEBHOOKS_READ)
async def webhooks(visit: Visit) -> Response:
    """All webhooks, or with `state=failing` only the failing ones."""
    at = await live_id(visit)
    listed = (await visit.call("GET", "/webhooks", query={"$orderby": "id"})).json
    rows, are_failing = await _with_health(visit, listed), visit.query_value("state") == "failing"
    shown = [(webhook, health) for webhook, health in rows if not are_failing or health.state(webhook) in FAILING]
    return await page(
        visit, "webhooks.html", section=SECTION, rows=shown, total=len(rows), are_failing=are_failing, states=STATES,
        since=at, removed="removed" in visit.query,
    )  # fmt: skip


@pages.get("/{customer}/webhooks/{webhook}", permission=Permission.WEBHOOKS_READ)
async def webhook(visit: Visit) -> Response:
    return await show(visit)


async def show(visit: Visit, wrong: Refusal | None = None) -> Response:
    """The page of a webhook. `wrong` is the error of the previous action."""
    at = await live_id(visit)
    id = visit.ids["webhook"]
    webhook = (await visit.call("GET", "/webhooks/{webhookId}", id)).json
    how = await course(visit, webhook["id"])
    stopped = delivery_errors.of_disabling(visit, webhook["disabledReason"]) if webhook["disabledReason"] else None
    return await page(
        visit, "webhook.html", status=wrong.status if wrong else 200, section=SECTION, webhook=webhook, course=how,
        state=how.state(webhook), states=STATES, kinds=NAMES, dialect=dialect_label(webhook["dialect"]),
        stopped=stopped, log=await _log(visit, webhook), since=at,
        test=await _test(visit, webhook), replayed=_number(visit.query_value("replayed"), -1),
        more=visit.query_value("more"),
        wrong=wrong and translate_error(visit, wrong.reason), overlap=visit.settings.webhook_secret_overlap_hours,
        key=uuid4(), failed=how.failed and delivery_errors.of_delivery(visit, how.failed, webhook["url"]),
        oldest=await _oldest_waiting(visit, webhook), calls=pull_calls(visit),
    )  # fmt: skip


def pull_calls(visit: Visit) -> dict[str, str]:
    """The values in the example requests of a pull webhook."""
    return {
        "server": visit.settings.public_url.rstrip("/") + "/v3", "brand": visit.settings.brand,
        "customer": str(visit.customer),
    }  # fmt: skip


async def _oldest_waiting(visit: Visit, webhook: Mapping[str, Any]) -> str | None:
    """When the oldest waiting message of a pull webhook was written.

    None for other webhooks, and if none waits.
    """
    if not (webhook["pull"] and webhook["waiting"]):
        return None
    query = {"$filter": "state eq 'Waiting'", "$orderby": "created", "$top": "1", "$select": "created"}
    rows = (await visit.call("GET", "/webhooks/{webhookId}/deliveries", webhook["id"], query=query)).json
    return rows[0]["created"] if rows else None


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else otherwise


async def _log(visit: Visit, webhook: Mapping[str, Any]) -> dict[str, Any]:
    """One page of the log, newest first."""
    shown, number = visit.query_value("show"), max(1, _number(visit.query_value("page"), 1))
    before = ROWS * (number - 1)
    query = {"$orderby": "id desc", "$select": LOG, "$count": "true"}
    if shown in SHOWN:
        query["$filter"] = SHOWN[shown]
    listed, total = await rows_of(visit, "/webhooks/{webhookId}/deliveries", query, ROWS, before, (webhook["id"],))
    return {
        "rows": [(row, delivery_errors.of_delivery(visit, row, webhook["url"])) for row in listed], "total": total,
        "page": number, "first": before + 1, "shown": shown if shown in SHOWN else "", "more": ROWS * number < total,
        "types": NAMES,
    }  # fmt: skip


async def _test(visit: Visit, webhook: Mapping[str, Any]) -> tuple[dict[str, Any], delivery_errors.Cause | None] | None:
    """The test that this page sent, and the error if it failed."""
    if not (id := _number(visit.query_value("test"), 0)):
        return None
    query = {"$filter": f"id eq {id}", "$select": LOG}
    rows = (await visit.call("GET", "/webhooks/{webhookId}/deliveries", webhook["id"], query=query)).json
    return (rows[0], delivery_errors.of_delivery(visit, rows[0], webhook["url"])) if rows else None


def of_webhook(visit: Visit) -> str:
    """The address of the webhook's page."""
    return f"{base(visit)}/webhooks/{visit.ids['webhook']}"


@pages.post("/{customer}/webhooks/{webhook}/test", permission=Permission.WEBHOOKS_WRITE)
async def send_test(visit: Visit) -> Response:
    try:
        sent = await visit.call(
            "POST", "/webhooks/{webhookId}/test", visit.ids["webhook"], key=visit.form_value("key") or None
        )
    except Unauthorized:
        raise
    except Refusal as refusal:
        return await show(visit, refusal)
    return redirect(f"{of_webhook(visit)}?test={sent.json['id']}")


@pages.post("/{customer}/webhooks/{webhook}/enabled", permission=Permission.WEBHOOKS_WRITE)
async def enable(visit: Visit) -> Response:
    """Enable or disable the webhook."""
    step = {"op": "replace", "path": "/enabled", "value": visit.form_value("enabled") == "true"}
    await visit.call("PATCH", "/webhooks/{webhookId}", visit.ids["webhook"], body=[step])
    return redirect(of_webhook(visit))


@pages.get("/{customer}/webhooks/{webhook}/delete", permission=Permission.WEBHOOKS_WRITE)
async def ask(visit: Visit) -> Response:
    return await _ask(visit)


async def _ask(visit: Visit, *, changed: bool = False) -> Response:
    reply = await visit.call("GET", "/webhooks/{webhookId}", visit.ids["webhook"])
    return await page(
        visit, "webhook_delete.html", status=412 if changed else 200, section=SECTION, back=of_webhook(visit),
        webhook=reply.json, tag=reply.tag, changed=changed,
    )  # fmt: skip


@pages.post("/{customer}/webhooks/{webhook}/delete", permission=Permission.WEBHOOKS_WRITE)
async def delete(visit: Visit) -> Response:
    try:
        await visit.call(
            "DELETE", "/webhooks/{webhookId}", visit.ids["webhook"], if_match=visit.form_value("tag") or None
        )
    except Refusal as refusal:
        if refusal.status != 412:
            raise
        return await _ask(visit, changed=True)
    return redirect(f"{base(visit)}/webhooks?removed")


@pages.get("/{customer}/webhooks/{webhook}/replay", permission=Permission.WEBHOOKS_WRITE)
async def span(visit: Visit) -> Response:
    return await _span(visit, {"start": visit.query_value("from"), "end": ""}, {})


async def _span(visit: Visit, times: Mapping[str, str], wrong: Mapping[str, str], status: int = 200) -> Response:
    webhook = (await visit.call("GET", "/webhooks/{webhookId}", visit.ids["webhook"])).json
    return await page(
        visit, "webhook_replay.html", status=status, section=SECTION, back=of_webhook(visit), webhook=webhook,
        times=times, wrong=wrong, key=uuid4(),
    )  # fmt: skip


@pages.post("/{customer}/webhooks/{webhook}/replay", permission=Permission.WEBHOOKS_WRITE)
async def replay(visit: Visit) -> Response:
    """Send again the deliveries of a period that did not arrive."""
    times = {name: visit.form_value(name) for name in ("start", "end")}
    body: dict[str, Any] = {"undelivered": True}
    wrong: dict[str, str] = {}
    for name, member in (("start", "from"), ("end", "to")):
        try:
            body[member] = clock(visit).read(times[name])
        except NoSuchTime:
            wrong[name] = gettext(visit, "This time does not exist: the clocks are put forward over it.")
        except (ValueError, OverflowError):  # the end of the last day may be outside the calendar in UTC
            wrong[name] = gettext(visit, "Enter a day and a time.")
    if wrong:
        return await _span(visit, times, wrong, 400)
    try:
        replayed = await visit.call(
            "POST", "/webhooks/{webhookId}/replay", visit.ids["webhook"], body=body, key=visit.form_value("key") or None
        )
    except Unauthorized:
        raise
    except Refusal as refusal:
        said = {400: N_("The end must be later than the start.")}.get(refusal.status)
        where = "end" if said else ""
        return await _span(
            visit,
            times,
            {where: gettext(visit, said) if said else translate_error(visit, refusal.reason)},
            refusal.status,
        )
    more = clock(visit).field(replayed.json["next"])
    return redirect(f"{of_webhook(visit)}?replayed={replayed.json['count']}" + (f"&more={more}" if more else ""))
