"""B9: a backup alone signs nothing: the key that seals the database's secrets is outside of it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import RSAKey
from pydantic import SecretStr
from standardwebhooks import Webhook
from typer.testing import CliRunner

from keyrack.cli.main import application
from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.audit_context import acting, operator
from keyrack.db.connection import Connection, Database
from keyrack.db.encryption import bootstrap, master_keys, rotation
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.encrypted_columns import HOLDINGS, PRIVATE_KEY
from keyrack.db.transaction_database import InTransaction
from keyrack.drivers import push_keys
from keyrack.drivers.push_messages import public_bytes
from keyrack.webhooks import delivery_errors
from tests.db.test_migrations import upgrade
from tests.support.people import Person, Town, done, web
from tests.support.servers import (
    DEADLINE,
    SCRIPT_DEADLINE,
    Process,
    RunningServer,
    Sql,
    eventually,
    fresh_database,
    migrated_database,
    reachable_directory,
)
from tests.webhooks.receiver import Receiver

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[3]
STATIC = "a static secret of ours"


@pytest.fixture
def own(database_server: str) -> Iterator[str]:
    """A separate database for the test."""
    with migrated_database(database_server) as dsn:
        yield dsn


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


class House:
    """Two servers on their own database, the first with a worker, and a caller with a webhook."""

    def __init__(self, dsn: str, settings: Settings, receiver: Receiver, stack: contextlib.ExitStack) -> None:
        self.dsn, self.settings, self.stack = dsn, settings, stack
        self.one = self.server(worker=True)
        self.two = self.server()
        self.sql = Sql(dsn)
        stack.callback(self.sql.close)
        self.alice = Town(self.sql, self.one).person("alice")
        self.receiver = receiver
        self.hook, self.signing = self.webhook(self.one, "/first")

    def server(self, *, worker: bool = False, **settings: Any) -> RunningServer:
        changed = self.settings.model_copy(update=settings)
        return self.stack.enter_context(RunningServer(changed, self.dsn, worker=worker))

    def webhook(self, server: RunningServer, path: str) -> tuple[int, str]:
        body = {"url": self.receiver.url + path, "secret": STATIC}
        answer = web().put(server.url + "/v3/webhooks", json=body, headers=self.alice.headers)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"], answer.json()["signingSecret"]

    def delivers(self, hook: int, path: str, signing: str) -> None:
        """Check that a test delivery arrives, signed with the receiver's secret."""
        before = len(self.receiver.of(path))
        assert self.alice.post(f"/webhooks/{hook}/test").status_code == 201
        got = eventually(lambda: self.receiver.of(path)[before:], "the delivery")[-1]
        Webhook(signing).verify(got.body, got.headers)
        assert got.headers["secret"] == STATIC

    def goes_on(self) -> None:
        """Check that all servers accept each other's tokens, and that webhooks are signed as before."""
        form = {"grant_type": "password", "username": self.alice.username, "password": self.alice.password}
        for issuer in (self.one, self.two):
            key = {"vendor-API-Key": self.alice.api_key}
            token = web().post(issuer.url + "/v3/oauth2/token", data=form, headers=key).json()["access_token"]
            for server in (self.one, self.two):
                for headers in (self.alice.headers, self.alice.headers | {"Authorization": f"Bearer {token}"}):
                    assert web().get(server.url + "/v3/cars", headers=headers).status_code == 200
        self.delivers(self.hook, "/first", self.signing)

    def open(self, settings: Settings) -> Encryption:
        """Open the encryption with the keys of a node with these settings. Raises `MasterKeyError`."""
        return self.sql.run(bootstrap.open_vault(InTransaction(Connection(self.sql._connection)), settings))

    def push_key(self, settings: Settings) -> bytes:
        """The public key for Web Push, from the decrypted private key."""
        db: Any = InTransaction(Connection(self.sql._connection))
        return public_bytes(self.sql.run(push_keys.ensure(db, self.open(settings))))


