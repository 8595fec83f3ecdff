"""In charge of what a list is: a row of the endpoints' table, its columns, filters and actions. All else follows."""

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
    """A part of a cell that leads somewhere: `path` is below the customer's pages, "" for words alone. `note` is of
    this part alone; it may have a place `%(time)s`, which the moment `at` fills. `said` is a text of the catalogues."""

    text: str
    path: str = ""
    note: str = ""
    at: str = ""
    said: bool = False


TIMES: tuple[Kind, ...] = ("time", "minute")


@dataclass(frozen=True)
class ListColumn:
    """`value` takes it out of a row: text, a number, a time of an answer (`minute` is one that people plan, `date` one
    that is a date to them), a sentence of the server, the key of one of `words` (shown as a badge where the kind is
    `status`), links, or a sentence, which is markup."""

    key: str  # in the address
    label: str
    value: Callable[[Row], Any]
    kind: Kind = "text"
    sort: str = ""  # expression of $orderby
    is_empty_last: bool = False  # whether rows without a value are last in either order
    expand: str = ""  # item of $expand
    priority: int = 1  # 1 always shown, 2 from 640 px on, 3 from 1,152, 4 from 1,536
    is_default: bool = True  # unless other columns are chosen
    ago: bool = False  # of times: how long ago
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])  # value -> (badge, word)
    # Those that are others for who is limited to groups
    scoped_words: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    permission: Permission | None = None  # what it wants beside that of the list


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The items of an action's batch by the ids of its rows, and the reasons for rows without an item."""

    items: Mapping[int, Mapping[str, Any]]
    refusals: Mapping[int, str]


@dataclass(frozen=True)
class Action:
    """Something to do with many rows: by `each` with one after the other, or by `POST /batch` of the kind `batch`."""

    name: str  # in the address
    text: str
    sign: str
    question_for_one: str  # what is asked before it is done with one row
    question_for_many: str  # and with `%(num)s` rows
    warning: str  # what comes of it
    permission: Permission
    batch: str = ""
    # The plan, if it depends on the rows: by default each row ends
    plan: Callable[[Visit, Sequence[int]], Awaitable[BatchPlan]] | None = None
    says: Callable[[Visit, Sequence[int]], Awaitable[Sequence[str]]] | None = None  # the effects on these rows
    named: tuple[str, ...] = ()  # the columns by which its rows are named; the first one without any
    each: Callable[[Visit, int, str], Awaitable[Any]] | None = None  # the visit, the row's id, what was chosen
    choice: ListFilter | None = None  # what has to be chosen as well, as a group
    danger: bool = False
    asks: bool = False  # it is asked for, and its outcome comes later

    @property
    def wants(self) -> tuple[Permission, ...]:
        return (self.permission, Permission.BATCH_WRITE) if self.batch else (self.permission,)


@dataclass(frozen=True)
class EmptyList:
    """What a list without rows says: what it is for, and the first step."""

    title: str
    text: str


@dataclass(frozen=True)
class Add:
    """A form by which something comes into the list: its `path` is below the customer's pages."""

    text: str
    path: str
    permission: Permission
    sign: str = "add"


@dataclass(frozen=True)
class List:
    """One list. `path` is its page below the console, `rows` the row of the endpoints' table."""

    path: str
    rows: str
    section: str
    title: str
    lead: str
    search: str  # name of the search
    columns: tuple[ListColumn, ...]
    never: EmptyList
    order: str  # how it is sorted unless asked otherwise: a column's key, with "-" descending
    topics: str  # what it shows, for live updates
    permission: Permission  # that its rows want
    otherwise: List | None = None  # what stands in its place for who has not got it
    # Where $search looks into too little: texts that a search looks into, and relations that it matches
    words: tuple[str, ...] = ()
    filters: tuple[ListFilter, ...] = ()
    actions: tuple[Action, ...] = ()
    adds: tuple[Add, ...] = ()  # the usual one first
    select: str = ""
    paged: bool = False  # the row answers a page at a time
    newest: str = ""  # of a paged one: what grows with each new row
    walked: bool = False  # a log: too many to be counted, from page to page by number
    add_details: Callable[[Visit, Sequence[Row]], Awaitable[list[dict[str, Any]]]] | None = None  # adds what rows lack
    id: str = "id"
    href: Callable[[Row], str] | None = None  # page of a row, below the customer's pages
    back: tuple[str, str] | None = None  # path and text of what it belongs to

    @property
    def name(self) -> str:
        """For files: what is listed, the last part of its address that says so."""
        return self.path.removesuffix("/list").rpartition("/")[2]

    def column(self, key: str) -> ListColumn | None:
        return next((column for column in self.columns if column.key == key), None)

    @property
    def usual(self) -> tuple[str, ...]:
        """The columns that are shown unless others are chosen."""
        return tuple(column.key for column in self.columns if column.is_default)


def chosen(listing: List, keys: Sequence[str]) -> list[ListColumn]:
    """The columns with these keys, in the list's own order."""
    return [column for column in listing.columns if column.key in keys]


# What of a search's expressions is reached by a relation
OF_RELATION = {"car": Permission.CARS_READ, "user": Permission.USERS_READ}


def seen(listing: List, visit: Visit) -> List:
    """The list with nothing in it that the visit may not see or do."""
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
    """What its page wants."""
    return listing.permission if listing.otherwise is None else wanted(listing.otherwise)
