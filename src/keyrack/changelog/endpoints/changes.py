"""The change feed: numbered changes of a customer, as lists, long polls and streams. An extension."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

from keyrack.api import list_responses, odata
from keyrack.api.endpoint import Doc, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.event_stream import EVENTS, FULL, FULL_OF_CALLER, FULL_OF_CUSTOMER
from keyrack.api.exchange import NO_CONTENT, Request, Response, with_vary
from keyrack.api.query_parameters import INVALID, QueryParameter, parse_parameters
from keyrack.api.read_endpoint import ReadEndpoint
from keyrack.api.read_sql import Select
from keyrack.api.subscriptions import FollowContext
from keyrack.changelog import feed
from keyrack.changelog.endpoints.live import OLD_HTTP
from keyrack.changelog.feed import Extent
from keyrack.changelog.feed_fanout import GONE, cursor_expired_event, place_of
from keyrack.changelog.feed_stream import FeedFollower, FeedService, LongPoll
from keyrack.changelog.schema import CHANGE
from keyrack.changelog.services import FeedServices
from keyrack.core.error_codes import ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Forbidden

TAG = Tag("Changes", "Changes of the customer's data, and who made them.")
endpoints = Endpoints[FeedServices](TAG, "changes", is_extension=True)

# Up to the newest change in the response headers: later ones are for the next request
READ = ReadEndpoint(Select(CHANGE, paged=True, order_by="{t}.change_id <= :id0"))
LONGEST = 60  # maximum seconds that a request may wait
NOT_OF_STREAMS = ErrorCode(
    "stream-with-options",
    "A stream of changes supports only the options epoch and $filter=id gt N.",
    "Leave out the other options and filter in the client, or read the list with `wait`.",
)

NOT_FOR_LIMITED = ErrorCode(
    "no-stream-for-limited",
    "Streams of changes are not available to managers who are limited to groups.",
    "Read the list with `wait`, and continue from the header `Changes-Newest` of each response.",
)


def an_epoch(text: str) -> UUID:
    """Parse an epoch. Raises `ValueError`."""
    try:
        return UUID(text)
    except ValueError:
        raise ValueError(
            f"The value must be the UUID of the header {feed.EPOCH}, such as 5f0c1c1e-7c0e-4a55-9a0b-9a2f4d8a1e55."
        ) from None


def seconds(text: str) -> int:
    """Parse seconds to wait. Raises `ValueError`."""
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and 1 <= int(text) <= LONGEST):
        raise ValueError(f"The value must be an integer of seconds from 1 to {LONGEST}.")
    return int(text)


OF_EPOCH = QueryParameter(
    "epoch",
    an_epoch,
    f"The epoch of the number in `$filter=id gt N`, from the header {feed.EPOCH}.",
    {"type": "string", "format": "uuid"},
)
WAIT = QueryParameter(
    "wait",
    seconds,
    "The seconds for which an empty list waits for new changes before it is returned.",
    {"type": "integer", "minimum": 1, "maximum": LONGEST},
)
OPTIONS = (OF_EPOCH, WAIT)
NOT_STREAMED = {WAIT.name, *odata.OPTIONS} - {"filter", "format"}

Listed = tuple[Response, Extent]


@endpoints.get(
    "/changes",
    Doc(
        "listChanges",
        "List changes of the customer's data",
        "Changes are numbered per customer, without gaps and in an order that respects every dependency. So"
        " `$filter=id gt N` returns all new changes and misses none. A long list has several pages. A number from"
        " which the log cannot be continued is 410; the error names the available range. Erased data is null. With"
        " `wait`, an empty list waits for new changes. With `Accept: text/event-stream`, each change is sent as an"
        " event `change`. `Last-Event-ID` resumes a stream.",
    ),
    responses=Responses(
        200,
        headers=feed.HEADERS,
        errors={
            400: (INVALID, OLD_HTTP, NOT_OF_STREAMS),
            403: (NOT_FOR_LIMITED,),
            410: (feed.CURSOR_GONE,),
            429: (FULL_OF_CUSTOMER, FULL_OF_CALLER),
            503: (FULL,),
        },
    ),
    read=READ,
    query_parameters=OPTIONS,
    is_primary_only=True,  # a replica may show a change before the synchronous standby has it
    has_long_poll=True,
)
async def changes(request: Request, services: FeedServices) -> Response:
    own = parse_parameters(request.query, OPTIONS, allows_others=True)
    epoch: UUID | None = own.get(OF_EPOCH.name)
    READ.query(replace(request, ids=(0,)), services.query_limits)  # report invalid options first
    begins = odata.filter_cursor(request.query, "id", services.query_limits)
    if request.follow is not None and request.follow.prefers_events:
        if request.scope is not None:
            raise Forbidden(NOT_FOR_LIMITED)
        return await _stream(request, request.follow, epoch, begins, services.feed)

    async def listed() -> Listed:
        extent = await feed.load_extent(request.db, request.customer)
        extent.check(begins and begins.number, epoch)
        answer = await READ(replace(request, ids=(extent.newest,)), None, services)
        if begins is not None and begins.number < extent.newest:  # the oldest may have been dropped meanwhile
            (await feed.load_extent(request.db, request.customer)).check(begins.number, epoch)
        return replace(answer, headers=with_vary(answer.headers, "Accept") | extent.headers()), extent

    listing = await listed()
    if WAIT.name not in own or request.method == "HEAD" or not _has_nothing(listing):
        return listing[0]
    return await _awaited(request, own[WAIT.name], listing, listed, services.feed)


def _has_nothing(listing: Listed) -> bool:
    """Whether the list is empty, or one that the client has already."""
    return listing[0].body == b"[]" or listing[0].status == 304


async def _awaited(
    request: Request,
    seconds: int,
    listing: Listed,
    listed: Callable[[], Coroutine[Any, Any, Listed]],
    following: FeedService,
) -> Response:
    """The list once it has changes, or the empty list after `seconds`."""
    follow = request.follow
    if follow is None or request.caller is None:  # a page of the console does not wait
        return listing[0]
    until = asyncio.get_running_loop().time() + seconds
    waiter = LongPoll(request.customer, request.caller.key, await follow.recheck(), follow.recheck)
    following.check(waiter.customer, waiter.caller)
    follow.register(waiter)
    with following.subscribed(waiter) as log:
        while _has_nothing(listing) and await waiter.wait_for_news(log, listing[1], until):
            wanted = (request.customer, request.scope, log.extent, request.query, request.if_none_match)
            listing = await following.run_shared(wanted, listed)
            if listing[0].parts is not None:  # a streamed body can be read only once
                listing = await listed()
    await follow.recheck()  # the caller may have lost its access meanwhile
    return listing[0]


async def _stream(
    request: Request,
    follow: FollowContext,
    epoch: UUID | None,
    begins: odata.FilterCursor | None,
    following: FeedService,
) -> Response:
    """Stream the changes after a number or the client's last event id; without either, from the oldest on."""
    _check_options(request, begins)
    if not request.chunks:
        raise BadRequest(OLD_HTTP)
    if follow.last_event_id == GONE:  # 204 keeps a browser from reconnecting (HTML, section 9.2.3)
        return NO_CONTENT
    extent = await feed.load_extent(request.db, request.customer)
    place = (epoch, extent.oldest - 1 if begins is None else begins.number)
    if follow.last_event_id is not None:
        place = place_of(follow.last_event_id)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Vary": "Accept", **extent.headers()}
    if place is None or not extent.has(place[1], place[0]):
        return Response(200, cursor_expired_event(extent), headers, EVENTS)
    if request.method == "HEAD" or request.caller is None:
        return Response(200, None, headers, EVENTS, list_responses.empty_body())
    until = await follow.recheck()
    following.check(request.customer, request.caller.key)
    at = (place[0] or extent.epoch, place[1])
    stream = FeedFollower(following, request.customer, request.caller.key, until, follow.recheck, at)
    return Response(200, None, headers, EVENTS, stream)


def _check_options(request: Request, begins: odata.FilterCursor | None) -> None:
    """Raise `BadRequest` for options of lists: a stream has the same bytes for all subscribers."""
    for name, _ in parse_qsl(request.query.decode(), keep_blank_values=True):
        option = odata.option_name(name)
        if option in NOT_STREAMED or (option == "filter" and (begins is None or not begins.alone)):
            raise BadRequest(NOT_OF_STREAMS, errors=[FieldError("not-supported", NOT_OF_STREAMS.text, parameter=name)])