@pytest.fixture(scope="module")
def home(database_server: str, settings: Settings) -> Iterator[House]:
    """A house whose keys no test changes."""
    with contextlib.ExitStack() as stack:
        dsn = stack.enter_context(fresh_database(database_server))
        asyncio.run(schema_version.migrate(dsn))
        yield House(dsn, settings, stack.enter_context(Receiver()), stack)


@pytest.fixture
def house(own: str, settings: Settings, receiver: Receiver) -> Iterator[House]:
    with contextlib.ExitStack() as stack:
        yield House(own, settings, receiver, stack)


def everything(sql: Sql) -> bytes:
    """All rows of all tables, as a backup has them: as text, and the bytes behind hexadecimal text."""
    tables = sql.rows("select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace")
    rows = [row[0] for table in tables for row in sql.rows(f'select t::text from "{table[0]}" t')]
    binary = [bytes.fromhex(part) for row in rows for part in re.findall(r"\\x((?:[0-9a-f]{2})+)", row)]
    return "\n".join(rows).encode() + b"\n".join(binary)


def test_a_backup_alone_signs_nothing(home: House) -> None:
    """B9: no table contains a private key, a webhook's secret or a key that opens them."""
    first = home.signing
    home.signing = rotated = home.alice.post(f"/webhooks/{home.hook}/rotate-secret").json()["signingSecret"]
    home.delivers(home.hook, "/first", rotated)
    row = home.sql.rows("select kid, private_key from signing_key")[0]
    private = json.loads(home.sql.run(home.open(Settings()).open(row[1], PRIVATE_KEY, 0, row[0])))
    dump = everything(home.sql)
    assert home.alice.username.encode() in dump and row[0].encode() in dump  # it is a dump
    for secret in (STATIC, first, rotated, *(private[part] for part in ("d", "p", "q", "dp", "dq", "qi"))):
        assert secret.encode() not in dump
    for secret in (first, rotated):
        assert base64.b64decode(secret.removeprefix("whsec_")) not in dump
    (key,) = master_keys.read(Settings())
    assert key.raw not in dump and key.text.encode() not in dump
    assert b"PRIVATE KEY" not in dump and b'"kty"' not in dump


@pytest.mark.parametrize("column", ["signing_secret", "secret"])
def test_secrets_do_not_open_in_another_row(home: House, column: str) -> None:
    """B9: write access to the database does not make one webhook use another's secret."""
    path = f"/{column}"
    second, signing = home.webhook(home.two, path)
    before = len(home.receiver.got)
    swap = f"update webhook w set {column} = o.{column} from webhook o where w.webhook_id in ({home.hook}, {second})"
    swap += f" and o.webhook_id in ({home.hook}, {second}) and o.webhook_id <> w.webhook_id"
    home.sql.execute(swap)
    for hook in (home.hook, second):
        assert home.alice.post(f"/webhooks/{hook}/test").status_code == 201
        row = eventually(
            lambda hook=hook: [
                row for row in home.alice.get(f"/webhooks/{hook}/deliveries?$orderby=id desc").json() if row["error"]
            ],
            "an attempt",
        )[0]
        assert (row["state"], row["status"]) == ("Waiting", None)
        assert row["error"] == delivery_errors.SEALED.text
    assert len(home.receiver.got) == before
    home.sql.execute(swap)
    home.delivers(home.hook, "/first", home.signing)
    home.delivers(second, path, signing)
    eventually(lambda: not any(row["waiting"] for row in home.alice.get("/webhooks").json()), "all deliveries")


def test_a_signing_key_of_another_row_is_left_out(home: House) -> None:
    """B9: a planted or moved key neither signs nor verifies, and the other keys still work."""
    home.sql.execute(
        "insert into signing_key (kid, private_key, created_at)"
        " select 'planted', private_key, now() + interval '1 hour' from signing_key"
    )
    plain = RSAKey.generate_key(2048, {"use": "sig", "alg": "RS256", "kid": "plain"}).as_dict(private=True)
    home.sql.execute(
        "insert into signing_key (kid, private_key, created_at) values ('plain', $1, now() + interval '2 hours')",
        b"\0" + json.dumps(plain).encode(),
    )
    home.goes_on()
    keys = web().get(home.one.url + "/.well-known/jwks.json").json()["keys"]
    assert {key["kid"] for key in keys} & {"planted", "plain"} == set()


