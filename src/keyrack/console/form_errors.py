"""In charge of what came of a form: what was refused of it, in words at its fields, or where to go next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import uuid4

from keyrack.api.exchange import Response
from keyrack.console.rendering import HTML, redirect, translate_error
from keyrack.core.errors import (
    BadRequest,
    Conflict,
    NotFound,
    PreconditionFailed,
    Refusal,
    TooManyRequests,
    Unavailable,
    Unprocessable,
)
from keyrack.http.page_router import Visit

# What is shown at the form, so that it can be sent again
SHOWN = (BadRequest, Conflict, NotFound, PreconditionFailed, TooManyRequests, Unavailable, Unprocessable)


@dataclass(frozen=True)
class FormErrors:
    """What is wrong with a form: `status` of the answer, and the texts, each with its field, "" for the whole form."""

    status: int = 200
    texts: tuple[tuple[str, str], ...] = ()

    @property
    def summary(self) -> list[dict[str, str]]:
        """As the summary of errors takes it."""
        return [{"field": field and f"input-{field}", "text": text} for field, text in self.texts]

    def of(self, field: str) -> str:
        """What is wrong with a field, "" for nothing."""
        return next((text for name, text in self.texts if name == field), "")


RIGHT = FormErrors()


def refused(visit: Visit, refusal: Refusal, words: Mapping[str, tuple[str, str]] | None = None) -> FormErrors:
    """What an endpoint refused. `words` are the page's own: code of the reason, or JSON pointer of what is wrong ->
    field and text."""
    own_words = words or {}
    keys = [refusal.reason.code, *(fault.pointer or "" for fault in refusal.errors)]
    own = tuple(dict.fromkeys(own_words[key] for key in keys if key in own_words))
    # A script does not put an answer 404 in place of a form (base.html): it is that the page is gone
    swaps = isinstance(refusal, NotFound) and visit.headers("HX-Request")
    return FormErrors(422 if swaps else refusal.status, own or (("", translate_error(visit, refusal.reason)),))


def key(visit: Visit, refusal: Refusal | None = None) -> str:
    """The idempotency key of a form that is drawn: a new one, but the same one again where what was sent may have been
    done all the same (503)."""
    return visit.form_value("key") if refusal is not None and refusal.status == 503 else str(uuid4())


def invalid(texts: Iterable[tuple[str, str]]) -> FormErrors:
    """What the page itself finds wrong: pairs of a field and a text, those with a text count."""
    errors = tuple((field, text) for field, text in texts if text)
    return FormErrors(422, errors) if errors else RIGHT


def went(visit: Visit, address: str) -> Response:
    """The form is done: go and look there."""
    if visit.headers("HX-Request"):
        return Response(200, b"", {"HX-Redirect": address}, HTML)
    return redirect(address)
