"""Definition of a list: its endpoint, columns, filters and actions. Everything else follows from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from keyrack.api.event_stream import NEEDS
from keyrack.api.permissions import Permission
from keyrack.console.lists.filters import ListFilter
from keyrack.http.page_router import Visit

Row = Mapping[str, Any]  # of an answer
Kind = Literal["text", "number", "code", "time", "minute", "date", "said", "word", "status", "links", "sentence"]


@dataclass(frozen=True, slots=True)
class CellLink:
    """A part of a cell with a link.

    `path` is below the customer's pages, "" for no link. `note` belongs to this part; its placeholder `%(time)s` gets
    the moment `at`. `said` marks a text of the catalogues.
    """

    text: str
    path: str = ""
    note: str = ""
    at: str = ""
    said: bool = False


TIMES: tuple[Kind, ...] = ("time", "minute")


@dataclass(frozen=True)
class ListColumn:
    """A column. `value` gets its value from a row.

    A value is one of these:

    - text, a number or links,
    - a time of an answer (`minute` for planned times, `date` for dates),
    - a sentence of the server, or a sentence as markup,
    - a key of `words`, shown as a badge if the kind is `status`.
    """

    key: str  # its name in the address
    label: str
    value: Callable[[Row], Any]
    kind: Kind = "text"
    sort: str = ""  # its expression in $orderby
    is_empty_last: bool = False  # whether rows without a value are last in both orders
    expand: str = ""  # its item in $expand
    priority: int = 1  # 1 always shown, 2 from 640 px, 3 from 1,152, 4 from 1,536
    is_default: bool = True  # shown unless other columns are chosen
    ago: bool = False  # for times: shown as a duration until now
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])  # value -> badge and text
    signs: Mapping[str, str] = field(default_factory=dict[str, str])  # value -> icon, instead of that of its badge
    # Texts for group-limited visits
    scoped_words: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    permission: Permission | None = None  # in addition to that of the list


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The batch items of a bulk action by row id, and the rejected rows."""

    items: Mapping[int, Mapping[str, Any]]
    refusals: Mapping[int, str]


@dataclass(frozen=True)
class Action:
    """A bulk action.

    `each` runs on one row after the other, or `batch` is the kind of a `POST /batch`.
    """

    name: str  # its name in the address
    text: str
    sign: str
    question_for_one: str  # the confirmation for one row
    question_for_many: str  # the confirmation for `%(num)s` rows
    warning: str  # the effect
    permission: Permission
    batch: str = ""
    # The plan, if it depends on the rows. Without one, each row ends
    plan: Callable[[Visit, Sequence[int]], Awaitable[BatchPlan]] | None = None
    says: Callable[[Visit, Sequence[int]], Awaitable[Sequence[str]]] | None = None  # the effects on these rows
    named: tuple[str, ...] = ()  # the columns that name its rows; the first column if empty
    each: Callable[[Visit, int, str], Awaitable[Any]] | None = None  # with the visit, the row's id, the chosen value
    choice: ListFilter | None = None  # a value to choose before, for example a group
    danger: bool = False
    asks: bool = False  # whether results come later

    @property
    def wants(self) -> tuple[Permission, ...]:
        return (self.permission, Permission.BATCH_WRITE) if self.batch else (self.permission,)


@dataclass(frozen=True)
class EmptyList:
    """The text of a list without rows: its purpose, and the first step."""

    title: str
    text: str


@dataclass(frozen=True)
class Add:
    """A form that adds a row. `path` is below the customer's pages."""

    text: str
    path: str
    permission: Permission
    sign: str = "add"


@dataclass(frozen=True)
class List:
    """One list. `path` is its page below the console, `rows` is its endpoint."""

    path: str
    rows: str
    section: str
    title: str
    lead: str
    search: str  # label of its search field
    columns: tuple[ListColumn, ...]
    never: EmptyList
    order: str  # default order: a column's key, with "-" descending
    topics: str  # topics of live updates
    permission: Permission  # of its rows
    otherwise: List | None = None  # the list for visits without that permission
    # If $search covers too little: the searched texts, and the relations whose matches count
    words: tuple[str, ...] = ()
    filters: tuple[ListFilter, ...] = ()
    actions: tuple[Action, ...] = ()
    adds: tuple[Add, ...] = ()  # the most common one first
    select: str = ""
    paged: bool = False  # the endpoint answers in pages
    newest: str = ""  # for a paged one: an expression that grows with each new row
    walked: bool = False  # a log: not counted, paged by number
    add_details: Callable[[Visit, Sequence[Row]], Awaitable[list[dict[str, Any]]]] | None = None  # adds missing data
    id: str = "id"
    href: Callable[[Row], str] | None = None  # page of a row, below the customer's pages
    back: tuple[str, str] | None = None  # path and text of the parent page

    @property
    def name(self) -> str:
        """The name for files: the last part of its address with a name."""
        return self.path.removesuffix("/list").rpartition("/")[2]

    def column(self, key: str) -> ListColumn | None:
        return next((column for column in self.columns if column.key == key), None)

    @property
    def usual(self) -> tuple[str, ...]:
        """The default columns."""
        return tuple(column.key for column in self.columns if column.is_default)


def chosen(listing: List, keys: Sequence[str]) -> list[ListColumn]:
    """The columns with these keys, in the list's own order."""
    return [column for column in listing.columns if column.key in keys]


# The relations in a search's expressions
OF_RELATION = {"car": Permission.CARS_READ, "user": Permission.USERS_READ}


def seen(listing: List, visit: Visit) -> List:
    """The list without the parts for which the visit lacks the permission."""
    if not visit.may(listing.permission) and listing.otherwise is not None:
        return seen(listing.otherwise, visit)

    def may(permission: Permission | None) -> bool:
        return permission is None or visit.may(permission)

    def column_of(column: ListColumn) -> ListColumn:
        return replace(column, words={**column.words, **column.scoped_words}) if visit.is_limited else column

    return replace(
        listing,
        columns=tuple(column_of(column) for column in listing.columns if may(column.permission)),
        filters=tuple(item.within(may) for item in listing.filters if may(item.permission)),
        words=tuple(item for item in listing.words if may(OF_RELATION.get(item.partition("/")[0]))),
        actions=tuple(action for action in listing.actions if all(map(may, action.wants))),
        adds=tuple(add for add in listing.adds if may(add.permission)),
        topics=" ".join(topic for topic in listing.topics.split() if may(NEEDS[topic])),
    )


def wanted(listing: List) -> Permission:
    """The permissions of its page."""
    return listing.permission if listing.otherwise is None else wanted(listing.otherwise)
