"""Signatures of deliveries, as Standard Webhooks specifies."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from standardwebhooks import Webhook


def signature_headers(body: str, message_id: str, signing_secrets: Sequence[str], now: datetime) -> dict[str, str]:
    """The Standard Webhooks headers, with a signature by each secret."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(_signer(secret).sign(message_id, now, body) for secret in signing_secrets),
    }


@lru_cache(maxsize=2_000)
def _signer(secret: str) -> Webhook:
    return Webhook(secret)
