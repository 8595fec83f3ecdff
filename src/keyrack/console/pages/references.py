"""The form of a resource's external id and metadata.

The metadata are lines of the form `key = value`. The patch has only the changed keys, so a text that a line cannot
show stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.api.schema.references import LONGEST_EXTERNAL_ID
from keyrack.api.schema.text_maps import BYTES, KEYS, LONGEST_TEXT, size
from keyrack.console.choices import of_user
from keyrack.console.field_errors import words
from keyrack.console.form_errors import RIGHT, SHOWN, FormErrors, invalid, refused, went
from keyrack.console.product_names import named
from keyrack.console.rendering import base, gettext, page
from keyrack.core.errors import NotFound, PreconditionFailed, Refusal
from keyrack.core.text import N_
from keyrack.http.page_router import ConsolePages, Run, Visit

pages = ConsolePages()

TAKEN = "external-id-taken"
KEY = re.compile(r"[A-Za-z0-9_.-]{1,40}").fullmatch
BREAK = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")  # what a line cannot show
ERRORS = 10  # of one form, at most
NO_SIGN = N_("Line %(line)s has no equals sign. Write it as key = value.")
NO_KEY = N_("Line %(line)s: a key has 1 to 40 letters, digits, and the signs _ . and -")
TWICE = N_("Line %(line)s: there is already a line with the key %(key)s.")
LONG = N_("Line %(line)s: a value has at most %(most)s characters.")
MANY = N_("There are at most %(most)s keys.")
LARGE = N_("All keys and values together have at most %(most)s bytes.")


@dataclass(frozen=True, slots=True)
class Referenced:
    """A type of resource with both members.

    `path` is its endpoint, `id` the parameter of its page's address, and `name` returns the name of a row.
    """

    path: str
    id: str
    write: Permission
    name: Callable[[Visit, Mapping[str, Any]], str]
    expand: str = ""


def _booking(visit: Visit, row: Mapping[str, Any]) -> str:
    return gettext(visit, "Booking %(number)s", number=row["id"])


def _person(_visit: Visit, row: Mapping[str, Any]) -> str:
    return of_user(row).label


def _url(_visit: Visit, row: Mapping[str, Any]) -> str:
    return row["url"]


def _own_name(_visit: Visit, row: Mapping[str, Any]) -> str:
    return row["name"]


# Part of the console's address -> the type
TYPES = {
    "cars": Referenced("/cars/{carId}", "carId", Permission.CARS_WRITE, _own_name),
    "users": Referenced("/users/{userId}", "user", Permission.USERS_WRITE, _person),
    "groups": Referenced("/groups/{groupId}", "group", Permission.GROUPS_WRITE, _own_name),
    "products": Referenced("/products/{productId}", "productId", Permission.INSTALLATIONS_WRITE, named, "car"),
    "assignments": Referenced("/assignments/{assignmentId}", "assignment", Permission.ASSIGNMENTS_WRITE, _booking),
    "webhooks": Referenced("/webhooks/{webhookId}", "webhook", Permission.WEBHOOKS_WRITE, _url),
}


@dataclass(frozen=True, slots=True)
class TypedReferences:
    """The texts of the form."""

    external_id: str
    metadata: str


@dataclass(slots=True)
class MetadataLines:
    """The texts by key, and the errors of the lines."""

    texts: dict[str, str] = field(default_factory=dict[str, str])
    errors: list[str] = field(default_factory=list[str])


def texts_of(row: Mapping[str, Any]) -> TypedReferences:
    """The texts of a form for a row."""
    hidden = _hidden(row)
    lines = [f"{name} = {text}" for name, text in _texts(row).items() if name not in hidden]
    return TypedReferences(row["externalId"] or "", "\n".join(lines))


def _texts(row: Mapping[str, Any]) -> Mapping[str, str]:
    return row["metadata"] or {}


def _hidden(row: Mapping[str, Any]) -> dict[str, str]:
    """The metadata that a line cannot show."""
    return {name: text for name, text in _texts(row).items() if BREAK.search(text)}


def read(visit: Visit, text: str) -> MetadataLines:
    """The texts of the lines `key = value`. Empty lines are skipped."""
    read = MetadataLines()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or len(read.errors) >= ERRORS:
            continue
        name, sign, value = (part.strip() for part in line.partition("="))
        if not sign:
            read.errors.append(gettext(visit, NO_SIGN, line=number))
        elif not KEY(name):
            read.errors.append(gettext(visit, NO_KEY, line=number))
        elif name in read.texts:
            read.errors.append(gettext(visit, TWICE, line=number, key=name))
        elif len(value) > LONGEST_TEXT:
            read.errors.append(gettext(visit, LONG, line=number, most=LONGEST_TEXT))
        else:
            read.texts[name] = value
    return read


def _patch(visit: Visit, row: Mapping[str, Any], typed: TypedReferences, lines: MetadataLines) -> list[dict[str, Any]]:
    """The changes of the form."""
    before = texts_of(row)
    patch: list[dict[str, Any]] = []
    if typed.external_id != before.external_id:
        patch.append(_step("externalId", typed.external_id or None))
    old = read(visit, before.metadata).texts
    for name in [*lines.texts, *(name for name in old if name not in lines.texts)]:
        if lines.texts.get(name) != old.get(name):
            patch.append(_step(f"metadata/{name}", lines.texts.get(name)))
    return patch


def _step(path: str, value: str | None) -> dict[str, Any]:
    if value is None:
        return {"op": "remove", "path": f"/{path}"}
    return {"op": "replace", "path": f"/{path}", "value": value}


def _limits(visit: Visit, row: Mapping[str, Any], lines: MetadataLines) -> str:
    """The error of too large metadata, "" for others."""
    after = {**_hidden(row), **lines.texts}
    if len(after) > KEYS:
        return gettext(visit, MANY, most=KEYS)
    return gettext(visit, LARGE, most=BYTES) if size(after) > BYTES else ""


def _form_of(kind: str) -> Run:
    async def form(visit: Visit) -> Response:
        return await _form(visit, kind)

    return form


def _save_of(kind: str) -> Run:
    async def save(visit: Visit) -> Response:
        return await _save(visit, kind)

    return save


for _kind, _type in TYPES.items():
    _path = f"/{{customer}}/{_kind}/{{{_type.id}}}/references"
    pages.get(_path, permission=_type.write)(_form_of(_kind))
    pages.post(_path, permission=_type.write)(_save_of(_kind))


async def _save(visit: Visit, kind: str) -> Response:
    """Change what differs from the form's begin, unless another person was faster."""
    typed = TypedReferences(visit.form_value("external_id"), visit.form_value("metadata"))
    row, _ = await _row(visit, kind)
    lines = read(visit, typed.metadata)
    if wrong := invalid(("metadata", text) for text in lines.errors or [_limits(visit, row, lines)]).texts:
        return await _form(visit, kind, typed, invalid(wrong))
    patch = _patch(visit, row, typed, lines)
    if not patch:
        return went(visit, _back(visit, kind, row))
    more = {"if_match": visit.form_value("tag") or None}
    try:
        reply = await visit.call("PATCH", TYPES[kind].path, row["id"], body=patch, **more)
    except SHOWN as refusal:
        if isinstance(refusal, NotFound):
            raise
        return await _form(visit, kind, typed, _wrong(visit, refusal, patch), refusal)
    if kind == "assignments":  # the result comes later
        return went(visit, f"{base(visit)}/operations/{reply.headers['Operation-Id']}")
    return went(visit, _back(visit, kind, row))


