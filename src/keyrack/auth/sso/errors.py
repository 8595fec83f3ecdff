"""Reasons for a failed sign-in, for the page and the log."""

from __future__ import annotations

from typing import Literal

SignInFailure = Literal["provider", "declined", "lapsed", "unknown", "connected", "other", "invitation", "unproven"]


class NotSignedIn(Exception):
    """A failed sign-in. `reason` is what the person learns:

    - `provider`: the provider cannot be reached, or its answer was rejected;
    - `declined`: the provider reports that the person did not complete the sign-in, or may not;
    - `lapsed`: the answer belongs to no pending sign-in of this browser;
    - `unknown`: the account belongs to no manager here;
    - `connected`: the account is another manager's, or another account is connected already;
    - `other`: another manager has signed in here since connecting began;
    - `invitation`: it is not valid any more, or is another person's;
    - `unproven`: the manager has not proven the invited address, and the account does not prove it.
    """

    def __init__(self, reason: SignInFailure, message: str) -> None:
        super().__init__(message)
        self.reason: SignInFailure = reason


class ProviderTrouble(NotSignedIn):
    """The provider cannot be reached, or its answer was rejected.

    `message` has the cause, for the operator.
    """

    def __init__(self, message: str) -> None:
        super().__init__("provider", message)
