"""A car-sharing company: 200 cars, 300 users, 500 bookings, a receiver that fails at first, and a reconciliation."""

import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from keyrack_client import InvalidSignature, Keyrack, types, verify

CARS, USERS, BOOKINGS, FAILURES = 200, 300, 500, 20
RUN, DAY = uuid.uuid4().hex[:8], datetime.now(timezone.utc) + timedelta(days=1)
outcomes: set[str] = set()  # the operations whose outcome was received
complete = threading.Event()


class Receiver(BaseHTTPRequestHandler):
    secret, left = "", FAILURES  # `left` deliveries get 500

    def do_POST(self) -> None:
        status, body = 401, self.rfile.read(int(self.headers["Content-Length"]))
        try:
            outcome = verify(dict(self.headers.items()), body, Receiver.secret)
            Receiver.left -= 1
            status = 500 if Receiver.left >= 0 else 204
            outcomes.update([outcome["operationId"]] if status == 204 else [])
        except InvalidSignature as error:
            print(error)
        self.send_response(status)
        self.end_headers()
        if len(outcomes) == BOOKINGS:
            complete.set()


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
with Keyrack.from_env() as keyrack, ThreadPoolExecutor(8) as threads:
    start = keyrack.newest_position()
    webhook = keyrack.webhooks.create(url=f"http://127.0.0.1:{server.server_port}/", kinds=["assignment.created"])
    Receiver.secret = webhook["signingSecret"]
    items: list[types.CarCreation | types.CarChange | types.End]
    items = [{"op": "create", "body": {"name": f"Car {n}"}} for n in range(CARS)]
    cars = [row.get("id") or 0 for row in keyrack.batch({"kind": "cars", "items": items})["results"]]
    boxes = keyrack.products.list(filter="car/id eq null and service/isTerminated eq false")
    for car, box in zip(cars, boxes, strict=False):
        keyrack.products.install(carId=car, productId=box["id"])

    def add(n: int) -> int:
        name: types.UserData = {"firstName": "Kim", "lastName": f"Doe {n}"}
        return keyrack.users.create(emailAddress=f"{RUN}.{n}@example.org", userData=name)["id"]

    def book(n: int) -> str:
        car, user, begin = cars[n % CARS], users[n % USERS], DAY + timedelta(hours=n // CARS)
        end = begin + timedelta(hours=1)
        return keyrack.assignments.create(carId=car, userId=user, start=begin, end=end, key=f"{RUN}-{n}", wait=60)["id"]

    users = list(threads.map(add, range(USERS)))
    booked = set(threads.map(book, [*range(BOOKINGS), *range(0, BOOKINGS, 25)]))  # each 25th is asked for twice
    complete.wait(600)
    kinds: Counter[str] = Counter()
    for change, _ in keyrack.changes(start):
        kinds[change["kind"]] += 1
        if kinds["assignment.created"] == BOOKINGS:
            break
    print(len(booked), "booked, outcomes missing or foreign:", len(booked ^ outcomes))
    print(dict(kinds))
    keyrack.webhooks.delete(webhook["id"])
