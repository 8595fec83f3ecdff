"""Errors of failed delivery attempts, and reasons why a webhook is disabled.

For targets that are not public, the only error is `NOT_REACHED`: a customer must not learn which names and ports exist.

The database stores the text of an error, since the API shows it and processes of earlier releases write it. `find` maps
a stored text to its error, so that other packages use the code. A changed text goes to `earlier_texts`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PLACE = "{why}"


@dataclass(frozen=True, slots=True)
class DeliveryError:
    """An error of a delivery, or a reason to disable a webhook."""

    code: str  # kebab-case; its meaning never changes
    text: str  # may contain `{why}`, which `format` fills
    earlier_texts: tuple[str, ...] = ()  # of earlier releases, which rows still contain

    def format(self, why: object) -> str:
        """The text to store."""
        return self.text.replace(PLACE, str(why))


@dataclass(frozen=True, slots=True)
class FoundError:
    """The error of a stored text. `why` is the text from the place of `{why}` on; "" without a place."""

    code: str
    why: str = ""


NOT_REACHED = DeliveryError(
    "not-reached",
    "The endpoint could not be reached: its name is not known, its address is not public and not in "
    "KEYRACK_WEBHOOK_ALLOWED_NETWORKS, or it does not answer there.",
    earlier_texts=(
        "The endpoint could not be reached: its name is not known, its address is not public and not in "
        "KEYRACK_WEBHOOK_NETWORKS, or it does not answer there.",
    ),
)
TIMED_OUT = DeliveryError("timed-out", "The endpoint did not answer in time.")
NOT_TAKEN = DeliveryError("connection-refused", "The endpoint refused the connection.")
CLOSED = DeliveryError("connection-closed", "The endpoint closed the connection without an answer.")
# Only in logs of earlier releases: the status of such an answer counts now
CUT = DeliveryError("response-incomplete", "The endpoint's answer broke off.")
NO_HTTP = DeliveryError("response-not-http", "The endpoint's answer is not valid HTTP.")
ANSWERED = DeliveryError("error-status", "The endpoint answered {why}.")
CERTIFICATE = DeliveryError("certificate-invalid", "The endpoint's certificate is not valid: {why}.")
TLS = DeliveryError(
    "tls-failed",
    "The TLS connection to the endpoint failed: {why}.",
    earlier_texts=("There is no TLS with the endpoint: {why}.",),
)
UNKNOWN_DIALECT = DeliveryError(
    "dialect-unknown",
    "The worker's release does not know the dialect of the webhook, so nothing was sent. Upgrade the workers, or "
    "choose another dialect.",
)
SEALED = DeliveryError(
    "secrets-unavailable",
    "The secrets of the webhook could not be decrypted, so nothing was sent. The worker's log has the reason.",
    earlier_texts=("The webhook's secrets do not open, so nothing was sent. The log of the worker says why.",),
)
NOT_PULLED = DeliveryError("not-pulled", "No client fetched and acknowledged the message in time.")
ERRORS = (
    NOT_REACHED, TIMED_OUT, NOT_TAKEN, CLOSED, CUT, NO_HTTP, ANSWERED, CERTIFICATE, TLS, UNKNOWN_DIALECT, SEALED,
    NOT_PULLED,
)  # fmt: skip

DISABLED_BY_GONE = DeliveryError("endpoint-gone", "The endpoint answered 410 Gone.")
SECRETS_LOST = DeliveryError(
    "secrets-lost",
    "The master key was lost. Make a new signing secret, give it to the receiver, and enable the webhook again.",
)
DISABLED_BY_TOO_MUCH = DeliveryError(
    "too-many-pending",
    "The maximum number of deliveries was pending (KEYRACK_WEBHOOK_MAX_PENDING). A replay of that time sends what was "
    "not written.",
    earlier_texts=(
        "As many deliveries waited as may (KEYRACK_WEBHOOK_MAX_PENDING). What was not written is sent by a replay of "
        "that time.",
    ),
)
REASONS = (DISABLED_BY_GONE, SECRETS_LOST, DISABLED_BY_TOO_MUCH)


def find(stored: str, errors: Iterable[DeliveryError]) -> FoundError | None:
    """The error whose text is stored.

    The text may be of an earlier release. Returns None for a text that this release does not know.
    """
    for error in errors:
        for text in (error.text, *error.earlier_texts):
            beginning, place, end = text.partition(PLACE)
            if stored == text or (place and stored.startswith(beginning) and stored.endswith(end)):
                return FoundError(error.code, stored.removeprefix(beginning))
    return None
