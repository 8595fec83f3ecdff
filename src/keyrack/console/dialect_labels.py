"""Labels of webhook dialects, and requests of deliveries in their dialect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from keyrack.console.local_times import instant
from keyrack.console.rendering import gettext
from keyrack.http.page_router import Visit
from keyrack.webhooks.dialects import DEFAULT, DIALECTS, Dialect, WebhookMessage

DEFAULT_DIALECT = DEFAULT


def dialect_choices() -> list[tuple[str, str, str]]:
    """Name, label and hint of each dialect. Templates translate label and hint."""
    return [(name, dialect.label, dialect.hint) for name, dialect in DIALECTS.items()]


def dialect_label(name: str) -> str:
    """The label of a dialect, which templates translate. A dialect of a later release has its name."""
    dialect = DIALECTS.get(name)
    return name if dialect is None else dialect.label


def shown_request(
    visit: Visit, webhook: Mapping[str, Any], delivery: Mapping[str, Any]
) -> tuple[list[tuple[str, str]], str]:
    """The headers and the body of the last attempt.

    They have the webhook's current dialect. Placeholders stand for secrets and signatures. A dialect of a later release
    is shown as the default one.
    """
    dialect: Dialect = DIALECTS.get(webhook["dialect"], DIALECTS[DEFAULT])
    message = WebhookMessage(
        delivery["messageId"], json.dumps(delivery["payload"]), delivery["created"], visit.settings.public_url
    )
    body, attempted = dialect.body(message), delivery["attempted"]
    static = gettext(visit, "the static secret, which is not shown") if webhook["hasSecret"] else None
    headers = dialect.headers(message, body, (), static, instant(attempted) if attempted else datetime.now(UTC))
    headers["webhook-signature"] = gettext(visit, "created for each attempt, and not stored")
    if not attempted:
        headers.pop("webhook-timestamp", None)
    shown = [("Content-Type", dialect.content_type), *headers.items()]
    return shown, json.dumps(json.loads(body), indent=2, ensure_ascii=False)
