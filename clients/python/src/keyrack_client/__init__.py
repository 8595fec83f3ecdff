"""Client of Keyrack, the server that controls who may open which vehicle, and when."""

from ._async import AsyncKeyrack
from ._core import VERSION as __version__
from ._core import Password
from ._errors import (
    ApiError,
    InvalidSignature,
    KeyrackError,
    NoAnswer,
    OutcomeFailed,
    OutcomePending,
    StartOver,
)
from ._sync import Keyrack
from .webhook import verify

__all__ = [
    "ApiError",
    "AsyncKeyrack",
    "InvalidSignature",
    "Keyrack",
    "KeyrackError",
    "NoAnswer",
    "OutcomeFailed",
    "OutcomePending",
    "Password",
    "StartOver",
    "__version__",
    "verify",
]
