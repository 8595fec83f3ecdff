"""The errors of the package: those of the client, and a class for each code of the API."""

from ._errors import ApiError as ApiError
from ._errors import BadRequest as BadRequest
from ._errors import Conflict as Conflict
from ._errors import Forbidden as Forbidden
from ._errors import InvalidSignature as InvalidSignature
from ._errors import KeyrackError as KeyrackError
from ._errors import NoAnswer as NoAnswer
from ._errors import NotFound as NotFound
from ._errors import OutcomeFailed as OutcomeFailed
from ._errors import OutcomePending as OutcomePending
from ._errors import ServerError as ServerError
from ._errors import StartOver as StartOver
from ._errors import TooManyRequests as TooManyRequests
from ._errors import Unauthorized as Unauthorized
from .errors_by_code import *  # noqa: F403
