"""Errors of failed delivery attempts, and reasons why a webhook is disabled.

For targets that are not public, the only error is `NOT_REACHED`: a customer must not learn which names and ports exist.
"""

from __future__ import annotations

NOT_REACHED = (
    "The endpoint could not be reached: its name is not known, its address is not public and not in "
    "KEYRACK_WEBHOOK_ALLOWED_NETWORKS, or it does not answer there."
)
TIMED_OUT = "The endpoint did not answer in time."
NOT_TAKEN = "The endpoint refused the connection."
CLOSED = "The endpoint closed the connection without an answer."
# Only in logs of earlier releases: the status of such an answer counts now
CUT = "The endpoint's answer broke off."
NO_HTTP = "The endpoint's answer is not valid HTTP."
ANSWERED = "The endpoint answered {status}."
CERTIFICATE = "The endpoint's certificate is not valid: {why}."
TLS = "There is no TLS with the endpoint: {why}."
UNKNOWN_DIALECT = (
    "The worker's release does not know the dialect of the webhook, so nothing was sent. Upgrade the workers, or "
    "choose another dialect."
)
SEALED = "The webhook's secrets do not open, so nothing was sent. The log of the worker says why."

DISABLED_BY_GONE = "The endpoint answered 410 Gone."
SECRETS_LOST = (
    "The master key was lost. Make a new signing secret, give it to the receiver, and enable the webhook again."
)
DISABLED_BY_TOO_MUCH = (
    "As many deliveries waited as may (KEYRACK_WEBHOOK_MAX_PENDING). What was not written is sent by a replay of that "
    "time."
)
