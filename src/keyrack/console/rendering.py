"""Rendering of templates, in the language and the zone of the visit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, cast
from urllib.parse import quote, urlsplit

from babel.numbers import format_decimal
from jinja2 import Environment, PackageLoader, StrictUndefined

from keyrack.api.event_stream import NEEDS
from keyrack.api.exchange import Response
from keyrack.console.languages import LOCALES, language, translations
from keyrack.console.local_times import UNKNOWN, Clock
from keyrack.console.shown_text import datum, sentence, with_data, without_stray_tags
from keyrack.console.static_files import address
from keyrack.core.error_codes import ErrorCode
from keyrack.http.page_router import BELOW, Visit

HTML = "text/html; charset=utf-8"
SYSTEM = "system"  # the value of the browser or of the system
ADDRESS = "%/?#[]@!$&'()*+,;=:"  # not percent-encoded, besides letters and digits (RFC 3986)


@dataclass(frozen=True, slots=True)
class SeenPerson:
    """The signed-in person, for templates."""

    user_name: str
    customers: list[dict[str, str]]
    language: str
    time_zone: str  # for people
    zone: str  # its IANA name
    theme: str


@dataclass(frozen=True, slots=True)
class TemplateContext:
    """The visit, for templates.

    `root` is the path of the console, `base` that of this customer's pages. `may` is whether the person has a
    permission here. `heard` filters a page's topics by permission. `is_limited` is whether the person is group-limited
    here.
    """

    person: SeenPerson
    customer: int
    path: str
    root: str
    base: str
    may: Callable[[str], bool]
    is_limited: bool

    def heard(self, topics: str) -> str:
        return ",".join(topic for topic in topics.strip().split(",") if topic and self.may(NEEDS[topic]))


def root(visit: Visit) -> str:
    """The path of the console, after the prefix of a proxy."""
    return urlsplit(visit.settings.public_url).path.rstrip("/") + BELOW


def base(visit: Visit) -> str:
    """The path of the pages of the visit's customer."""
    return f"{root(visit)}/{visit.customer}"


def tongue(visit: Visit) -> str:
    """The language of the visit."""
    return language(visit.visitor.session.language if visit.visitor else None, visit.headers("Accept-Language"))


def tag(visit: Visit) -> str:
    """The language with the region of dates and numbers, for HTML (RFC 5646)."""
    return LOCALES[tongue(visit)].replace("_", "-")


def clock(visit: Visit) -> Clock:
    """The clock of the visit."""
    return Clock((visit.visitor and visit.visitor.session.time_zone) or UNKNOWN, LOCALES[tongue(visit)])


def gettext(visit: Visit, text: str, **values: object) -> str:
    """A text of Python in the language of the visit, with its placeholders filled."""
    said = translations(tongue(visit)).gettext(text)
    return sentence(said, values) if values else said


def translate_error(visit: Visit, reason: ErrorCode) -> str:
    """The text of an error in the language of the visit."""
    return reason.translated(translations(tongue(visit)).gettext)


async def live_id(visit: Visit) -> str:
    """The position of live updates.

    A page reads it before all other data and sends it as `since`, so it misses no update.
    """
    return (await visit.call("GET", "/live")).headers["Last-Event-ID"]


async def page(visit: Visit, template: str, *, status: int = 200, section: str = "", **context: Any) -> Response:
    """A page for a signed-in person. `section` is its entry of the navigation."""
    return _answer(visit, template, None, status, {"section": section, "visit": await _seen(visit), **context})


async def part(visit: Visit, template: str, block: str, *, status: int = 200, **context: Any) -> Response:
    """One block of a template, which replaces a part of a page."""
    return _answer(visit, template, block, status, {"visit": await _seen(visit), **context})


def plain(visit: Visit, template: str, *, status: int = 200, **context: Any) -> Response:
    """A page without a signed-in person: sign-in pages and errors."""
    person = visit.visitor.session if visit.visitor else None
    more = {"language": tag(visit), "theme": (person and person.theme) or SYSTEM, "root": root(visit)}
    return _answer(visit, template, None, status, {**more, **context})


def redirect(address: str) -> Response:
    """A redirect with 303 (RFC 9110, section 15.4.4).

    Characters that are not allowed in addresses are percent-encoded, because the address may contain typed text.
    """
    return Response(303, b"", {"Location": quote(address, safe=ADDRESS)}, HTML)


async def _seen(visit: Visit) -> TemplateContext:
    session = visit.person.session
    customers = await visit.call("GET", "/customers", query={"$orderby": "name"})
    time = clock(visit)
    person = SeenPerson(
        session.username, customers.json, tag(visit), time.shown, time.zone.key, session.theme or SYSTEM
    )
    return TemplateContext(person, visit.customer, visit.path, root(visit), base(visit), visit.may, visit.is_limited)


def _answer(visit: Visit, name: str, block: str | None, status: int, context: Mapping[str, Any]) -> Response:
    time, speech = clock(visit), tongue(visit)
    template = _environment(speech, root(visit)).get_template(name)
    about: dict[str, Any] = {
        "moment": time.moment,
        "day": time.day,
        "date": time.calendar_date_shown,
        "duration": time.duration,
        "field_time": time.field,
        "number": partial(format_decimal, locale=time.locale),
        **context,
    }
    made = template.render(about) if block is None else "".join(template.blocks[block](template.new_context(about)))
    return Response(status, without_stray_tags(made).encode(), media_type=HTML)


@cache
def _environment(language: str, root: str) -> Environment:
    """The template environment of a language. Macros know its globals, and not the visit."""
    environment = Environment(
        loader=PackageLoader("keyrack.console"),
        autoescape=True,
        undefined=StrictUndefined,
        extensions=["jinja2.ext.i18n"],
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=datum,
    )
    catalogue = translations(language)
    environment.install_gettext_callables(  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - of the extension
        catalogue.gettext, catalogue.ngettext, newstyle=True, pgettext=catalogue.pgettext
    )
    template_globals = cast("dict[str, Any]", environment.globals)  # pyright: ignore[reportUnknownMemberType] - of any type
    template_globals.update({name: with_data(template_globals[name]) for name in ("gettext", "ngettext", "pgettext")})
    template_globals["asset"] = partial(address, root)
    return environment
