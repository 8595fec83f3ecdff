"""The client for threads, and its resources."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

import httpx

from . import _types as t
from . import operations as ops
from ._core import (
    PAGE_SIZE,
    BodyReader,
    Core,
    Flow,
    ListOptions,
    Options,
    Query,
    Renew,
    Sleep,
    parse_position,
    patch_of,
    position,
    read_environment,
    reject_unknown,
)
from ._errors import KeyrackError
from ._operation import Answer, Body, Operation

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import Self, Unpack

Result = TypeVar("Result")
Row = TypeVar("Row")
BuiltinList = list  # inside a resource, `list` is its method


class Keyrack:
    """A client of one customer, for one or many threads. `AsyncKeyrack` is the one for asyncio."""

    def __init__(self, url: str, *, http: httpx.Client | None = None, **options: Unpack[Options]) -> None:
        self.core = Core(url, **options)
        self._given_http = http
        self._open()
        self.cars = Cars(self)
        self.users = Users(self)
        self.products = Products(self)
        self.groups = Groups(self)
        self.assignments = Assignments(self)
        self.operations = Operations(self)
        self.events = Events(self)
        self.webhooks = Webhooks(self)

    @classmethod
    def from_env(cls, *, http: httpx.Client | None = None) -> Self:
        """Make a client from `KEYRACK_URL`, `_API_KEY`, `_CLIENT_ID`, `_CLIENT_SECRET` and `_CUSTOMER_ID`."""
        url, options = read_environment()
        return cls(url, http=http, **options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.core!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, unless the HTTP client was given."""
        if self._given_http is None:
            self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Query | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> httpx.Response:
        """Send any request, with token, key and retries. Raises `ApiError` and `NoAnswer`."""
        flow = self.core.request(method, path, json=json, params=params, key=key, headers=headers, timeout=timeout)
        return self.perform(flow)

    def call(
        self,
        operation: Operation[Body, Answer],
        *ids: int | str,
        body: Body | None = None,
        query: Query | None = None,
        key: str | None = None,
    ) -> Answer:
        """Send the request of a row of `keyrack_client.operations`, and return its answer."""
        return self.perform(self.core.call(operation, *ids, body=body, query=query, key=key))

    def batch(self, body: t.Batch, *, key: str | None = None) -> t.BatchResult:
        """Create, change or delete many resources of one kind. The result has a row for each item."""
        return self.call(ops.runBatch, body=body, key=key)

    def newest_position(self) -> str:
        """Return the position behind the newest change, from which `changes` can follow."""
        return self.perform(self.core.newest())

    def changes(
        self,
        since: str | int | None = None,
        *,
        epoch: str | None = None,
        wait: float | None = 30,
        size: int = PAGE_SIZE,
    ) -> Iterator[tuple[t.Change, str]]:
        """Iterate over the changes after a position, each with its own position to store.

        It waits for new changes forever, or ends after the newest with `wait=None`. Raises `StartOver` if changes after
        the position are not available any more.
        """
        epoch, number = parse_position(since, epoch)
        while True:
            epoch, rows = self.perform(self.core.changes(epoch, number, wait, size))
            for row in rows:
                number = row["id"]
                yield row, position(epoch, number)
            if not rows and not wait:
                return

    def _open(self) -> None:
        """Open connections of this process. Those of its parent stay with the parent."""
        self._process = os.getpid()
        self._renewal = threading.Lock()
        # No limit of idle connections: httpcore closes one under a thread that has just received it
        limits = httpx.Limits(max_connections=100)
        self._http = self._given_http or httpx.Client(timeout=self.core.timeout, limits=limits)

    def perform(self, flow: Flow[Result]) -> Result:
        """Perform the steps of a flow."""
        if self._process != os.getpid():
            self._open()
        outcome: Any = None
        error: Exception | None = None
        while True:
            try:
                step = flow.send(outcome) if error is None else flow.throw(error)
            except StopIteration as end:
                return cast(Result, end.value)
            outcome = error = None
            try:
                if isinstance(step, Sleep):
                    time.sleep(step.seconds)
                elif isinstance(step, Renew):
                    with self._renewal:
                        self.perform(self.core.renew(step.generation))
                else:
                    # Another address must not get the API key, whatever a given HTTP client does with redirects
                    with self._http.stream(
                        step.method, self.core.url + step.path, content=step.content, headers=step.headers,
                        params=step.params, timeout=step.timeout or self.core.timeout, follow_redirects=False,
                    ) as response:  # fmt: skip
                        reader = BodyReader(response)
                        for part in response.iter_bytes():
                            reader.add(part)
                        outcome = reader.response()
            except (httpx.RequestError, KeyrackError) as caught:
                error = caught


