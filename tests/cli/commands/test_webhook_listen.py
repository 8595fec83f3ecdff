"""`keyrack webhook listen --forward-to` and `trigger`: messages without an open port, in separate processes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook
from typer.testing import CliRunner

from keyrack.cli import webhook_listener
from keyrack.cli.main import application
from tests.support.people import Person, Town, done
from tests.support.servers import Process, RunningServer, eventually
from tests.webhooks.receiver import Receiver


@dataclass
class Shell:
    """A logged-in caller of the API, with its own profiles."""

    env: dict[str, str]

    def run(self, *arguments: object) -> tuple[int, str, str]:
        words = ["webhook", *map(str, arguments)]
        result = CliRunner(env=self.env).invoke(application("webhook"), words)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    def json(self, *arguments: object) -> Any:
        code, output, errors = self.run(*arguments, "--json")
        assert code == 0, errors
        return json.loads(output)

    def refused(self, *arguments: object) -> str:
        code, _, errors = self.run(*arguments)
        assert code != 0 and errors.startswith("keyrack: "), (code, errors)
        return errors

    def listen(self, *arguments: str) -> Listening:
        return Listening(Process("webhook", "listen", *arguments, "--json", env=self.env))


class Listening:
    """A running listener, and the first line of its output."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.begun = self.line()

    def line(self) -> dict[str, Any]:
        out: Any = self.process.popen.stdout
        text = out.readline()
        assert text, self.process.popen.communicate()[1]
        return json.loads(text)

    def kill(self) -> None:
        self.process.popen.send_signal(signal.SIGKILL)
        self.process.popen.communicate()


@pytest.fixture
def shell(alice: Person, server: RunningServer, tmp_path: Path) -> Iterator[Shell]:
    env = {
        "XDG_CONFIG_HOME": str(tmp_path),
        "KEYRACK_URL": f"{server.url}/v3",
        "KEYRACK_API_KEY": alice.api_key,
        "KEYRACK_USERNAME": alice.username,
        "KEYRACK_PASSWORD": alice.password,
        "KEYRACK_CUSTOMER_ID": str(alice.customer),
        "COLUMNS": "200",
    }
    result = CliRunner(env=env).invoke(application("login"), ["login", "--json"])
    assert result.exit_code == 0, result.output
    yield Shell(env)
    for row in alice.get("/webhooks").json():
        alice.delete(f"/webhooks/{row['id']}")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(lambda _: (204, b"", {})) as running:
        yield running


def change(person: Person, car: int, description: str) -> None:
    done(person.patch(f"/cars/{car}", [{"op": "replace", "path": "/description", "value": description}]))


def test_messages_are_forwarded_and_the_secret_stays(shell: Shell, alice: Person, receiver: Receiver) -> None:
    car = alice.car()
    listening = shell.listen("--kind", "car.updated", "--forward-to", receiver.url + "/hook")
    secret = listening.begun["signingSecret"]
    assert "is running" in shell.refused("listen", "--pull")
    change(alice, car, "Red")
    line = listening.line()
    assert (line["type"], line["status"], line["acknowledged"]) == ("car.updated", 204, True)
    at = f"/webhooks/{listening.begun['id']}"
    eventually(lambda: alice.get(at).json()["waiting"] == 0, "the acknowledgement")
    listening.kill()

    change(alice, car, "Blue")  # while no process listens
    again = shell.listen("--forward-to", receiver.url + "/hook", "--count", "1")
    assert (again.begun["id"], again.begun["signingSecret"]) == (listening.begun["id"], None)
    assert again.line()["status"] == 204
    assert again.process.popen.wait(60) == 0
    again.process.popen.communicate()

    bodies = [request.payload["data"]["after"] for request in receiver.messages()]
    assert bodies == [{"description": "Red"}, {"description": "Blue"}]
    for request in receiver.of("/hook"):
        Webhook(secret).verify(request.body, request.headers)
        assert request.headers["content-type"] == "application/json"
    row = alice.get(f"/webhooks/{again.begun['id']}").json()
    assert (row["kinds"], row["deleteUnusedAfterDays"], row["waiting"]) == (["car.updated"], 7, 0)
    assert shell.json("listen", "--remove") == {"id": row["id"]}
    assert "There is no webhook" in shell.refused("listen", "--remove")


def test_a_killed_listener_loses_no_message(shell: Shell, alice: Person, receiver: Receiver) -> None:
    car = alice.car()
    answers = iter([503, 204, 204, 503, 204])
    receiver.answer = lambda _: (next(answers, 204), b"", {})
    listening = shell.listen("--kind", "car.updated", "--forward-to", receiver.url)
    for number in range(12):
        change(alice, car, f"Number {number}")
    for count in (2, 5, 9):
        eventually(lambda wanted=count: len(receiver.messages()) >= wanted, f"{count} messages")
        listening.kill()
        listening = shell.listen("--forward-to", receiver.url)
    eventually(lambda: alice.get(f"/webhooks/{listening.begun['id']}").json()["waiting"] == 0, "all messages")
    listening.kill()
    delivered = [request.payload["data"]["after"]["description"] for request in receiver.messages()]
    assert delivered == [f"Number {number}" for number in range(12)]


