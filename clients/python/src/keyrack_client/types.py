"""The types of bodies and answers, made from the OpenAPI document."""

from ._types import *  # noqa: F403
