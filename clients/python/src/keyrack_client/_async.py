"""The client for asyncio, and its resources."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
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


class AsyncKeyrack:
    """A client of one customer, for one event loop of asyncio. `Keyrack` is the one for threads."""

    def __init__(self, url: str, *, http: httpx.AsyncClient | None = None, **options: Unpack[Options]) -> None:
        self.core = Core(url, **options)
        self._given_http = http
        self._renewal = asyncio.Lock()
        self._http = http or httpx.AsyncClient(timeout=self.core.timeout, limits=httpx.Limits(max_connections=100))
        self.cars = AsyncCars(self)
        self.users = AsyncUsers(self)
        self.products = AsyncProducts(self)
        self.groups = AsyncGroups(self)
        self.assignments = AsyncAssignments(self)
        self.operations = AsyncOperations(self)
        self.events = AsyncEvents(self)
        self.webhooks = AsyncWebhooks(self)

    @classmethod
    def from_env(cls, *, http: httpx.AsyncClient | None = None) -> Self:
        """Make a client from `KEYRACK_URL`, `_API_KEY`, `_CLIENT_ID`, `_CLIENT_SECRET` and `_CUSTOMER_ID`."""
        url, options = read_environment()
        return cls(url, http=http, **options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.core!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections, unless the HTTP client was given."""
        if self._given_http is None:
            await self._http.aclose()

    async def request(
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
        return await self.perform(flow)

    async def call(
        self,
        operation: Operation[Body, Answer],
        *ids: int | str,
        body: Body | None = None,
        query: Query | None = None,
        key: str | None = None,
    ) -> Answer:
        """Send the request of a row of `keyrack_client.operations`, and return its answer."""
        return await self.perform(self.core.call(operation, *ids, body=body, query=query, key=key))

    async def batch(self, body: t.Batch, *, key: str | None = None) -> t.BatchResult:
        """Create, change or delete many resources of one kind. The result has a row for each item."""
        return await self.call(ops.runBatch, body=body, key=key)

    async def newest_position(self) -> str:
        """Return the position behind the newest change, from which `changes` can follow."""
        return await self.perform(self.core.newest())

    async def changes(
        self,
        since: str | int | None = None,
        *,
        epoch: str | None = None,
        wait: float | None = 30,
        size: int = PAGE_SIZE,
    ) -> AsyncIterator[tuple[t.Change, str]]:
        """Iterate over the changes after a position, each with its own position to store.

        It waits for new changes forever, or ends after the newest with `wait=None`. Raises `StartOver` if changes after
        the position are not available any more.
        """
        epoch, number = parse_position(since, epoch)
        while True:
            epoch, rows = await self.perform(self.core.changes(epoch, number, wait, size))
            for row in rows:
                number = row["id"]
                yield row, position(epoch, number)
            if not rows and not wait:
                return

    async def perform(self, flow: Flow[Result]) -> Result:
        """Perform the steps of a flow."""
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
                    await asyncio.sleep(step.seconds)
                elif isinstance(step, Renew):
                    async with self._renewal:
                        await self.perform(self.core.renew(step.generation))
                else:
                    # Another address must not get the API key, whatever a given HTTP client does with redirects
                    async with self._http.stream(
                        step.method, self.core.url + step.path, content=step.content, headers=step.headers,
                        params=step.params, timeout=step.timeout or self.core.timeout, follow_redirects=False,
                    ) as response:  # fmt: skip
                        reader = BodyReader(response)
                        async for part in response.aiter_bytes():
                            reader.add(part)
                        outcome = reader.response()
            except (httpx.RequestError, KeyrackError) as caught:
                error = caught


class AsyncPages(Generic[Row]):
    """A list that is read in pages. Iterate over it, or read the `first` row or one `page`."""

    def __init__(
        self,
        client: AsyncKeyrack,
        operation: Operation[None, list[Row]],
        options: ListOptions,
        own: Query | None = None,
    ) -> None:
        reject_unknown(options, ListOptions, operation.id)
        self._client = client
        self._path = operation.path
        self._options = options
        self._own = own

    async def __aiter__(self) -> AsyncGenerator[Row, None]:
        rows = await self.page()
        while rows:
            for row in rows:
                yield row
            rows = await self.page(after=id_of(rows[-1]))

    async def page(self, after: int | str | None = None, size: int | None = None) -> list[Row]:
        """Return the rows after an id, at most `size`. An empty page is the end."""
        size = size or self._options.get("size", PAGE_SIZE)
        return await self._client.perform(self._client.core.page(self._path, self._options, after, size, self._own))

    async def first(self) -> Row | None:
        """Return the row with the smallest id, or None."""
        return next(iter(await self.page(size=1)), None)


def id_of(row: Any) -> int | str:
    return cast("int | str", row["id"])


class AsyncResource:
    """The methods of one resource."""

    def __init__(self, client: AsyncKeyrack) -> None:
        self._client = client

    async def _submit(
        self, operation: Operation[Any, Any], *ids: int, body: Any, key: str | None, wait: float | None
    ) -> t.Operation:
        return await self._client.perform(self._client.core.submit(operation, *ids, body=body, key=key, wait=wait))

    async def _update(
        self, operation: Operation[Any, None], id: int, members: Mapping[str, Any], key: str | None
    ) -> None:
        await self._client.perform(self._client.core.call(operation, id, body=patch_of(members), key=key))


class AsyncCars(AsyncResource):
    """Cars."""

    def list(self, **options: Unpack[ListOptions]) -> AsyncPages[t.Car]:
        return AsyncPages(self._client, ops.listCars, options)

    def available(
        self,
        start: datetime | str,
        end: datetime | str,
        *,
        gap: int | None = None,
        box: Literal["ready", "any"] | None = None,
        **options: Unpack[ListOptions],
    ) -> AsyncPages[t.AvailableCar]:
        """List the cars that no exclusive booking blocks from `start` to `end`.

        `gap` are seconds that must be free before and after. It is a suggestion: a booking is decided when it is
        applied.
        """
        own: Query = {"from": start, "to": end, "gap": gap, "box": box}
        return AsyncPages(self._client, ops.listAvailableCars, options, own)

    async def get(self, id: int) -> t.Car:
        return await self._client.call(ops.getCar, id)

    async def create(self, *, key: str | None = None, **body: Unpack[t.NewCar]) -> t.Created:
        return await self._client.call(ops.createCar, body=body, key=key)

    async def update(self, id: int, *, key: str | None = None, **members: Unpack[t.CarUpdate]) -> None:
        """Change the given properties; None removes a value."""
        await self._update(ops.updateCar, id, members, key)

    async def delete(self, id: int, *, key: str | None = None) -> None:
        """Delete a car. Its boxes become free, and its assignments end."""
        await self._client.call(ops.deleteCar, id, key=key)


class AsyncUsers(AsyncResource):
    """The users of the customer: the people who can be given a car."""

    def list(self, **options: Unpack[ListOptions]) -> AsyncPages[t.User]:
        return AsyncPages(self._client, ops.listUsers, options)

    async def get(self, id: int) -> t.User:
        return await self._client.call(ops.getUser, id)

    async def create(self, *, key: str | None = None, **body: Unpack[t.NewUser]) -> t.UserCreated:
        """Create a user. Only this answer has a generated password."""
        return await self._client.call(ops.createUser, body=body, key=key)

    async def add(self, *, key: str | None = None, **body: Unpack[t.SomeUser]) -> None:
        """Add a person to the customer who is a user of another customer."""
        await self._client.call(ops.addUserToCustomer, body=body, key=key)

    async def update(self, id: int, *, key: str | None = None, **members: Unpack[t.UserUpdate]) -> None:
        """Change the references; None removes a value."""
        await self._update(ops.updateUser, id, members, key)

    async def remove(self, *, key: str | None = None, **body: Unpack[t.SomeUser]) -> None:
        """Take a user out of the customer. The user's assignments end."""
        await self._client.call(ops.removeUserFromCustomer, body=body, key=key)


class AsyncProducts(AsyncResource):
    """Key boxes and other devices."""

    def list(self, **options: Unpack[ListOptions]) -> AsyncPages[t.ProductListed]:
        return AsyncPages(self._client, ops.listProducts, options)

    async def get(self, id: int) -> t.Product:
        return await self._client.call(ops.getProduct, id)

    async def update(self, id: int, *, key: str | None = None, **members: Unpack[t.ProductUpdate]) -> None:
        """Change the references; None removes a value."""
        await self._update(ops.updateProduct, id, members, key)

    async def install(self, *, key: str | None = None, **body: Unpack[t.Installation]) -> None:
        """Install a product into a car."""
        await self._client.call(ops.installProduct, body=body, key=key)

    async def uninstall(self, *, key: str | None = None, **body: Unpack[t.Installation]) -> None:
        """Take a product out of its car. Without a box, the assignments of the car end."""
        await self._client.call(ops.uninstallProduct, body=body, key=key)


class AsyncGroups(AsyncResource):
    """Groups of cars, users, products and services."""

    def list(self, **options: Unpack[ListOptions]) -> AsyncPages[t.Group]:
        return AsyncPages(self._client, ops.listGroups, options)

    async def get(self, id: int) -> t.Group:
        return await self._client.call(ops.getGroup, id)

    async def create(self, *, key: str | None = None, **body: Unpack[t.NewGroup]) -> t.Created:
        return await self._client.call(ops.createGroup, body=body, key=key)

    async def update(self, id: int, *, key: str | None = None, **members: Unpack[t.GroupUpdate]) -> None:
        """Change the given properties; None removes a value."""
        await self._update(ops.updateGroup, id, members, key)

    async def delete(self, id: int, *, key: str | None = None) -> None:
        await self._client.call(ops.deleteGroup, id, key=key)

    async def add_car(self, id: int, *, key: str | None = None, **body: Unpack[t.CarOfGroup]) -> None:
        await self._client.call(ops.addCarToGroup, id, body=body, key=key)

    async def remove_car(self, id: int, car_id: int, *, key: str | None = None) -> None:
        await self._client.call(ops.removeCarFromGroup, id, car_id, key=key)

    async def add_user(self, id: int, *, key: str | None = None, **body: Unpack[t.UserOfGroup]) -> None:
        await self._client.call(ops.addUserToGroup, id, body=body, key=key)

    async def remove_user(self, id: int, user_id: int, *, key: str | None = None) -> None:
        await self._client.call(ops.removeUserFromGroup, id, user_id, key=key)


class AsyncAssignments(AsyncResource):
    """Assignments: which user can open which car, and when.

    The server applies each write in order, later. With `wait`, a method waits for the outcome, and raises
    `OutcomeFailed` or `OutcomePending`. With `wait=None` it returns the operation at once.
    """

    def list(self, **options: Unpack[ListOptions]) -> AsyncPages[t.Assignment]:
        return AsyncPages(self._client, ops.listAssignments, options)

    async def get(self, id: int) -> t.Assignment:
        return await self._client.call(ops.getAssignment, id)

    async def create(
        self, *, key: str | None = None, wait: float | None = 10.0, **body: Unpack[t.NewAssignment]
    ) -> t.Operation:
        return await self._submit(ops.createAssignment, body=body, key=key, wait=wait)

    async def update(
        self, id: int, *, key: str | None = None, wait: float | None = 10.0, **members: Unpack[t.AssignmentUpdate]
    ) -> t.Operation:
        """Change the given properties; None removes a value."""
        return await self._submit(ops.updateAssignment, id, body=patch_of(members), key=key, wait=wait)

    async def delete(self, id: int, *, key: str | None = None, wait: float | None = 10.0) -> t.Operation:
        """End an assignment."""
        return await self._submit(ops.deleteAssignment, id, body=None, key=key, wait=wait)


class AsyncOperations(AsyncResource):
    """Accepted requests for assignments, with their outcomes."""

    def list(self, **options: Unpack[ListOptions]) -> AsyncPages[t.Operation]:
        return AsyncPages(self._client, ops.listOperations, options)

    async def get(self, id: str) -> t.Operation:
        return await self._client.call(ops.getOperation, id)

    async def wait(self, id: str, seconds: float = 10.0) -> t.Operation:
        """Wait for the outcome. Raises `OutcomeFailed` and `OutcomePending`."""
        return await self._client.perform(self._client.core.outcome(id, seconds, time.monotonic() + seconds))


class AsyncEvents(AsyncResource):
    """Openings and closings of cars."""

    def list(self, **options: Unpack[ListOptions]) -> AsyncPages[t.Event]:
        return AsyncPages(self._client, ops.listEvents, options)

    async def get(self, id: int) -> t.Event:
        return await self._client.call(ops.getEvent, id)

    async def create(self, *, key: str | None = None, **body: Unpack[t.NewEvent]) -> t.Created:
        return await self._client.call(ops.createEvent, body=body, key=key)


class AsyncWebhooks(AsyncResource):
    """Addresses that get outcomes and changes. `verify` checks their messages."""

    def list(self, **options: Unpack[ListOptions]) -> AsyncPages[t.Webhook]:
        return AsyncPages(self._client, ops.listWebhooks, options)

    async def get(self, id: int) -> t.Webhook:
        return await self._client.call(ops.getWebhook, id)

    async def create(self, *, key: str | None = None, **body: Unpack[t.NewWebhook]) -> t.WebhookCreated:
        """Register a webhook. Only this answer has the signing secret."""
        return await self._client.call(ops.createWebhook, body=body, key=key)

    async def update(self, id: int, *, key: str | None = None, **members: Unpack[t.WebhookUpdate]) -> None:
        """Change the given properties; None removes a value."""
        await self._update(ops.updateWebhook, id, members, key)

    async def delete(self, id: int, *, key: str | None = None) -> None:
        await self._client.call(ops.deleteWebhook, id, key=key)

    async def test(self, id: int, message: t.TestMessage | None = None, *, key: str | None = None) -> t.Created:
        """Send a test message to the webhook, and return its delivery."""
        return await self._client.call(ops.testWebhook, id, body=message, key=key)

    async def messages(
        self, id: int, *, wait: int | None = None, after: int | None = None, top: int | None = None
    ) -> BuiltinList[t.WaitingMessage]:
        """Return the waiting messages of a pull webhook. `wait` is a long poll of up to 60 seconds."""
        query: Query = {"wait": wait, "after": after, "top": top}
        return await self._client.call(ops.listMessagesOfWebhook, id, query=query)

    async def acknowledge(
        self, id: int, *, key: str | None = None, **body: Unpack[t.Acknowledgement]
    ) -> t.Acknowledged:
        """Remove the processed messages of a pull webhook, up to a number."""
        return await self._client.call(ops.acknowledgeMessagesOfWebhook, id, body=body, key=key)

    async def rotate_secret(self, id: int, *, key: str | None = None) -> t.SecretRotated:
        """Give the webhook another signing secret. Both are valid for a while."""
        return await self._client.call(ops.rotateWebhookSecret, id, key=key)
