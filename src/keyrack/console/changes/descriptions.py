"""Descriptions of changes: a sentence with links, and the changed fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from babel.lists import format_list
from babel.numbers import format_decimal
from babel.units import format_unit
from markupsafe import Markup, escape

from keyrack.console.changes.labels import ACTORS, KINDS, MEMBERS, OTHER, PARTS, RESOURCES, VALUES
from keyrack.console.changes.resource_names import (
    GROUPS,
    OF_MEMBER,
    Change,
    Members,
    ResourceLabel,
    ResourceLabels,
    Thing,
    names_of,
    sides,
)
from keyrack.console.languages import translations
from keyrack.console.rendering import clock, gettext, tongue
from keyrack.console.shown_text import datum
from keyrack.core.addresses import address_form
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

HIDDEN = "***"  # the log's placeholder for a secret
GIVING = ("invitation.created", "role.granted")  # changes that grant a part of the fleet, or all of it
NAMED = 3  # fields that a sentence names
MOVED = {"carId", "userId"}  # fields that a sentence shows together
LONGEST = 60  # characters of a value in a sentence
ITEMS = ("carId", "userId", "productId", "serviceId")  # objects that join a group
TIMES = (
    "start", "end", "begins", "expires", "terminated", "dongleTerminated", "revoked", "oldSigningSecretUntil",
)  # fmt: skip
SECONDS = ("lifetime", "renewableAfter", "freshness")
DAY, HOUR = 86_400, 3_600
ON_BEHALF = N_("%(who)s on behalf of %(other)s")
INVITER = N_("%(other)s (accepted by %(who)s)")
ACCEPTED = N_("%(who)s accepted the invitation")
LIMITED = N_("limited to %(groups)s")
NO_GROUP = N_("no group")
SOMEBODY = N_("A person with a deleted name")
APP = N_("The app of a person (%(name)s)")
SHORT = 8  # characters that identify such a name
FROM_TO = N_("%(what)s: %(before)s → %(after)s")
ERASED = N_("parts of it were deleted")


@dataclass(frozen=True, slots=True)
class MemberChange:
    """A changed field: its label, its name in the API, and its values before and after."""

    label: str
    name: str
    before: Markup | None
    after: Markup | None


class ChangeDescriber:
    """Describes changes to a visit."""

    def __init__(self, visit: Visit, names: ResourceLabels) -> None:
        self._visit = visit
        self._names = names
        self._clock = clock(visit)
        self._say = partial(gettext, visit)
        self._translated = translations(tongue(visit)).gettext

    def who(self, change: Change) -> str:
        """The person behind a change. For the worker and for an acceptance, it is the requester."""
        actor, author = change["actor"], author_of(change)
        if author is not actor or not change["onBehalfOf"]:
            return self._actor(author)
        return self._say(INVITER, who=self._actor(actor), other=self._actor(change["onBehalfOf"]))

    def who_in_full(self, change: Change) -> str:
        """The author, and the person on whose behalf the change was made."""
        actor, other = self._actor(change["actor"]), change["onBehalfOf"]
        return self._say(ON_BEHALF, who=actor, other=self._actor(other)) if other else actor

    def actor(self, change: Change) -> str:
        """The type of the author; "" if it was erased."""
        type = change["actor"]["type"]
        return self._translated(ACTORS[type]) if type in ACTORS else type or ""

    def named(self, resource: str, id: object) -> Markup:
        """An object, with a link if it has a page."""
        return _link(self._names.of(resource, id))

    def _actor(self, actor: Mapping[str, Any]) -> str:
        type, name = actor["type"], actor["name"]
        if type is None:
            return self._say(SOMEBODY)
        if type == "system" and name in PARTS:
            return self._translated(PARTS[name])
        word = self._translated(ACTORS[type]) if type in ACTORS else str(type)
        if not name:
            return f"{word} {actor['id']}" if actor["id"] else word
        if type == "user":  # an app, by a name that identifies no person
            return self._say(APP, name=str(name)[:SHORT])
        return str(name) if type == "manager" else f"{word} {name}"

    def kind(self, change: Change) -> str:
        """The kind of the change, in a few words."""
        return self._translated(KINDS.get(change["kind"], OTHER).label)

    def sentence(self, change: Change) -> Markup:
        """The change as a sentence."""
        members = self._names.members(change)
        places: dict[str, Any] = {
            "who": Markup("<strong>{}</strong>").format(datum(self.who(change))),
            "thing": self.thing(change),
            "members": self._changed(change),
            "times": self._times(members),
            "item": self._item(members),
            "car": self._of_member("carId", members, change),
            "user": self._of_member("userId", members, change),
            "product": self._of_member("productId", members, change),
            "role": self.value("role", members.get("role")),
        }
        text = ACCEPTED if _is_acceptance(change) else KINDS.get(change["kind"], OTHER).sentence
        said = self._with_values(escape(self._translated(text)) % places, change)
        if change["kind"] in GIVING and members.get(GROUPS) is not None:
            limit = escape(self._say(LIMITED)) % {"groups": self._groups(members[GROUPS])}
            said += Markup(" ({})").format(limit)
        if is_erased(change):
            said += Markup(' <span class="muted">({})</span>').format(self._say(ERASED))
        return said

    def thing(self, change: Change) -> Markup:
        """The changed object, with a link if it has a page."""
        resource, id = change["resource"], change["resourceId"]
        name = _link(self._names.of(resource, id))
        if resource not in RESOURCES:
            return Markup("<code>{} {}</code>").format(resource, id)
        return escape(self._translated(RESOURCES[resource].sentence)) % {"name": name}

    def differences(self, change: Change) -> list[MemberChange]:
        """The changed fields, sorted by their labels."""
        before, after = sides(change)
        differences = [
            MemberChange(
                self._translated(MEMBERS[name].label) if name in MEMBERS else "", name,
                self._shown(name, before), self._shown(name, after),
            )
            for name in {**before, **after}
        ]  # fmt: skip
        return sorted(differences, key=lambda difference: (difference.label or difference.name).casefold())

    def _shown(self, name: str, side: Members) -> Markup | None:
        return None if side.get(name) is None else self.value(name, side[name])

    def value(self, name: str, value: Any) -> Markup:
        """A value in readable form."""
        if value is None:
            return escape(self._say(N_("nothing")))
        if value == HIDDEN:
            return escape(self._say(N_("a secret")))
        if name in OF_MEMBER:
            return _link(self._names.of(OF_MEMBER[name], value))
        if isinstance(value, bool):
            return escape(self._say(N_("yes")) if value else self._say(N_("no")))
        if isinstance(value, str) and value in VALUES.get(name, {}):
            return escape(self._translated(VALUES[name][value]))
        if name in TIMES:
            return self._clock.moment(value, "short")
        if name in SECONDS:
            return escape(self._duration(int(value)))
        if isinstance(value, int | float):
            return escape(format_decimal(value, locale=self._clock.locale))
        if isinstance(value, list):
            several = cast("list[object]", value)
            if name == GROUPS:
                return self._groups(several)
            return escape(datum(", ".join(str(item) for item in several)))
        return escape(datum(str(value)))

    def _groups(self, ids: Sequence[object]) -> Markup:
        """The groups of a group scope, with links."""
        if not ids:
            return escape(self._say(NO_GROUP))
        return Markup(", ").join(_link(self._names.of("group", id)) for id in ids)

    def _duration(self, seconds: int) -> str:
        for size, unit in ((DAY, "duration-day"), (HOUR, "duration-hour")):
            if seconds % size == 0:
                return format_unit(seconds // size, unit, locale=self._clock.locale)
        return format_unit(seconds, "duration-second", locale=self._clock.locale)

    def _changed(self, change: Change) -> str:
        """The changed fields, as a sentence names them."""
        before, after = sides(change)
        names = sorted(before.keys() | after.keys())
        labels = [self._translated(MEMBERS[name].changed) if name in MEMBERS else name for name in names]
        if not labels:
            return self._say(N_("something"))
        more = len(labels) - NAMED
        if more > 1:
            labels = [*labels[:NAMED], self._say(N_("%(num)s more"), num=more)]
        return format_list(labels, "standard", self._clock.locale)

    def _with_values(self, said: Markup, change: Change) -> Markup:
        """The sentence with old and new values: for one short value, or for another car and user."""
        before, after = sides(change)
        names = sorted(before.keys() | after.keys())
        is_told = len(names) == 1 or set(names) == MOVED
        if not (change["before"] and change["after"] and is_told and change["kind"].endswith(".updated")):
            return said
        if any(HIDDEN in (before.get(name), after.get(name)) for name in names):
            return said
        first, *others = [[self._marked(name, side.get(name)) for side in (before, after)] for name in names]
        if max(len(value.striptags()) for value in first) > LONGEST:
            return said
        sentence = escape(self._say(FROM_TO)) % {"what": said, "before": first[0], "after": first[1]}
        return sentence + Markup("").join(Markup(", {} → {}").format(*pair) for pair in others)

    def _marked(self, name: str, value: Any) -> Markup:
        """A value in a sentence. Typed text is in quotation marks."""
        shown = self.value(name, value)
        return Markup("<q>{}</q>").format(shown) if name not in TIMES and isinstance(value, str) else shown

    def _times(self, members: Members) -> Markup:
        """The times of an assignment."""
        start, end = members.get("start"), members.get("end")
        if start is None:
            return escape(self._say(N_("times unknown")))
        places = {"start": self._clock.moment(start, "short"), "end": self._clock.moment(end, "short")}
        text = N_("%(start)s to %(end)s") if end else N_("from %(start)s, without end")
        return escape(self._translated(text)) % places

    def _item(self, members: Members) -> Markup:
        """The object that joined or left a group."""
        name = next((name for name in ITEMS if members.get(name) is not None), None)
        return self.value(name, members[name]) if name else escape(self._say(N_("something")))

    def _of_member(self, name: str, members: Members, change: Change) -> Markup:
        """The object of a field. For a deletion, it is the deleted one."""
        before, _ = sides(change)
        id = before.get(name) if members.get(name) is None else members[name]
        return _link(self._names.of(OF_MEMBER[name], id))


def author_of(change: Change) -> Mapping[str, Any]:
    """The actor of a change. The worker acts on behalf of the caller that made the request."""
    if change["actor"]["type"] == "system" and change["onBehalfOf"]:
        return change["onBehalfOf"]
    return change["actor"]


def _is_acceptance(change: Change) -> bool:
    """Whether the invited person ended the invitation by accepting it."""
    if change["kind"] != "invitation.deleted" or change["actor"]["type"] != "manager":
        return False
    invited, actor = sides(change)[0].get("emailAddress") or "", change["actor"]["name"] or ""
    return address_form(actor) == address_form(invited) != ""


def is_erased(change: Change) -> bool:
    """Whether parts of it were erased. A whole change has fields, a new user has an address, and each has an author."""
    before, after = sides(change)
    whole = before.keys() | after.keys()
    if not whole or change["actor"]["type"] is None:
        return True
    return change["kind"] in ("user.created", "user.deleted") and "emailAddress" not in whole


async def describe_changes(visit: Visit, changes: Sequence[Change], beside: Iterable[Thing] = ()) -> ChangeDescriber:
    """The descriptions of these changes. It reads the names of their objects, and of those `beside` them."""
    return ChangeDescriber(visit, await names_of(visit, changes, beside))


def _link(named: ResourceLabel) -> Markup:
    if not named.href:
        return escape(datum(named.text))
    return Markup('<a href="{}">{}</a>').format(named.href, datum(named.text))
