"""Calls of the API from the command line: login, requests, lists and events."""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from keyrack.cli.main import application
from tests.support.people import PASSWORD, Person
from tests.support.servers import Process, RunningServer
from tests.support.terminal import seen


@dataclass
class Caller:
    """A caller of the API, in a shell with these variables."""

    env: dict[str, str]

    def run(self, *arguments: object, stdin: str = "", **env: str) -> tuple[int, str, str]:
        words = [str(argument) for argument in arguments]
        result = CliRunner(env=self.env | env).invoke(application(words[0]), words, stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    def json(self, *arguments: object, **options: Any) -> Any:
        code, output, errors = self.run(*arguments, **options)
        assert code == 0, errors
        return json.loads(output)

    def refused(self, *arguments: object, status: int = 1, **options: Any) -> str:
        code, _, errors = self.run(*arguments, **options)
        assert (code, errors.count("\n"), errors[:9]) == (status, 1, "keyrack: "), (code, errors)
        return errors


@pytest.fixture(scope="module")
def caller(alice: Person, server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Caller:
    """The variables of `demo.env`."""
    return Caller(
        {
            "XDG_CONFIG_HOME": str(tmp_path_factory.mktemp("config")),
            "KEYRACK_URL": f"{server.url}/v3",
            "KEYRACK_API_KEY": alice.api_key,
            "KEYRACK_USERNAME": alice.username,
            "KEYRACK_PASSWORD": alice.password,
            "KEYRACK_CUSTOMER_ID": str(alice.customer),
        }
    )


@pytest.fixture(scope="module")
def signed_in(caller: Caller) -> Caller:
    caller.json("login", "--json")
    return caller


def test_who_has_the_environment_of_the_demo_just_logs_in(caller: Caller, alice: Person) -> None:
    told = caller.json("login", "--profile", "mine", "--json")
    assert told["customer"]["id"] == alice.customer and told["username"] == alice.username and told["expiresAt"]
    path = Path(caller.env["XDG_CONFIG_HOME"], "keyrack", "profiles", "mine.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert alice.password not in path.read_text()
    path.chmod(0o644)
    assert f"chmod 600 {path}" in caller.refused("cars", "--profile", "mine")
    path.chmod(0o600)
    assert caller.json("logout", "--profile", "mine", "--json") == {"profiles": ["mine"]}
    assert not path.exists()
    assert "Log in first: keyrack login --profile mine" in caller.refused("cars", "--profile", "mine")


def test_a_login_is_refused_in_words(caller: Caller, alice: Person, tmp_path: Path) -> None:
    wrong = caller.refused("login", "--password-stdin", stdin="not the password\n", status=4)
    assert "POST /oauth2/token: 40" in wrong
    assert "API key is missing. Add --api-key" in caller.refused("login", KEYRACK_API_KEY="")
    assert "is not a server address" in caller.refused("login", "--url", "keyrack.example.com")
    assert "does not act for customer Nobody's" in caller.refused("login", "--customer", "Nobody's")
    assert "cannot be read" in caller.refused("login", "--password-file", tmp_path / "none")
    assert "is not a valid profile name" in caller.refused("login", "--profile", "../away")
    assert caller.refused("login", "--url", "http://127.0.0.1:1/v3").startswith("keyrack: POST /oauth2/token: ")


def test_a_password_file_renews_a_token_that_has_ended(caller: Caller, alice: Person, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    name = alice.sql.value("select name from customer where customer_id = $1", alice.customer)
    caller.json(
        "login", "--profile", "file", "--password-file", file, "--customer", name, "--json", KEYRACK_PASSWORD=""
    )
    path = Path(caller.env["XDG_CONFIG_HOME"], "keyrack", "profiles", "file.json")
    kept = json.loads(path.read_text())
    path.write_text(json.dumps(kept | {"token": kept["token"] | {"access": "over", "ends": 1.0}}))
    assert isinstance(caller.json("cars", "--profile", "file", "--json", KEYRACK_PASSWORD=""), list)
    assert json.loads(path.read_text())["token"]["ends"] > 1
    path.write_text(json.dumps(kept | {"password_file": None, "token": kept["token"] | {"ends": 1.0}}))
    said = caller.refused("cars", "--profile", "file", status=4, KEYRACK_PASSWORD="")
    assert "Log in again: keyrack login --profile file" in said
    path.write_text("{")
    assert "is damaged" in caller.refused("cars", "--profile", "file")


def test_any_request_with_the_status_of_its_answer(signed_in: Caller, alice: Person, tmp_path: Path) -> None:
    body = tmp_path / "car.json"
    body.write_text('{"name": "Of a file"}')
    first = signed_in.json("api", "PUT", "/cars", "-d", f"@{body}")["id"]
    second = signed_in.json("api", "put", "/cars", "-d", "-", stdin='{"name": "Of standard input"}')["id"]
    found = signed_in.json("api", f"/cars?$filter=id eq {first} or id eq {second}&$orderby=id")
    assert [row["name"] for row in found] == ["Of a file", "Of standard input"]
    key = ("-H", "Idempotency-Key: one-of-mine", "-H", "Prefer: return=representation")
    once = signed_in.json("api", "PUT", "/cars", "-d", '{"name": "Once"}', *key)
    assert signed_in.json("api", "PUT", "/cars", "-d", '{"name": "Once"}', *key) == once
    code, output, _ = signed_in.run("api", "GET", f"/cars/{first}", "-i")
    assert (code, output.splitlines()[0]) == (0, "HTTP/1.1 200 OK") and "\n\n{" in output and "X-Request-ID: " in output
    code, output, errors = signed_in.run("api", "GET", "/cars/2147483647")
    assert (code, errors) == (4, "") and "Unable to find a car" in output
    assert signed_in.run("api", "DELETE", f"/cars/{second}")[:2] == (0, "")
    for wrong in (("FETCH", "/cars"), ("GET", "cars"), ("GET", "/cars", "-H", "nothing")):
        assert signed_in.run("api", *wrong)[0] == 2
    assert "cannot be read" in signed_in.refused("api", "PUT", "/cars", "-d", "@/nowhere")
    pretty = seen(80, signed_in.env, "api", f"/cars/{first}?$select=id,name")
    assert pretty == (0, f'{{\n  "id": {first},\n  "name": "Of a file"\n}}\n')


def test_no_name_makes_the_terminal_do_something(signed_in: Caller, alice: Person) -> None:
    """Tables, JSON and errors escape control characters (CWE-150). Older rows may have such names."""
    name = "Car \x1b]0;mine\x07 \x9b31m \u202etxt"
    car = alice.car()
    alice.sql.execute("update car set name = $2 where car_id = $1", car, name)
    for words in (("cars", "--filter", f"id eq {car}"), ("cars", str(car)), ("api", f"/cars/{car}")):
        _, output = seen(200, signed_in.env, *words)
        assert "Car \\u001b]0;mine\\u0007 \\u009b31m \\u202etxt" in output
    assert signed_in.json("cars", "--filter", f"id eq {car}", "--json")[0]["name"] == name
    assert "\\u001b" in (said := signed_in.refused("cars", "--customer", "\x1b[31m")) and "\x1b" not in said


def test_lists_are_read_page_by_page_up_to_a_limit(signed_in: Caller, alice: Person) -> None:
    alice.execute_unrecorded(
        "insert into car (customer_id, name, license_plate) select $1, 'Many ' || n, 'B-KR ' || n"
        " from generate_series(1, 1200) n",
    )  # fmt: skip
    many = ("--filter", "startswith(name, 'Many')")
    assert len(signed_in.json("cars", *many, "--limit", 2000, "--json")) == 1200
    code, output, errors = signed_in.run("cars", *many)
    assert (code, len(output.splitlines())) == (0, 101) and output.startswith("ID ")
    assert errors == "Showing the first 100. Use --limit for more.\n"
    ordered = signed_in.json("cars", *many, "--orderby", "name desc", "--select", "name", "--top", 3, "--json")
    assert [row["name"] for row in ordered] == ["Many 999", "Many 998", "Many 997"] and "id" in ordered[0]
    one = signed_in.json("cars", ordered[0]["id"], "--json")
    assert (one["name"], one["licensePlate"]) == ("Many 999", "B-KR 999")
    assert "name          Many 999\n" in signed_in.run("cars", one["id"])[1]
    user = alice.user("kim.doe@example.org")
    assert "kim.doe@example.org  Uma" in signed_in.run("users", "--filter", f"id eq {user}")[1]
    car = alice.car_with_box()
    alice.assignment(car, user)
    (row,) = signed_in.json("assignments", "--filter", f"carId eq {car}", "--expand", "car", "--json")
    assert (row["userId"], row["car"]["id"]) == (user, car)
    (done,) = signed_in.json("operations", "--filter", f"carId eq {car}", "--json")
    assert signed_in.json("operations", done["id"], "--json")["state"] == done["state"]
    assert "GET /cars?" in signed_in.refused("cars", "--filter", "wheels eq 4", status=4)


def test_events_come_as_they_happen(signed_in: Caller, alice: Person) -> None:
    car, user = alice.car_with_box(), alice.user()
    alice.assignment(car, user)
    before = alice.event(car, user)
    process = Process("events", "--follow", "--limit", "1", "--json", env=signed_in.env)
    try:
        out: Any = process.popen.stdout
        first = json.loads(out.readline())
        alice.event(car, user)
        second = json.loads(out.readline())
        assert (first["carId"], second["carId"], second["id"]) == (car, car, first["id"] + 1), before
    finally:
        process.popen.kill()
        process.popen.communicate()
    shown = signed_in.json("events", "--limit", 2, "--json")
    assert [row["id"] for row in shown] == [first["id"], second["id"]]
