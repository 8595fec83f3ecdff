"""The page of a delivery: the message, the answer, the error, and sending again."""

from __future__ import annotations

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console import delivery_errors
from keyrack.console.dialect_labels import shown_request
from keyrack.console.event_type_labels import NAMES
from keyrack.console.pages.webhooks import SECTION, of_webhook
from keyrack.console.rendering import live_id, page, redirect, translate_error
from keyrack.core.error_codes import NOTHING_HERE
from keyrack.core.errors import NotFound, Refusal, Unauthorized
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

DIGITS = 18  # of an id


@pages.get("/{customer}/webhooks/{webhook}/deliveries/{delivery}", permission=Permission.WEBHOOKS_READ)
async def delivery(visit: Visit) -> Response:
    return await _delivery(visit)


async def _delivery(visit: Visit, wrong: Refusal | None = None) -> Response:
    """Raises `NotFound`."""
    at, id = await live_id(visit), visit.ids["delivery"]
    if not id.isascii() or not id.isdigit() or len(id) > DIGITS:
        raise NotFound(NOTHING_HERE)
    webhook = (await visit.call("GET", "/webhooks/{webhookId}", visit.ids["webhook"])).json
    query = {"$filter": f"id eq {int(id)}"}
    rows = (await visit.call("GET", "/webhooks/{webhookId}/deliveries", webhook["id"], query=query)).json
    if not rows:
        raise NotFound(NOTHING_HERE)
    headers, body = shown_request(visit, webhook, rows[0])
    return await page(
        visit, "delivery.html", status=wrong.status if wrong else 200, section=SECTION, webhook=webhook,
        delivery=rows[0], cause=delivery_errors.of_delivery(visit, rows[0], webhook["url"]), types=NAMES,
        headers=headers, body=body, since=at, wrong=wrong and translate_error(visit, wrong.reason),
    )  # fmt: skip


@pages.post("/{customer}/webhooks/{webhook}/deliveries/{delivery}/replay", permission=Permission.WEBHOOKS_WRITE)
async def replay(visit: Visit) -> Response:
    try:
        await visit.call(
            "POST", "/webhooks/{webhookId}/deliveries/{deliveryId}/replay", visit.ids["webhook"], visit.ids["delivery"]
        )
    except Unauthorized:
        raise
    except Refusal as refusal:
        return await _delivery(visit, refusal)
    return redirect(f"{of_webhook(visit)}/deliveries/{visit.ids['delivery']}")
