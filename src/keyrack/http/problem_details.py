"""The body of an error: the spec's, or a problem (RFC 9457)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from keyrack.api.request_mode import RequestMode
from keyrack.core.errors import JSON, PLAIN_TEXT, PROBLEM, Refusal
from keyrack.core.metrics.catalog import ERROR_RESPONSES

RANGES = 100  # maximum parsed ranges of an Accept header

# A quoted parameter value (RFC 9110, section 5.6.4), in which a comma does not separate
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z|\\\Z)', re.DOTALL)
_QUALITY = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?").fullmatch


def accepted(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The value of `Accept` among headers with lower-case names; None without one."""
    values = [value.decode("latin-1") for name, value in headers if name == b"accept"]
    return ", ".join(values) if values else None


TEXT = PLAIN_TEXT.partition(";")[0]


def problem_body(
    refusal: Refusal, accept: str | None, id: str, public_url: str, mode: RequestMode = RequestMode.SPEC
) -> tuple[bytes, str]:
    """The body of an error and its media type. `id` is that of the request."""
    ERROR_RESPONSES.add(refusal.reason.code, str(refusal.status))
    if _is_problem(accept, refusal.media_type.partition(";")[0], mode):
        return _problem(refusal, id, public_url), PROBLEM
    return refusal.body(id), refusal.media_type


def _is_problem(accept: str | None, own: str, mode: RequestMode) -> bool:
    """Whether an error is a problem instead of the spec's body `own`.

    A client that names problems in `accept` chooses by its qualities. In strict mode, an error is a problem unless
    `accept` is for plain text alone. By the spec, a problem replaces plain text that `accept` excludes by naming JSON.
    """
    if accept is None or accept == "*/*":
        return mode is RequestMode.STRICT
    if _prefers_problem(accept, own):
        return True
    qualities = _qualities(accept)
    if qualities.get(PROBLEM) == 0:
        return False
    if mode is RequestMode.STRICT:
        takes_json = _quality(qualities, JSON) > 0 or _quality(qualities, PROBLEM) > 0
        return takes_json or _quality(qualities, TEXT) == 0
    if own != TEXT:
        return False
    return qualities.get(JSON, 0.0) > 0 and not any(qualities.get(name) for name in (TEXT, "text/*", "*/*"))


def _problem(refusal: Refusal, id: str, public_url: str) -> bytes:
    reason = refusal.reason
    body: dict[str, object] = {
        "type": f"{public_url}/docs/errors#{reason.code}",
        "title": reason.title,
        "status": refusal.status,
        "detail": reason.text,
        "code": reason.code,
    }
    if reason.previous is not None:
        body["previousCode"] = reason.previous
    if refusal.errors:
        body["errors"] = [fault.members() for fault in refusal.errors]
    return json.dumps(body | {"traceId": id} | refusal.extensions()).encode()


def _prefers_problem(accept: str, own: str) -> bool:
    """Whether the header prefers problems to, or equals them with, `own` (RFC 9110, section 12.5.1)."""
    return "problem+json" in accept.lower() and prefers_media_type(accept, PROBLEM, own)


def prefers_media_type(accept: str, media_type: str, own: str) -> bool:
    """Whether the header prefers a media type to, or equals it with, `own`."""
    wanted = _qualities(accept)
    quality = wanted.get(media_type, 0.0)
    return quality > 0 and quality >= _quality(wanted, own)


def _qualities(accept: str) -> dict[str, float]:
    """Media range -> quality. A range with a malformed quality counts as absent."""
    qualities: dict[str, float] = {}
    for part in _QUOTED.sub('""', accept).split(",", RANGES)[:RANGES]:
        name, *parameters = [piece.strip(" \t") for piece in part.split(";")]
        values = [value for key, _, value in (each.partition("=") for each in parameters) if key.lower() == "q"]
        quality = _QUALITY(values[0]) if values else None
        if quality is not None or not values:
            qualities[name.lower()] = float(quality[0]) if quality is not None else 1.0
    return qualities


def _quality(wanted: dict[str, float], media_type: str) -> float:
    """The quality of a media type: that of the most specific matching range."""
    for name in (media_type, media_type.partition("/")[0] + "/*", "*/*"):
        if name in wanted:
            return wanted[name]
    return 0.0
