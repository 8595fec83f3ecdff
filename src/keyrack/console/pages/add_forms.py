"""Forms that add a car or a group, in a dialog over the list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.api.schema.declaration import LONG_TEXT, ResourceTable
from keyrack.console.field_errors import words
from keyrack.console.languages import translations
from keyrack.console.pages.references import holder_of
from keyrack.console.rendering import base, page, part, redirect, tongue, translate_error
from keyrack.core.errors import BadRequest, Conflict, Refusal
from keyrack.core.text import N_
from keyrack.fleet import declarations
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

BRANDS = 500  # options of the field


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form. Its name is that of the API's field."""

    name: str
    label: str
    hint: str = ""
    long: bool = False
    longest: int = 250  # characters
    required: bool = False


@dataclass(frozen=True, slots=True)
class AddForm:
    """A form that adds an object. `row` is its endpoint; its page and its list are below `path`."""

    title: str
    row: str
    path: str
    section: str
    fields: tuple[FormField, ...]


def _fields(table: ResourceTable) -> tuple[FormField, ...]:
    return tuple(
        FormField(
            member.name,
            member.info.label,
            member.info.hint,
            member.is_long,
            member.max_length or LONG_TEXT,
            member.is_required,
        )
        for member in table.in_forms
    )


CAR = AddForm(
    N_("Add car"),
    "/cars",
    "/cars",
    "cars",
    _fields(declarations.CARS),
)
GROUP = AddForm(N_("Add group"), "/groups", "/groups", "groups", _fields(declarations.GROUPS))


@pages.get("/{customer}/cars/new", permission=Permission.CARS_WRITE)
async def new_car(visit: Visit) -> Response:
    return await _drawn(visit, CAR)


@pages.post("/{customer}/cars/new", permission=Permission.CARS_WRITE)
async def add_car(visit: Visit) -> Response:
    return await _added(visit, CAR)


@pages.get("/{customer}/groups/new", permission=Permission.GROUPS_WRITE)
async def new_group(visit: Visit) -> Response:
    return await _drawn(visit, GROUP)


@pages.post("/{customer}/groups/new", permission=Permission.GROUPS_WRITE)
async def add_group(visit: Visit) -> Response:
    return await _added(visit, GROUP)


async def _added(visit: Visit, form: AddForm) -> Response:
    """Redirect to the new object, or show the form with its errors."""
    body = {field.name: visit.form_value(field.name) for field in form.fields if visit.form_value(field.name)}
    try:
        made = await visit.call("PUT", form.row, body=body, key=visit.form_value("key") or None)
    except (BadRequest, Conflict) as refusal:
        return await _drawn(visit, form, refusal)
    address = f"{base(visit)}{form.path}/{made.json['id']}?added"
    return Response(204, headers={"HX-Redirect": address}) if visit.is_partial else redirect(address)


async def _drawn(visit: Visit, form: AddForm, refusal: Refusal | None = None) -> Response:
    say = translations(tongue(visit)).gettext
    errors, rest = _errors(visit, form, refusal) if refusal else ({}, "")
    brands = await visit.call("GET", "/brands", query={"$top": str(BRANDS)}) if form is CAR else None
    about: dict[str, Any] = {
        "form": {
            "title": say(form.title),
            "action": f"{base(visit)}{form.path}/new",
            "key": str(uuid4()),  # a rejected request is not kept under the old key
            "rest": rest,
            "holder": holder_of(visit, form.section, refusal),
            "fields": [
                {
                    "name": field.name,
                    "label": say(field.label),
                    "hint": say(field.hint) if field.hint else "",
                    "long": field.long,
                    "longest": field.longest,
                    "value": visit.form_value(field.name),
                    "error": errors.get(field.name, ""),
                    "required": field.required,
                }
                for field in form.fields
            ],
        },
        "brands": brands.json if brands else [],
        "back": f"{base(visit)}{form.path}",
    }
    status = refusal.status if refusal else 200
    if visit.is_partial:
        return await part(visit, "adding.html", "adding", status=status, **about)
    return await page(visit, "adding.html", status=status, section=form.section, **about)


def _errors(visit: Visit, form: AddForm, refusal: Refusal) -> tuple[dict[str, str], str]:
    """The errors of fields, and those of the whole form."""
    fields = {f"/{field.name}": field for field in form.fields}
    pairs = ((fields[fault.pointer], fault) for fault in refusal.errors if fault.pointer in fields)
    field_errors = {field.name: words(visit, fault, field.longest) for field, fault in pairs}
    text = translate_error(visit, refusal.reason)
    if not field_errors and isinstance(refusal, Conflict):  # the name is the only value that can conflict
        field_errors = {"name": text}
    return field_errors, "" if field_errors else text
