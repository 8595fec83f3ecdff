"""In charge of why operations come to nothing: the code of each reason, for programs, and its text, the outcome's
errorMessage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString

NO_CAR = "The car does not exist or is not assigned to the customer."
NO_USER = "The user does not exist or is not assigned to the customer."
NO_BOX = "There is no key box installed in the car."
NO_SERVICE = "The key box in the car has no service assigned."
TERMINATED = "The service of the key box in the car is terminated."
GONE = "The assignment does not exist any more."
END_BEFORE_START = "The end lies before the start."
RENEWABLE_TOO_LATE = "renewableAfter must be less than lifetime."
GIVEN_UP = "The operation could not be carried out for an internal reason."

# A code is never given another meaning. The log keeps texts: one that is worded anew stays here in its old words, too
CODES: Mapping[LiteralString, LiteralString] = {
    NO_CAR: "no-car",
    NO_USER: "no-user",
    NO_BOX: "no-key-box",
    NO_SERVICE: "no-service",
    TERMINATED: "service-terminated",
    GONE: "assignment-gone",
    END_BEFORE_START: "end-before-start",
    RENEWABLE_TOO_LATE: "renewable-after-out-of-range",
    GIVEN_UP: "internal-error",
}
_CASES: LiteralString = " ".join(["when '" + text + "' then '" + code + "'" for text, code in CODES.items()])
CODE: LiteralString = "(case {t}.error_message " + _CASES + " end)"  # SQL of an operation's code, null without one
