"""The mode of a request: how errors look, and what is rejected.

`http.request_mode` decides the mode of each request.
"""

from __future__ import annotations

from enum import StrEnum


class RequestMode(StrEnum):
    """`spec` follows the spec to the letter. `strict` rejects whatever the server would ignore."""

    SPEC = "spec"
    STRICT = "strict"
