"""The list of groups."""

from __future__ import annotations

from keyrack.api.permissions import Permission
from keyrack.console.lists.actions import delete
from keyrack.console.lists.definition import Add, EmptyList, List, ListColumn
from keyrack.console.lists.filters import FilterOption, OneOf
from keyrack.core.text import N_

GROUPS = List(
    path="/{customer}/groups",
    rows="/groups",
    section="groups",
    title=N_("Groups"),
    lead=N_("Named sets of cars, people, key boxes and services, for example the pool of a site."),
    search=N_("Search groups"),
    columns=(
        ListColumn("name", N_("Name"), lambda row: row["name"], sort="naturalorder(name)"),
        *(
            ListColumn(
                relation,
                label,
                lambda row, member=f"{relation}@odata.count": row[member],
                "number",
                sort=f"{relation}/$count",
                expand=f"{relation}/$count",
                priority=priority,
                permission=Permission(f"{relation}:read"),
            )
            for relation, label, priority in (
                ("cars", N_("Cars"), 1),
                ("users", N_("People"), 1),
                ("products", N_("Key boxes"), 2),
                ("services", N_("Services"), 2),
            )
        ),
        ListColumn("id", N_("Number"), lambda row: row["id"], "number", sort="id", priority=3, is_default=False),
    ),
    filters=(
        OneOf(
            "content",
            N_("Content"),
            (
                FilterOption(
                    "empty",
                    N_("Empty"),
                    "cars/$count eq 0 and users/$count eq 0 and products/$count eq 0 and services/$count eq 0",
                    permission=Permission.USERS_READ,
                ),
                FilterOption("cars", N_("With cars"), "cars/$count gt 0"),
                FilterOption("users", N_("With people"), "users/$count gt 0", permission=Permission.USERS_READ),
            ),
        ),
    ),
    order="name",
    topics="groups",
    permission=Permission.GROUPS_READ,
    actions=(
        delete(
            "groups",
            N_("Delete %(num)s group"),
            N_("Delete %(num)s groups"),
            N_("Only empty groups can be deleted. Deleting a group does not change cars or people."),
        ),
    ),
    never=EmptyList(
        N_("No groups yet"),
        N_("A group is a named set, for example the cars and people of a site. Add the first group, then fill it."),
    ),
    adds=(Add(N_("Add group"), "/groups/new", Permission.GROUPS_WRITE),),
    href=lambda row: f"/groups/{row['id']}",
)
