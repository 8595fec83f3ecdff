"""Live updates: a stream of the topics whose lists have changed. An extension."""

from __future__ import annotations

from keyrack.api import list_responses, scoped_stream
from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Doc, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.event_stream import EVENTS, FULL, FULL_OF_CALLER, FULL_OF_CUSTOMER, NEEDS, EventStream
from keyrack.api.exchange import Request, Response
from keyrack.api.permissions import Permission
from keyrack.api.query_parameters import INVALID, QueryParameter, parse_parameters
from keyrack.api.scoped_stream import ScopedEventStream
from keyrack.changelog.services import LiveServices
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import BadRequest
from keyrack.db.change_notifier import TOPICS, Topic

endpoints = Endpoints[LiveServices](
    Tag("Live updates", "Notifications of changes as they happen."),
    CustomerAuth(
        Permission.LIVE_READ,
        is_group_scoped=True,
        conditional={f"the topic `{topic}`": permission for topic, permission in NEEDS.items()},
    ),
    is_extension=True,
)

OLD_HTTP = ErrorCode(
    "http-too-old",
    "A live stream requires HTTP/1.1.",
    "Use HTTP/1.1 in the client and in each proxy; for nginx, set `proxy_http_version 1.1`.",
)


def requested_topics(text: str) -> frozenset[Topic]:
    """Parse a list of topics. Raises `ValueError`."""
    names = {name.strip() for name in text.split(",")}
    if not names <= set(TOPICS):
        raise ValueError(f"The valid topics are {', '.join(TOPICS)}. Separate several topics by commas.")
    return frozenset(topic for topic in TOPICS if topic in names)


ONLY = QueryParameter(
    "topics",
    requested_topics,
    "Comma-separated topics. Default: all.",
    {"type": "string", "examples": ["cars,operations"]},
    TOPICS,
)


def _permitted(request: Request, named: frozenset[Topic] | None) -> frozenset[Topic]:
    """The topics of the stream: the named ones, or all that the caller may read. Raises `NotPermitted`."""
    caller = request.caller
    missing = [topic for topic in TOPICS if caller is None or not caller.may(NEEDS[topic], request.customer)]
    for topic in named or ():
        request.permit(NEEDS[topic])
    return (named or frozenset(TOPICS)).difference(missing)


@endpoints.get(
    "/live",
    Doc(
        "streamChanges",
        "Stream the topics that have changed",
        "A stream of server-sent events (text/event-stream). Each event names a changed topic without its new"
        " content, so read the data again. `Last-Event-ID` resumes a stream.",
    ),
    responses=Responses(
        200,
        headers={
            "Last-Event-ID": (
                "The position at which the stream begins. A stream that resumes with it receives all later events."
            )
        },
        errors={
            400: (INVALID, OLD_HTTP),
            429: (FULL_OF_CUSTOMER, FULL_OF_CALLER),
            503: (FULL,),
        },
        media_type=EVENTS,
    ),
    query_parameters=(ONLY,),
    is_primary_only=True,
)
async def live(request: Request, services: LiveServices) -> Response:
    topics = _permitted(request, parse_parameters(request.query, (ONLY,)).get(ONLY.name))
    if not request.chunks:
        raise BadRequest(OLD_HTTP)
    position = services.event_hub.current_id(request.customer) if request.scope is None else scoped_stream.ID
    # Proxies must neither buffer (`X-Accel-Buffering` is nginx's header for that) nor cache the stream
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Last-Event-ID": position}
    if request.method == "HEAD" or request.follow is None:  # a console page only asks for its position
        return Response(200, None, headers, EVENTS, list_responses.empty_body())
    hub, follow = services.event_hub, request.follow
    until = await follow.recheck()
    hub.check(request.customer, request.caller_key)  # no await follows until the subscription counts
    of = (hub, request.customer, request.caller_key, topics)
    if request.scope is None:
        stream = EventStream(*of, follow.last_event_id, until, follow.recheck)
    else:
        stream = ScopedEventStream(*of, services.settings.live_scoped_interval_seconds, until, follow.recheck)
    return Response(200, None, headers, EVENTS, stream)