def _wrong(visit: Visit, refusal: Refusal, patch: Sequence[Mapping[str, Any]]) -> FormErrors:
    """The errors of the call. A pointer begins with the number of the patch's step."""
    if isinstance(refusal, PreconditionFailed):
        text = gettext(visit, "Another person changed this in the meantime. Check your entries, then save again.")
        return FormErrors(refusal.status, (("", text),))
    if refusal.reason.code == TAKEN:
        text = gettext(visit, "Another one has this external id already. Choose another one.")
        return FormErrors(refusal.status, (("external_id", text),))
    errors: list[tuple[str, str]] = []
    for fault in refusal.errors:
        number, _, _ = (fault.pointer or "").removeprefix("/").partition("/")
        step = patch[int(number)] if number.isdigit() and int(number) < len(patch) else None
        if step and step["path"] == "/externalId":
            errors.append(("external_id", words(visit, fault, LONGEST_EXTERNAL_ID)))
        elif step:
            name = step["path"].removeprefix("/metadata/")
            errors.append(("metadata", f"{name}: {words(visit, fault, LONGEST_TEXT)}"))
    return FormErrors(refusal.status, tuple(errors)) if errors else refused(visit, refusal)


async def _row(visit: Visit, kind: str) -> tuple[Mapping[str, Any], str]:
    """The row with its tag. Raises `NotFound`."""
    type_ = TYPES[kind]
    id = visit.ids[type_.id]
    reply = await visit.call("GET", type_.path, id)
    if not type_.expand:
        return reply.json, reply.tag
    return (await visit.call("GET", type_.path, id, query={"$expand": type_.expand})).json, reply.tag


async def _form(
    visit: Visit, kind: str, typed: TypedReferences | None = None, wrong: FormErrors = RIGHT,
    refusal: Refusal | None = None,
) -> Response:  # fmt: skip
    row, tag = await _row(visit, kind)
    back = _back(visit, kind, row)
    # The old tag stays until the person has seen the change
    seen = "" if isinstance(refusal, PreconditionFailed) else visit.form_value("tag")
    return await page(
        visit, "references.html", status=wrong.status, section="boxes" if kind == "products" else kind, back=back,
        here=f"{base(visit)}/{kind}/{row['id']}/references", name=TYPES[kind].name(visit, row),
        typed=typed or texts_of(row), wrong=wrong, tag=seen or tag, holder=holder_of(visit, kind, refusal),
        now=texts_of(row) if isinstance(refusal, PreconditionFailed) else None,
        hidden=sorted(_hidden(row)),
        longest=LONGEST_EXTERNAL_ID, keys=KEYS, most=LONGEST_TEXT,
    )  # fmt: skip


def holder_of(visit: Visit, kind: str, refusal: Refusal | None) -> str:
    """The page of the resource with the external id, "" if unknown."""
    id = refusal.extensions().get("id") if refusal and refusal.reason.code == TAKEN else None
    if id is None:
        return ""
    return f"{base(visit)}/products/{id}/references" if kind == "products" else f"{base(visit)}/{kind}/{id}"


def _back(visit: Visit, kind: str, row: Mapping[str, Any]) -> str:
    """The page of the resource. A product is on the page of its car, or in the list."""
    if kind != "products":
        return f"{base(visit)}/{kind}/{row['id']}"
    return f"{base(visit)}/cars/{row['car']['id']}" if row["car"] else f"{base(visit)}/boxes"
