"""Causes of failed deliveries and of disabled webhooks, each with a remedy."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from keyrack.console.rendering import gettext
from keyrack.core.text import N_
from keyrack.http.page_router import Visit
from keyrack.webhooks import delivery_errors


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause and its remedy."""

    text: str
    remedy: str


CHECK_RECEIVER_LOG = N_("Check the receiver's log at this time.")
# Code of a delivery's error -> cause and remedy
CAUSES: Mapping[str, tuple[str, str]] = {
    delivery_errors.NOT_REACHED.code: (
        N_("The address could not be reached."),
        N_(
            "The name is unknown, the address is not public, or no program answers there. Check the address,"
            " and try it from outside. The operator of this server can allow networks that are not public."
        ),
    ),
    delivery_errors.TIMED_OUT.code: (
        N_("The answer took longer than %(seconds)s s."),
        N_("Let the receiver answer 204 at once, and do its work afterwards."),
    ),
    delivery_errors.NOT_TAKEN.code: (
        N_("The connection was refused."),
        N_("No program listens at this port. Start the receiver, or correct the port in the address."),
    ),
    delivery_errors.CLOSED.code: (N_("The receiver closed the connection without an answer."), CHECK_RECEIVER_LOG),
    delivery_errors.CUT.code: (N_("The answer was interrupted."), CHECK_RECEIVER_LOG),
    delivery_errors.NO_HTTP.code: (
        N_("The answer is not valid HTTP."),
        N_("The program at this port is not a web server. Check the address."),
    ),
    delivery_errors.UNKNOWN_DIALECT.code: (
        N_("This server does not know the format of this webhook, so nothing was sent."),
        N_("Choose another format, or ask the operator of this server to finish the upgrade."),
    ),
    delivery_errors.SEALED.code: (
        N_("The secrets of this webhook could not be decrypted, so nothing was sent."),
        N_("Ask the operator of this server: the worker's log has the reason."),
    ),
    delivery_errors.NOT_PULLED.code: (
        N_("No client fetched the message in time."),
        N_("Start the client that fetches the messages of this webhook. Then send the message again."),
    ),
    delivery_errors.CERTIFICATE.code: (
        N_("The certificate is not valid: %(said)s"),
        N_("Give the receiver a certificate that browsers trust, for the name in the address."),
    ),
    delivery_errors.TLS.code: (
        N_("The encrypted connection failed: %(said)s"),
        N_("Check that the port in the address speaks https, with TLS 1.2 or newer."),
    ),
}
# The same for an address that is visibly not public. It reveals no more about the inner network
NOT_PUBLIC = (
    N_("The address is not public."),
    N_(
        "Enter a public address, or ask the operator of this server to allow its network. If the network is"
        " allowed, no program answers at this address."
    ),
)
SIGNATURE_REJECTED = N_(
    "The receiver rejected the signature or the static secret. Check the signing secret and the static secret there."
)
REMEDIES_BY_STATUS: Mapping[int, str] = {
    401: SIGNATURE_REJECTED,
    403: SIGNATURE_REJECTED,
    404: N_("The receiver has no resource at this path. Correct the address."),
    405: N_("The receiver does not accept POST at this path. Correct the address."),
    410: N_("The receiver answered that it is gone for good. Correct the address, then enable the webhook again."),
    413: N_("The receiver does not accept bodies of this size. Raise its limit."),
    415: N_("The receiver does not accept JSON. Let it accept application/json."),
    429: N_("The receiver throttles requests. Nothing is lost: Keyrack sends the message again later."),
    503: N_("The receiver is not ready. Nothing is lost: Keyrack sends the message again later."),
}
REDIRECT = N_("Keyrack does not follow redirects. Enter the address to which this one redirects.")
CLIENT_ERROR = N_("The receiver answered with a client error. Check its log at this time.")
SERVER_ERROR = N_("The receiver had an error. Check its log at this time.")
# Code of a reason for disabling a webhook -> cause and remedy
DISABLED: Mapping[str, tuple[str, str]] = {
    delivery_errors.DISABLED_BY_GONE.code: (
        N_("The receiver answered 410: it is gone for good."),
        N_("Correct the address, then enable the webhook. Waiting deliveries are sent then."),
    ),
    delivery_errors.DISABLED_BY_TOO_MUCH.code: (
        N_("The maximum number of deliveries was waiting for the receiver."),
        N_(
            "Make the receiver answer faster, or send it fewer event types. Enable the webhook: waiting"
            " deliveries are sent then. For later messages, use “Send again” with that time."
        ),
    ),
    delivery_errors.SECRETS_LOST.code: (
        N_("The secrets of this server were lost. All webhooks have new ones."),
        N_(
            "Rotate the secret, give the new one to the receiver, then enable the webhook. Waiting deliveries are"
            " sent then."
        ),
    ),
}


def of_delivery(visit: Visit, delivery: Mapping[str, Any], url: str | None) -> Cause | None:
    """Why the last attempt of a delivery (a row of the log) to `url` failed; None if it did not fail."""
    error, status = delivery["error"], delivery["status"]
    if error is None:
        return None
    if status is not None:
        return Cause(
            gettext(visit, "The receiver answered %(status)s.", status=status), gettext(visit, _of_status(status))
        )
    known = delivery_errors.find(error, delivery_errors.ERRORS)
    if known is None or known.code not in CAUSES:
        return Cause(error, gettext(visit, CHECK_RECEIVER_LOG))
    is_not_public = known.code == delivery_errors.NOT_REACHED.code and _is_not_public(url or "")
    text, remedy = NOT_PUBLIC if is_not_public else CAUSES[known.code]
    seconds = f"{visit.settings.webhook_timeout:g}"
    return Cause(gettext(visit, text, seconds=seconds, said=known.why), gettext(visit, remedy))


def of_disabling(visit: Visit, reason: str) -> Cause:
    """Why Keyrack disabled a webhook."""
    known = delivery_errors.find(reason, delivery_errors.REASONS)
    if known is None:
        return Cause(reason, gettext(visit, "Find the cause, then enable the webhook."))
    text, remedy = DISABLED[known.code]
    return Cause(gettext(visit, text), gettext(visit, remedy))


def _is_not_public(url: str) -> bool:
    """Whether an address with a numeric host is not public. Names are not resolved."""
    host = urlsplit(url).hostname or ""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _of_status(status: int) -> str:
    if status in REMEDIES_BY_STATUS:
        return REMEDIES_BY_STATUS[status]
    if status < 400:
        return REDIRECT
    return CLIENT_ERROR if status < 500 else SERVER_ERROR