# A node and its key


def keyrack(*arguments: object, fails: bool = False, **env: str) -> str:
    """Run a command. Returns its output, or the one line of its error."""
    words = [str(argument) for argument in arguments]
    result = CliRunner(env=env).invoke(application(words[0]), words)
    assert bool(result.exit_code) is fails, result.output
    if fails:
        assert result.stdout == "" and result.stderr.startswith("keyrack: ") and result.stderr.count("\n") == 1
    return result.stderr if fails else result.stdout


def refused(*arguments: str, **env: str) -> str:
    """The only output of a process that does not start."""
    process = Process(*arguments, env=env)
    said, errors = process.popen.communicate(timeout=DEADLINE)
    assert (process.popen.returncode, said, errors.count("\n")) == (1, "", 1), errors
    return errors


@pytest.mark.parametrize("command", [("serve", "--port", "0", "--processes", "2"), ("work",)], ids=lambda c: c[0])
def test_a_node_with_another_key_does_not_start(alice: Person, dsn: str, command: tuple[str, ...]) -> None:
    """B9: the error names both keys by their fingerprints."""
    other = master_keys.new()
    said = refused(*command, KEYRACK_DATABASE_URL=dsn, KEYRACK_MASTER_KEY=other.text)
    assert said == (
        "keyrack: The secrets in this database are encrypted with another master key. They need "
        f"{master_keys.read(Settings())[0].id}; KEYRACK_MASTER_KEY has {other.id}. "
        "Give this node the key of the other "
        "nodes (KEYRACK_MASTER_KEY or KEYRACK_MASTER_KEY_FILE). If the key is lost, see docs/secrets.md.\n"
    )


def test_a_node_without_a_key_does_not_start_and_makes_none(alice: Person, dsn: str, own: str, tmp_path: Path) -> None:
    """B9: a key made silently would be lost with the node, so an external database needs a configured key."""
    env = {"KEYRACK_MASTER_KEY": "", "KEYRACK_STATE": str(tmp_path)}
    missing = f"{tmp_path}/master.key is missing"
    for known, words in ((dsn, "there is none: " + missing), (own, "There is no master key for the secrets in this")):
        said = refused("work", KEYRACK_DATABASE_URL=known, **env)
        assert words in said and missing in said
    assert list(tmp_path.iterdir()) == []
    assert "is not valid" in refused("work", KEYRACK_DATABASE_URL=dsn, KEYRACK_MASTER_KEY="x")


def test_only_commands_that_use_secrets_need_the_key(alice: Person, dsn: str, tmp_path: Path) -> None:
    """B9: other commands, and `migrate`, need no key."""
    env = {"KEYRACK_MASTER_KEY": "", "KEYRACK_STATE": str(tmp_path), "KEYRACK_DATABASE_URL": dsn}
    keyrack("migrate", **env)
    keyrack("manager", "list", **env)
    keyrack("api-key", "add", "without the key", **env)
    hook = alice.put("/webhooks", {"url": "http://127.0.0.1:9/", "secret": STATIC}).json()["id"]
    keyrack("webhook", "change", hook, "--disable", "--secret", "", **env)
    assert alice.get(f"/webhooks/{hook}").json()["hasSecret"] is False
    url = ("http://127.0.0.1:9/", "--customer", alice.customer)
    for command in (("add", *url), ("change", hook, "--secret", "x"), ("rotate-secret", hook)):
        assert "master.key is missing" in keyrack("webhook", *command, fails=True, **env)
    assert "master.key is missing" in keyrack("signing-key", "rotate", fails=True, **env)
    done(alice.delete(f"/webhooks/{hook}"))


