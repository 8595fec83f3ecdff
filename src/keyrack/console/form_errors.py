"""Results of a form: the errors with their fields, or the next page."""

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

# Status codes of answers that show the form again
SHOWN = (BadRequest, Conflict, NotFound, PreconditionFailed, TooManyRequests, Unavailable, Unprocessable)


@dataclass(frozen=True)
class FormErrors:
    """The errors of a form, each with its field.

    The field is "" for an error of the whole form. `status` is the status of the answer.
    """

    status: int = 200
    texts: tuple[tuple[str, str], ...] = ()

    @property
    def summary(self) -> list[dict[str, str]]:
        """The errors as the macro `error_summary` takes them."""
        return [{"field": field and f"input-{field}", "text": text} for field, text in self.texts]

    def of(self, field: str) -> str:
        """The error of a field, "" if it has none."""
        return next((text for name, text in self.texts if name == field), "")


RIGHT = FormErrors()


def refused(visit: Visit, refusal: Refusal, words: Mapping[str, tuple[str, str]] | None = None) -> FormErrors:
    """The errors of a rejected call.

    `words` are texts of the page: error code, or JSON pointer of the wrong value -> field and text.
    """
    own_words = words or {}
    keys = [refusal.reason.code, *(fault.pointer or "" for fault in refusal.errors)]
    own = tuple(dict.fromkeys(own_words[key] for key in keys if key in own_words))
    # A script does not replace a form with a 404 (base.html): it shows that the page is gone
    swaps = isinstance(refusal, NotFound) and visit.headers("HX-Request")
    return FormErrors(422 if swaps else refusal.status, own or (("", translate_error(visit, refusal.reason)),))


def key(visit: Visit, refusal: Refusal | None = None) -> str:
    """The idempotency key of a form: a new one.

    After a 503 it is the same again, because the request may have been done.
    """
    return visit.form_value("key") if refusal is not None and refusal.status == 503 else str(uuid4())


def invalid(texts: Iterable[tuple[str, str]]) -> FormErrors:
    """Errors that the page itself finds: pairs of a field and a text. Pairs without a text are skipped."""
    errors = tuple((field, text) for field, text in texts if text)
    return FormErrors(422, errors) if errors else RIGHT


def went(visit: Visit, address: str) -> Response:
    """Redirect after a successful form."""
    if visit.headers("HX-Request"):
        return Response(200, b"", {"HX-Redirect": address}, HTML)
    return redirect(address)
