"""Error codes of failed operations, and the text of each.

The database stores an operation's code. Its text, `errorMessage` of the outcome, is derived from the code on each read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString, cast

NO_CAR: LiteralString = "no-car"
NO_USER: LiteralString = "no-user"
NO_BOX: LiteralString = "no-key-box"
NO_SERVICE: LiteralString = "no-service"
TERMINATED: LiteralString = "service-terminated"
GONE: LiteralString = "assignment-gone"
END_BEFORE_START: LiteralString = "end-before-start"
RENEWABLE_TOO_LATE: LiteralString = "renewable-after-out-of-range"
EXTERNAL_ID_TAKEN: LiteralString = "external-id-taken"
METADATA_TOO_LARGE: LiteralString = "metadata-too-large"
CONFLICT: LiteralString = "assignment-conflict"
GIVEN_UP: LiteralString = "internal-error"

# The meaning of a code never changes; its text may
TEXTS: Mapping[LiteralString, LiteralString] = {
    NO_CAR: "The car does not exist or is not assigned to the customer.",
    NO_USER: "The user does not exist or is not assigned to the customer.",
    NO_BOX: "There is no key box installed in the car.",
    NO_SERVICE: "The key box in the car has no service assigned.",
    TERMINATED: "The service of the key box in the car is terminated.",
    GONE: "The assignment does not exist any more.",
    END_BEFORE_START: "The end lies before the start.",
    RENEWABLE_TOO_LATE: "renewableAfter must be less than lifetime.",
    EXTERNAL_ID_TAKEN: "Another assignment has the same externalId.",
    METADATA_TOO_LARGE: "The metadata would have more than 20 keys, or more than 4096 bytes.",
    CONFLICT: "The car has another exclusive assignment in this time range.",
    GIVEN_UP: "The operation could not be carried out for an internal reason.",
}
# Releases before 0.3 write a text alone. A trigger adds the code; older rows get it by `failure_backfill.fill`
CODE: LiteralString = "coalesce({t}.error_code, failure_code({t}.error_message))"
_CASES: LiteralString = " ".join(["when '" + code + "' then '" + text + "'" for code, text in TEXTS.items()])
# If this release does not know the code, only the stored text explains the failure
TEXT: LiteralString = "coalesce(case {t}.error_code " + _CASES + " end, {t}.error_message)"


_CODES: Mapping[str, str] = {text: code for code, text in TEXTS.items()}


def code_of(text: str) -> str | None:
    """The code of a text from `text_of`; None for any other text. A dry run returns only the text."""
    return _CODES.get(text)


def text_of(code: str | None) -> str | None:
    """The text of a code; None without a code, or for a code that this release does not know."""
    return None if code is None else cast("Mapping[str, str]", TEXTS).get(code)