class Pages(Generic[Row]):
    """A list that is read in pages. Iterate over it, or read the `first` row or one `page`."""

    def __init__(
        self, client: Keyrack, operation: Operation[None, list[Row]], options: ListOptions, own: Query | None = None
    ) -> None:
        reject_unknown(options, ListOptions, operation.id)
        self._client = client
        self._path = operation.path
        self._options = options
        self._own = own

    def __iter__(self) -> Generator[Row, None, None]:
        rows = self.page()
        while rows:
            yield from rows
            rows = self.page(after=id_of(rows[-1]))

    def page(self, after: int | str | None = None, size: int | None = None) -> list[Row]:
        """Return the rows after an id, at most `size`. An empty page is the end."""
        size = size or self._options.get("size", PAGE_SIZE)
        return self._client.perform(self._client.core.page(self._path, self._options, after, size, self._own))

    def first(self) -> Row | None:
        """Return the row with the smallest id, or None."""
        return next(iter(self.page(size=1)), None)


def id_of(row: Any) -> int | str:
    return cast("int | str", row["id"])


class Resource:
    """The methods of one resource."""

    def __init__(self, client: Keyrack) -> None:
        self._client = client

    def _submit(
        self, operation: Operation[Any, Any], *ids: int, body: Any, key: str | None, wait: float | None
    ) -> t.Operation:
        return self._client.perform(self._client.core.submit(operation, *ids, body=body, key=key, wait=wait))

    def _update(self, operation: Operation[Any, None], id: int, members: Mapping[str, Any], key: str | None) -> None:
        self._client.perform(self._client.core.call(operation, id, body=patch_of(members), key=key))


class Cars(Resource):
    """Cars."""

    def list(self, **options: Unpack[ListOptions]) -> Pages[t.Car]:
        return Pages(self._client, ops.listCars, options)

    def available(
        self,
        start: datetime | str,
        end: datetime | str,
        *,
        gap: int | None = None,
        box: Literal["ready", "any"] | None = None,
        **options: Unpack[ListOptions],
    ) -> Pages[t.AvailableCar]:
        """List the cars that no exclusive booking blocks from `start` to `end`.

        `gap` are seconds that must be free before and after. It is a suggestion: a booking is decided when it is
        applied.
        """
        own: Query = {"from": start, "to": end, "gap": gap, "box": box}
        return Pages(self._client, ops.listAvailableCars, options, own)

    def get(self, id: int) -> t.Car:
        return self._client.call(ops.getCar, id)

    def create(self, *, key: str | None = None, **body: Unpack[t.NewCar]) -> t.Created:
        return self._client.call(ops.createCar, body=body, key=key)

    def update(self, id: int, *, key: str | None = None, **members: Unpack[t.CarUpdate]) -> None:
        """Change the given properties; None removes a value."""
        self._update(ops.updateCar, id, members, key)

    def delete(self, id: int, *, key: str | None = None) -> None:
        """Delete a car. Its boxes become free, and its assignments end."""
        self._client.call(ops.deleteCar, id, key=key)


