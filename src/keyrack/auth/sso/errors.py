"""In charge of why nobody was signed in: a word for the page, and what the operator's log is told."""

from __future__ import annotations

from typing import Literal

SignInFailure = Literal["provider", "declined", "lapsed", "unknown", "connected", "other", "invitation", "unproven"]


class NotSignedIn(Exception):
    """Nobody was signed in. `reason` says to the person what is to be done, and no more:

    - `provider`: the provider cannot be reached, or what it answered is refused;
    - `declined`: the provider says that the person did not go through with it, or may not;
    - `lapsed`: the answer belongs to no sign-in that this browser has under way;
    - `unknown`: nobody here is known for the account;
    - `connected`: the account is somebody else's here, or another account is connected already;
    - `other`: somebody else has signed in here since connecting was begun;
    - `invitation`: it is not good any more, or is somebody else's;
    - `unproven`: it is to an address that the manager has not proven, nor does the account prove it.
    """

    def __init__(self, reason: SignInFailure, message: str) -> None:
        super().__init__(message)
        self.reason: SignInFailure = reason


class ProviderTrouble(NotSignedIn):
    """The provider cannot be reached, or what it says is refused: `message` says what, for the operator."""

    def __init__(self, message: str) -> None:
        super().__init__("provider", message)
