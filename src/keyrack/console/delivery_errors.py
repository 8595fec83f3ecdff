"""In charge of why a delivery failed, and why a webhook is disabled: in words, and with a way to mend it."""

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
    """What happened, and what to do about it."""

    text: str
    remedy: str


LOOK_INTO_ITS_LOG = N_("Look into the receiver's own log at this time.")
# What the log of deliveries says -> what happened, and what to do
TOLD: Mapping[str, tuple[str, str]] = {
    delivery_errors.NOT_REACHED: (
        N_("The address could not be reached."),
        N_(
            "Its name is not known, it is not public, or nothing answers there. Check the address and try it from"
            " outside; the operator of this server may allow networks that are not public."
        ),
    ),
    delivery_errors.TIMED_OUT: (
        N_("It took longer than %(seconds)s s."),
        N_("Let the receiver answer at once with 204, and do its work afterwards."),
    ),
    delivery_errors.NOT_TAKEN: (
        N_("The connection was refused."),
        N_("Nothing listens at this port. Start the receiver, or correct the port in the address."),
    ),
    delivery_errors.CLOSED: (N_("It closed the connection without an answer."), LOOK_INTO_ITS_LOG),
    delivery_errors.CUT: (N_("Its answer broke off."), LOOK_INTO_ITS_LOG),
    delivery_errors.NO_HTTP: (
        N_("Its answer is not valid HTTP."),
        N_("Something other than a web server listens at this port. Check the address."),
    ),
    delivery_errors.UNKNOWN_DIALECT: (
        N_("This server does not know the format of this webhook yet, so nothing was sent."),
        N_("Choose another format, or ask whoever runs this server to finish its upgrade."),
    ),
    delivery_errors.SEALED: (
        N_("The secrets of this webhook do not open, so nothing was sent."),
        N_("Ask whoever runs this server: the log of the worker says why."),
    ),
}
# The same of an address that says by itself that it is not public: more is not told of what is inside
INSIDE = (
    N_("The address is not public."),
    N_(
        "Enter a public one, or ask the operator of this server to allow its network. Where that is allowed, nothing"
        " answers there."
    ),
)
# Beginnings of texts that end with what the other side said
BEGUN: Mapping[str, tuple[str, str]] = {
    delivery_errors.CERTIFICATE.partition("{")[0]: (
        N_("Its certificate is not valid: %(said)s"),
        N_("Give the receiver a certificate that browsers trust, for the name in the address."),
    ),
    delivery_errors.TLS.partition("{")[0]: (
        N_("There is no encrypted connection with it: %(said)s"),
        N_("Check that the port in the address speaks https, with TLS 1.2 or newer."),
    ),
}
STATUSES: Mapping[int, str] = {
    401: N_("The receiver does not take the caller for genuine. Check its signing secret and the static secret."),
    403: N_("The receiver does not take the caller for genuine. Check its signing secret and the static secret."),
    404: N_("There is nothing at this path of the receiver. Correct the address."),
    405: N_("The receiver takes no POST at this path. Correct the address."),
    410: N_("The receiver says that it is gone for good. Correct the address, then enable the webhook again."),
    413: N_("The receiver takes no bodies of this size. Raise its limit."),
    415: N_("The receiver takes no JSON. Let it take application/json."),
    429: N_("The receiver asks for less at a time. Nothing is lost: it is sent again later."),
    503: N_("The receiver is not ready. Nothing is lost: it is sent again later."),
}
REDIRECTED = N_("Redirects are not followed. Enter the address that it leads to.")
ITS_FAULT = N_("The receiver takes it for a mistake of the caller. Look into its own log at this time.")
ITS_OWN_FAULT = N_("The receiver failed. Look into its own log at this time.")
# What a webhook says of why it is disabled
DISABLED: Mapping[str, tuple[str, str]] = {
    delivery_errors.DISABLED_BY_GONE: (
        N_("The receiver answered 410: it is gone for good."),
        N_("Correct the address, then enable the webhook. What waits is sent then."),
    ),
    delivery_errors.DISABLED_BY_TOO_MUCH: (
        N_("As many deliveries waited for the receiver as may."),
        N_(
            "Let the receiver answer faster, or take less. Enable the webhook: what waits is sent then. What came"
            " afterwards is sent by a replay of that time."
        ),
    ),
    delivery_errors.SECRETS_LOST: (
        N_("The secrets of this server were lost, and all webhooks have got new ones."),
        N_("Rotate the secret, tell the receiver the new one, then enable the webhook. What waits is sent then."),
    ),
}


def of_delivery(visit: Visit, delivery: Mapping[str, Any], url: str) -> Cause | None:
    """Why the last attempt of a delivery (a row of the log) to `url` failed; None if it did not."""
    error, status = delivery["error"], delivery["status"]
    if error is None:
        return None
    if status is not None:
        return Cause(gettext(visit, "It answered %(status)s.", status=status), gettext(visit, _of_status(status)))
    seconds = f"{visit.settings.webhook_timeout:g}"
    if error in TOLD:
        inside = error == delivery_errors.NOT_REACHED and _is_inside(url)
        text, remedy = INSIDE if inside else TOLD[error]
        return Cause(gettext(visit, text, seconds=seconds), gettext(visit, remedy))
    for beginning, (text, remedy) in BEGUN.items():
        if error.startswith(beginning):
            return Cause(gettext(visit, text, said=error.removeprefix(beginning)), gettext(visit, remedy))
    return Cause(error, gettext(visit, LOOK_INTO_ITS_LOG))


def of_disabling(visit: Visit, reason: str) -> Cause:
    """Why a webhook was disabled, though nobody here did it."""
    if reason not in DISABLED:
        return Cause(reason, gettext(visit, "Look for the cause, then enable the webhook."))
    text, remedy = DISABLED[reason]
    return Cause(gettext(visit, text), gettext(visit, remedy))


def _is_inside(url: str) -> bool:
    """Whether an address that is written as a number is not public; names are not looked up."""
    host = urlsplit(url).hostname or ""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _of_status(status: int) -> str:
    if status in STATUSES:
        return STATUSES[status]
    if status < 400:
        return REDIRECTED
    return ITS_FAULT if status < 500 else ITS_OWN_FAULT