class Users(Resource):
    """The users of the customer: the people who can be given a car."""

    def list(self, **options: Unpack[ListOptions]) -> Pages[t.User]:
        return Pages(self._client, ops.listUsers, options)

    def get(self, id: int) -> t.User:
        return self._client.call(ops.getUser, id)

    def create(self, *, key: str | None = None, **body: Unpack[t.NewUser]) -> t.UserCreated:
        """Create a user. Only this answer has a generated password."""
        return self._client.call(ops.createUser, body=body, key=key)

    def add(self, *, key: str | None = None, **body: Unpack[t.SomeUser]) -> None:
        """Add a person to the customer who is a user of another customer."""
        self._client.call(ops.addUserToCustomer, body=body, key=key)

    def update(self, id: int, *, key: str | None = None, **members: Unpack[t.UserUpdate]) -> None:
        """Change the references; None removes a value."""
        self._update(ops.updateUser, id, members, key)

    def remove(self, *, key: str | None = None, **body: Unpack[t.SomeUser]) -> None:
        """Take a user out of the customer. The user's assignments end."""
        self._client.call(ops.removeUserFromCustomer, body=body, key=key)


class Products(Resource):
    """Key boxes and other devices."""

    def list(self, **options: Unpack[ListOptions]) -> Pages[t.ProductListed]:
        return Pages(self._client, ops.listProducts, options)

    def get(self, id: int) -> t.Product:
        return self._client.call(ops.getProduct, id)

    def update(self, id: int, *, key: str | None = None, **members: Unpack[t.ProductUpdate]) -> None:
        """Change the references; None removes a value."""
        self._update(ops.updateProduct, id, members, key)

    def install(self, *, key: str | None = None, **body: Unpack[t.Installation]) -> None:
        """Install a product into a car."""
        self._client.call(ops.installProduct, body=body, key=key)

    def uninstall(self, *, key: str | None = None, **body: Unpack[t.Installation]) -> None:
        """Take a product out of its car. Without a box, the assignments of the car end."""
        self._client.call(ops.uninstallProduct, body=body, key=key)


class Groups(Resource):
    """Groups of cars, users, products and services."""

    def list(self, **options: Unpack[ListOptions]) -> Pages[t.Group]:
        return Pages(self._client, ops.listGroups, options)

    def get(self, id: int) -> t.Group:
        return self._client.call(ops.getGroup, id)

    def create(self, *, key: str | None = None, **body: Unpack[t.NewGroup]) -> t.Created:
        return self._client.call(ops.createGroup, body=body, key=key)

    def update(self, id: int, *, key: str | None = None, **members: Unpack[t.GroupUpdate]) -> None:
        """Change the given properties; None removes a value."""
        self._update(ops.updateGroup, id, members, key)

    def delete(self, id: int, *, key: str | None = None) -> None:
        self._client.call(ops.deleteGroup, id, key=key)

    def add_car(self, id: int, *, key: str | None = None, **body: Unpack[t.CarOfGroup]) -> None:
        self._client.call(ops.addCarToGroup, id, body=body, key=key)

    def remove_car(self, id: int, car_id: int, *, key: str | None = None) -> None:
        self._client.call(ops.removeCarFromGroup, id, car_id, key=key)

    def add_user(self, id: int, *, key: str | None = None, **body: Unpack[t.UserOfGroup]) -> None:
        self._client.call(ops.addUserToGroup, id, body=body, key=key)

    def remove_user(self, id: int, user_id: int, *, key: str | None = None) -> None:
        self._client.call(ops.removeUserFromGroup, id, user_id, key=key)