def test_a_message_waits_for_a_receiver_that_is_down(shell: Shell, alice: Person) -> None:
    with Receiver() as gone:
        url = gone.url
    listening = shell.listen("--kind", "car.updated", "--forward-to", url)
    change(alice, alice.car(), "Green")
    line = listening.line()
    assert (line["status"], line["acknowledged"]) == (None, False)
    assert "no answer" in line["error"]
    assert alice.get(f"/webhooks/{listening.begun['id']}").json()["waiting"] == 1
    listening.kill()


def test_without_a_receiver_the_messages_are_printed(shell: Shell, alice: Person) -> None:
    listening = shell.listen("--kind", "car.updated", "--count", "1")
    change(alice, alice.car(), "White")
    message = listening.line()
    Webhook(listening.begun["signingSecret"]).verify(message["body"], message["headers"])
    assert listening.process.popen.wait(60) == 0
    listening.process.popen.communicate()
    assert alice.get(f"/webhooks/{listening.begun['id']}").json()["waiting"] == 0


def test_errors_are_one_sentence(shell: Shell, alice: Person, town: Town) -> None:
    assert "is not an address" in shell.refused("listen", "--forward-to", "localhost:3000")
    assert "--port is for a local port" in shell.refused("listen", "--pull", "--port", "4000")
    assert "is not logged in" in shell.refused("listen", "--pull", "--profile", "nobody")
    assert "Did you mean" in shell.refused("listen", "--kind", "car.update")
    viewer = town.colleague(alice, "viewer", "Viewer")
    env = shell.env | {"KEYRACK_USERNAME": viewer.username, "KEYRACK_PASSWORD": viewer.password}
    CliRunner(env=env).invoke(application("login"), ["login", "--profile", "viewer"])
    assert "403" in Shell(env).refused("listen", "--pull", "--profile", "viewer")


def test_a_test_of_an_event_type_goes_to_one_webhook(shell: Shell, alice: Person, receiver: Receiver) -> None:
    assert "--webhook ID" in shell.refused("trigger", "assignment.created")
    made = alice.put("/webhooks", {"pull": True, "name": webhook_listener.name_of("default")}).json()
    shell.json("trigger", "assignment.created", "--set", "carId=7", "--set", "end=2036-01-01T00:00:00Z")
    shell.json("trigger", "car.updated", "--webhook", made["id"])
    outcome, updated = [json.loads(row["body"]) for row in alice.get(f"/webhooks/{made['id']}/messages").json()]
    assert (outcome["type"], outcome["test"], outcome["carId"]) == ("assignment.created", True, 7)
    assert outcome["operationId"] == "00000000-0000-0000-0000-000000000000"
    assert (outcome["customerId"], outcome["end"]) == (alice.customer, "2036-01-01T00:00:00Z")
    assert (updated["type"], updated["test"], updated["data"]["kind"]) == ("car.updated", True, "car.updated")
    mistake = shell.refused("trigger", "assignment.create")
    assert mistake.endswith("Did you mean 'assignment.created'?\n"), "a question has no full stop after it"
    assert "Did you mean 'carId'" in shell.refused("trigger", "assignment.created", "--set", "carid=7")
    assert "must have the type" in shell.refused("trigger", "assignment.created", "--set", "carId=x")
    assert "such as carId=7" in shell.refused("trigger", "assignment.created", "--set", "carId")

    pushed = alice.put("/webhooks", {"url": receiver.url}).json()
    assert "Add --yes" in shell.refused("trigger", "assignment.created", "--webhook", pushed["id"])
    assert receiver.got == []
    shell.json("trigger", "assignment.created", "--webhook", pushed["id"], "--yes")
    (request,) = eventually(lambda: receiver.got, "the test")
    assert request.payload["test"] is True
    Webhook(pushed["signingSecret"]).verify(request.body, request.headers)


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"", None), (b"{}", "application/json"), (b"[]", "application/json"), (b"null", "application/json"),
        (b"not json", "text/plain"), (b"type=car.updated", "application/x-www-form-urlencoded"),
        (b"\xff\xfe", "application/octet-stream"), (b'{"kind": "car.updated"}', "application/json"),
        (b'{"type": "nothing"' + b" " * 100_000 + b"}", "application/json"), (b"[" * 60_000, "application/json"),
    ],
)  # fmt: skip
def test_other_bodies_of_a_test_are_ignored(alice: Person, content: bytes, media_type: str | None) -> None:
    made = alice.put("/webhooks", {"pull": True}).json()["id"]
    headers = {} if media_type is None else {"Content-Type": media_type}
    answer = alice.post(f"/webhooks/{made}/test", content=content, headers=headers)
    assert answer.status_code == 201
    (message,) = alice.get(f"/webhooks/{made}/messages").json()
    assert message["type"] == "webhook.test" and "test" not in json.loads(message["body"])
    alice.delete(f"/webhooks/{made}")