@pytest.mark.skipif("KEYRACK_TEST_DATABASE_URL" in os.environ, reason="is about the embedded server")
def test_the_embedded_database_makes_its_own_key() -> None:
    """B9: made once in the state directory, required afterwards, rotated by one command."""
    with reachable_directory() as directory, contextlib.ExitStack() as stack:
        state, env = directory / "state", {"KEYRACK_MASTER_KEY": ""}
        file = state / "master.key"
        both = [Process("work", "--json", "--state", str(state), env=env) for _ in range(2)]
        for process in both:
            stack.callback(process.stop)
            assert process.popen.stdout and process.popen.stdout.readline(), process.popen.communicate()
        first = file.read_text()
        assert file.stat().st_mode & 0o777 == 0o600
        keyrack("customer", "add", "One", "--state", state, **env)
        hook = ("webhook", "add", "https://example.org", "--customer", 1, "--secret", STATIC, "--state", state)
        keyrack(*hook, **env)
        said = keyrack("master-key", "rotate", "--state", state, **env)
        second = file.read_text()
        assert second != first and second.count("\n") == 1
        (listed,) = json.loads(keyrack("master-key", "list", "--json", "--state", state, **env))
        assert (listed["opens"], listed["held"]) == (True, True)
        assert said == f"2 secrets re-encrypted. The master key is now {listed['id']}.\n"
        keyrack(*hook, **env)
        file.unlink()
        said = refused("work", "--state", str(state), **env)
        assert f"They need {listed['id']}; there is none: {file} is missing." in said
        assert not file.exists()
        file.write_text(first)
        assert "encrypted with another master key" in keyrack(*hook, fails=True, **env)
        file.write_text(second)
        keyrack(*hook, **env)


# Rotation


def steps() -> str:
    """The shell block of docs/secrets.md that rotates the key."""
    text = (ROOT / "docs/secrets.md").read_text().split("<!-- rotation:")[1]
    found = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert found
    return found[1]


def test_the_key_is_rotated_while_all_nodes_run(house: House, settings: Settings) -> None:
    """B9: the steps of docs/secrets.md, unchanged."""
    (old,), script = master_keys.read(Settings()), steps()
    push_key = house.push_key(settings)
    house.signing = house.alice.post(f"/webhooks/{house.hook}/rotate-secret").json()["signingSecret"]
    prelude = f'set -euo pipefail; keyrack() {{ {sys.executable} -m keyrack "$@"; }}; OLD={old.text}\n'
    at = script.index("# 3.")
    env = {"KEYRACK_DATABASE_URL": house.dsn, "PATH": "/usr/bin:/bin"}
    first = prelude + script[:at] + '\necho "NEW $NEW"'
    ran = subprocess.run(["bash", "-c", first], env=env, capture_output=True, text=True, timeout=SCRIPT_DEADLINE)
    assert ran.returncode == 0, ran.stderr
    assert f"retire the other master keys: {old.id}." in ran.stdout
    new = ran.stdout.split("NEW ")[1].strip()

    house.goes_on()  # all nodes have only the old key
    second, secret = house.webhook(house.two, "/second")
    house.delivers(second, "/second", secret)
    assert house.sql.rows("select distinct data_key_of(signing_secret), data_key_of(secret) from webhook") == [(2, 2)]
    assert house.sql.value("select count(*) from webhook where data_key_of(old_signing_secret) <> 2") == 0
    assert house.sql.value("select bool_and(data_key_of(private_key) = 2) from signing_key")
    assert house.sql.value("select data_key_of(private_key) from push_key") == 2
    fresh = settings.model_copy(update={"master_key": SecretStr(new)})
    house.two = house.server(master_key=SecretStr(new))
    house.goes_on()
    house.open(settings)  # a node with the old key still starts

    third = prelude + f"NEW={new}\n" + re.sub(r"retire --yes \w+", f"retire --yes {old.id}", script[at:])
    ran = subprocess.run(["bash", "-c", third], env=env, capture_output=True, text=True, timeout=SCRIPT_DEADLINE)
    assert ran.returncode == 0, ran.stderr
    house.goes_on()
    assert house.push_key(fresh) == push_key
    with pytest.raises(master_keys.MasterKeyError, match="encrypted with another master key"):
        house.open(settings)
    assert house.sql.rows("select number, master from data_key") == [(2, master_keys.read(fresh)[0].id)]