class Assignments(Resource):
    """Assignments: which user can open which car, and when.

    The server applies each write in order, later. With `wait`, a method waits for the outcome, and raises
    `OutcomeFailed` or `OutcomePending`. With `wait=None` it returns the operation at once.
    """

    def list(self, **options: Unpack[ListOptions]) -> Pages[t.Assignment]:
        return Pages(self._client, ops.listAssignments, options)

    def get(self, id: int) -> t.Assignment:
        return self._client.call(ops.getAssignment, id)

    def create(
        self, *, key: str | None = None, wait: float | None = 10.0, **body: Unpack[t.NewAssignment]
    ) -> t.Operation:
        return self._submit(ops.createAssignment, body=body, key=key, wait=wait)

    def update(
        self, id: int, *, key: str | None = None, wait: float | None = 10.0, **members: Unpack[t.AssignmentUpdate]
    ) -> t.Operation:
        """Change the given properties; None removes a value."""
        return self._submit(ops.updateAssignment, id, body=patch_of(members), key=key, wait=wait)

    def delete(self, id: int, *, key: str | None = None, wait: float | None = 10.0) -> t.Operation:
        """End an assignment."""
        return self._submit(ops.deleteAssignment, id, body=None, key=key, wait=wait)


class Operations(Resource):
    """Accepted requests for assignments, with their outcomes."""

    def list(self, **options: Unpack[ListOptions]) -> Pages[t.Operation]:
        return Pages(self._client, ops.listOperations, options)

    def get(self, id: str) -> t.Operation:
        return self._client.call(ops.getOperation, id)

    def wait(self, id: str, seconds: float = 10.0) -> t.Operation:
        """Wait for the outcome. Raises `OutcomeFailed` and `OutcomePending`."""
        return self._client.perform(self._client.core.outcome(id, seconds, time.monotonic() + seconds))


class Events(Resource):
    """Openings and closings of cars."""

    def list(self, **options: Unpack[ListOptions]) -> Pages[t.Event]:
        return Pages(self._client, ops.listEvents, options)

    def get(self, id: int) -> t.Event:
        return self._client.call(ops.getEvent, id)

    def create(self, *, key: str | None = None, **body: Unpack[t.NewEvent]) -> t.Created:
        return self._client.call(ops.createEvent, body=body, key=key)


class Webhooks(Resource):
    """Addresses that get outcomes and changes. `verify` checks their messages."""

    def list(self, **options: Unpack[ListOptions]) -> Pages[t.Webhook]:
        return Pages(self._client, ops.listWebhooks, options)

    def get(self, id: int) -> t.Webhook:
        return self._client.call(ops.getWebhook, id)

    def create(self, *, key: str | None = None, **body: Unpack[t.NewWebhook]) -> t.WebhookCreated:
        """Register a webhook. Only this answer has the signing secret."""
        return self._client.call(ops.createWebhook, body=body, key=key)

    def update(self, id: int, *, key: str | None = None, **members: Unpack[t.WebhookUpdate]) -> None:
        """Change the given properties; None removes a value."""
        self._update(ops.updateWebhook, id, members, key)

    def delete(self, id: int, *, key: str | None = None) -> None:
        self._client.call(ops.deleteWebhook, id, key=key)

    def test(self, id: int, message: t.TestMessage | None = None, *, key: str | None = None) -> t.Created:
        """Send a test message to the webhook, and return its delivery."""
        return self._client.call(ops.testWebhook, id, body=message, key=key)

    def messages(
        self, id: int, *, wait: int | None = None, after: int | None = None, top: int | None = None
    ) -> BuiltinList[t.WaitingMessage]:
        """Return the waiting messages of a pull webhook. `wait` is a long poll of up to 60 seconds."""
        query: Query = {"wait": wait, "after": after, "top": top}
        return self._client.call(ops.listMessagesOfWebhook, id, query=query)

    def acknowledge(self, id: int, *, key: str | None = None, **body: Unpack[t.Acknowledgement]) -> t.Acknowledged:
        """Remove the processed messages of a pull webhook, up to a number."""
        return self._client.call(ops.acknowledgeMessagesOfWebhook, id, body=body, key=key)

    def rotate_secret(self, id: int, *, key: str | None = None) -> t.SecretRotated:
        """Give the webhook another signing secret. Both are valid for a while."""
        return self._client.call(ops.rotateWebhookSecret, id, key=key)