def test_an_interrupted_rotation_is_continued(
    house: House, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9: every node opens everything, whatever key each value is sealed with meanwhile."""
    for number in range(3):
        house.webhook(house.one, f"/{number}")
    new = master_keys.new()
    both = Settings(master_key=SecretStr(f"{new.text},{master_keys.read(Settings())[0].text}"))

    async def rotate() -> Any:
        acting.set(operator())
        database = await Database.connect(house.dsn, both)
        try:
            return await rotation.rotate(database, both)
        finally:
            await database.close()

    plant = "insert into signing_key (kid, private_key) select 'planted', private_key from signing_key"
    house.sql.execute(plant)
    with pytest.raises(master_keys.MasterKeyError, match="private_key of row planted does not open"):
        asyncio.run(rotate())
    house.sql.execute("delete from signing_key where kid = 'planted'")
    monkeypatch.setattr("keyrack.db.encryption.encrypted_columns.AT_ONCE", 1)
    pieces = iter(range(3))
    whole = rotation.seal_piece

    async def broken(*arguments: Any, **options: Any) -> int:
        if next(pieces, None) is None:
            raise ConnectionResetError
        return await whole(*arguments, **options)

    monkeypatch.setattr(rotation, "seal_piece", broken)
    with pytest.raises(ConnectionResetError):
        asyncio.run(rotate())
    under = house.sql.rows("select distinct data_key_of(signing_secret) as n from webhook order by n")
    assert [row["n"] for row in under] == [1, 2]
    house.goes_on()
    hook, signing = house.webhook(house.two, "/later")
    house.delivers(hook, "/later", signing)
    monkeypatch.setattr(rotation, "seal_piece", whole)
    rotated = asyncio.run(rotate())
    assert rotated.master == new.id
    assert house.sql.rows("select distinct data_key_of(signing_secret) from webhook") == [(2,)]
    assert house.sql.value("select count(distinct number) from data_key") == 1
    house.goes_on()
    with pytest.raises(master_keys.MasterKeyError, match="Put a new one before it, which `keyrack"):
        asyncio.run(rotate())


def test_a_sealed_message_opens_in_every_process_during_a_rotation(house: House, settings: Settings) -> None:
    """A process from before finds the new data key. One from after has dropped the old one."""
    both = Settings(master_key=SecretStr(f"{master_keys.new().text},{master_keys.read(Settings())[0].text}"))

    async def run() -> None:
        acting.set(operator())
        database = await Database.connect(house.dsn, both)
        try:
            before = await open_vault(database, settings)
            old = await before.seal_message("a purpose", "text")
            await rotation.rotate(database, both)
            after = await open_vault(database, both)
            new = await after.seal_message("a purpose", "text")
            assert [await vault.open_message("a purpose", new) for vault in (before, after)] == ["text"] * 2
            assert [await vault.open_message("a purpose", old) for vault in (before, after)] == ["text", None]
            assert await after.open_message("another purpose", new) is None
            assert await after.open_message("a purpose", new[:1] + b"\0\0\0\x09" + new[5:]) is None
            assert await after.open_message("a purpose", b"") is None
        finally:
            await database.close()

    asyncio.run(run())


def test_the_last_master_key_cannot_be_retired(home: House) -> None:
    (only,) = master_keys.read(Settings())
    env = {"KEYRACK_DATABASE_URL": home.dsn}
    said = keyrack("master-key", "retire", "--yes", only.id, fails=True, **env)
    told = f"keyrack: The master key {only.id} cannot be retired: no other one opens all secrets of the database.\n"
    assert said == told
    said = keyrack("master-key", "retire", "--yes", "0123", fails=True, **env)
    assert said == "keyrack: The database has no master key 0123.\n"
    said = keyrack("master-key", "rotate", fails=True, **env)
    assert "The database already uses the first key in KEYRACK_MASTER_KEY." in said


def test_a_lost_key_costs_only_the_sealed_secrets(house: House) -> None:
    """B9: `master-key reset` gives up the secrets, reports it, and the servers continue with new ones."""
    env = {"KEYRACK_DATABASE_URL": house.dsn}
    assert "nothing is lost" in keyrack("master-key", "reset", "--lose-secrets", fails=True, **env)
    new = master_keys.new()
    env["KEYRACK_MASTER_KEY"] = new.text
    said = keyrack("master-key", "reset", fails=True, **env)
    assert "encrypted with another master key" in said and "--lose-secrets: it revokes all signing keys" in said
    said = keyrack("master-key", "reset", "--lose-secrets", **env)
    assert said.endswith("every older token is rejected. 1 webhooks are disabled.\n")
    house.one = house.server(worker=True, master_key=SecretStr(new.text))
    headers = house.alice.headers
    assert web().get(house.one.url + "/v3/cars", headers=headers).status_code == 401
    form = {"grant_type": "password", "username": house.alice.username, "password": house.alice.password}
    answer = web().post(house.one.url + "/v3/oauth2/token", data=form, headers={"vendor-API-Key": house.alice.api_key})
    headers["Authorization"] = "Bearer " + answer.json()["access_token"]
    base = f"{house.one.url}/v3/webhooks/{house.hook}"
    hook = web().get(base, headers=headers).json()
    assert (hook["enabled"], hook["hasSecret"]) == (False, False)
    assert hook["disabledReason"].startswith("The master key was lost. Make a new signing secret")
    signing = web().post(base + "/rotate-secret", headers=headers).json()["signingSecret"]
    values = (("/enabled", True), ("/secret", STATIC))
    patch = [{"op": "replace", "path": path, "value": value} for path, value in values]
    done(web().patch(base, json=patch, headers=headers))
    web().post(base + "/test", headers=headers)
    got = eventually(lambda: house.receiver.of("/first"), "the delivery")[-1]
    Webhook(signing).verify(got.body, got.headers)


# Secrets of an older release


def test_secrets_stored_as_text_are_sealed_at_the_first_start(
    database_server: str, settings: Settings, receiver: Receiver
) -> None:
    """B9: the first node seals them, and their values stay the same."""
    jwk = RSAKey.generate_key(2048, {"use": "sig", "alg": "RS256", "kid": "old"}).as_dict(private=True)
    signing, older = ("whsec_" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))
    with fresh_database(database_server) as dsn, contextlib.ExitStack() as stack:
        asyncio.run(upgrade(dsn, "0005"))
        old = Sql(dsn)
        old.execute("insert into signing_key (kid, private_jwk) values ('old', $1)", json.dumps(jwk))
        old.execute("insert into customer (customer_id, name) values (1, 'One')")
        old.execute(
            "insert into webhook (customer_id, url, secret, kinds, signing_secret, old_signing_secret,"
            " old_signing_secret_until) values (1, $1, $2, '{assignment.created}', $3, $4, now() + interval '1 hour')",
            receiver.url + "/old", STATIC, signing, older,
        )  # fmt: skip
        old.close()
        asyncio.run(schema_version.migrate(dsn))

        async def begin() -> None:
            acting.set(operator())
            databases = [await Database.connect(dsn, settings) for _ in range(4)]
            await asyncio.gather(*(bootstrap.open_vault(database, settings) for database in databases))
            for database in databases:
                await database.close()

        asyncio.run(begin())
        sql = Sql(dsn)
        stack.callback(sql.close)
        dump = everything(sql)
        for secret in (STATIC, signing, older, str(jwk["d"])):
            assert secret.encode() not in dump
        server = stack.enter_context(RunningServer(settings, dsn))
        keys = web().get(server.url + "/.well-known/jwks.json").json()["keys"]
        assert [(key["kid"], key["n"]) for key in keys] == [("old", jwk["n"])]
        keyrack("webhook", "test", 1, KEYRACK_DATABASE_URL=dsn)
        got = eventually(lambda: receiver.of("/old"), "the delivery")[0]
        for secret in (signing, older):
            Webhook(secret).verify(got.body, got.headers)
        assert got.headers["secret"] == STATIC


# Proofs of the change log: salts and hashes of data in the same tables, no secrets
PROOFS = (
    "change.who_salt", "change.content_salt", "change.person_salt", "change.record", "change_log.hash",
    "change_log.tree", "change_epoch.hash", "change_epoch.tree", "change_edge.hash", "change_edge.tree",
    "change_tree.edge", "change_tile.hashes", "change_checkpoint.root",
)  # fmt: skip
# Identifiers and signed data of boxes and phones: useless without a private key
SIGNED = (
    "app_device.device_id", "app_device.public_key", "box_epoch.public_key", "box_epoch.receipt", "box_entry.entry",
    "box_entry.hash", "box_report.hash", "box_key.device_id", "box_key.token", "enrolment_nonce.nonce",
    "registration_nonce.nonce", "removed_device.device_id",
    "issuing_key.public_key", "key_authority.public_key", "key_authority.key_set", "status_generation.list",
    "service_key.public_key", "new_root.message",
)  # fmt: skip
# Secret columns, and their protection
NUMBER = "the number of one"
KEPT = {
    "api_key.hash": "hash", "invitation.hash": "hash", "invitation.mailed_hash": "hash", "password_link.hash": "hash",
    "password_link.mailed_hash": "hash",
    "client_secret.hash": "hash", "client_secret.client_secret_id": NUMBER,
    "sdk_key.hash": "hash", "device_key.hash": "hash",
    "manager.password_hash": "hash", "person.password_hash": "hash", "session.hash": "hash",
    "sign_in_step.hash": "hash", "sign_in_step.challenge": "public: what a passkey signs",
    "totp.secret": "sealed", "passkey.credential_id": "public", "passkey.public_key": "public",
    "signing_key.private_key": "sealed", "webhook.secret": "sealed", "webhook.signing_secret": "sealed",
    "webhook.old_signing_secret": "sealed", "provider.client_secret": "sealed",
    "login_state.state": "hash", "login_state.browser": "hash", "login_state.invitation": "hash",
    "used_login_state.hash": "hash",
    "push_key.private_key": "sealed", "push_key.public_key": "public",
    "driver_account.password_hash": "hash", "driver_link.hash": "hash", "driver_session.hash": "hash",
    "driver_link.challenge": "public", "driver_session.challenge": "public",
    "driver_passkey.credential_id": "public", "driver_passkey.public_key": "public",
    "person.password_customer": NUMBER,
    "driver_push.p256dh": "public", "driver_push.auth": "useless without the sealed key of the server",
    "key_authority.private_key": "sealed", "issuing_key.private_key": "sealed",
    "service_key.private_key": "sealed", "box_epoch.advertising": "sealed", "key_set_request.request": "sealed",
    **dict.fromkeys(SIGNED, "public"),
    "data_key.wrapped": "under the master key",
    "idempotency_key.key_hash": "hash", "idempotency_key.request_hash": "hash",
    "idempotency_key.answer": "under the client's key", **dict.fromkeys(PROOFS, "beside what it proves"),
}  # fmt: skip


def test_every_column_of_secrets_is_known(sql: Sql) -> None:
    """B9: a new column of bytes, or with a secret's name, is listed here and in docs/secrets.md."""
    found = sql.rows(
        "select table_name || '.' || column_name as name from information_schema.columns"
        " where table_schema = 'public' and column_name !~ 'times$'"  # packed times of readings
        " and not exists (select from pg_class where oid = to_regclass(table_name) and relispartition)"
        " and (data_type = 'bytea'"
        " or (column_name ~ 'secret|private|password|token' and data_type <> 'timestamp with time zone'))"
    )
    assert {row["name"] for row in found} == set(KEPT)
    sealed = {name for name, how in KEPT.items() if how == "sealed"}
    assert sealed == {holding.name for holding in HOLDINGS} | {"webhook.old_signing_secret"}
    told = (ROOT / "docs/secrets.md").read_text()
    assert all(
        name.split(".")[1] in told for name, how in KEPT.items() if how not in ("hash", NUMBER, "beside what it proves")
    )
