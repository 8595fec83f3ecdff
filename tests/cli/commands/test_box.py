"""`keyrack box enrol`, with a pseudo-terminal and a real server."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import stat
import subprocess
import sys
import tty
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from keyrack.cli import box_link
from keyrack.cli.box_link import BoxLink, NoReply
from keyrack.cli.main import application
from keyrack.cli.output import CommandFailed
from keyrack.cli.serial_port import SerialPort
from keyrack.core.base64url import base64url
from keyrack.offline_keys import link_messages
from keyrack.offline_keys.link_messages import (
    AcceptedMessage,
    Challenge,
    Enrol,
    Hello,
    Provision,
    Result,
    Said,
    VersionsMessage,
)
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from keyrack.offline_keys.transports import wire
from keyrack.offline_keys.transports.wire import Deframer
from keyrack.simulator.wire_box import WireBox
from tests.docs.code_blocks import block
from tests.support.people import Person, refused
from tests.support.servers import SCRIPT_DEADLINE, RunningServer
from tests.support.wire_bench import WireBench


@dataclass
class Technician:
    """A shell whose profile is logged in."""

    person: Person
    env: dict[str, str]

    def run(self, *arguments: object) -> tuple[int, str, str]:
        words = ["box", "enrol", *map(str, arguments)]
        result = CliRunner(env=self.env).invoke(application("box"), words)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    def enrol(self, *arguments: object) -> dict[str, Any]:
        code, output, errors = self.run(*arguments, "--json")
        assert code == 0, errors
        return json.loads(output)

    def fails(self, *arguments: object, status: int = 1) -> str:
        """The error of a command that fails."""
        code, output, errors = self.run(*arguments)
        last = errors.splitlines()[-1]
        assert (code, output, last[:9]) == (status, "", "keyrack: "), errors
        return last

    def state(self, product: int) -> dict[str, Any]:
        return self.person.get(f"/boxes/{product}/enrolment").json()


@pytest.fixture(scope="module")
def technician(alice: Person, server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Technician:
    env = {
        "XDG_CONFIG_HOME": str(tmp_path_factory.mktemp("config")),
        "KEYRACK_URL": f"{server.url}/v3",
        "KEYRACK_API_KEY": alice.api_key,
        "KEYRACK_USERNAME": alice.username,
        "KEYRACK_PASSWORD": alice.password,
        "KEYRACK_CUSTOMER_ID": str(alice.customer),
    }
    assert CliRunner(env=env).invoke(application("login"), ["login"]).exit_code == 0
    return Technician(alice, env)


@pytest.fixture
def bench() -> Iterator[WireBench]:
    with WireBench() as own:
        yield own


@pytest.fixture
def product(alice: Person) -> int:
    return alice.box_in(alice.car())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that waits for lost replies only briefly."""
    monkeypatch.setattr(box_link, "REPLY_SECONDS", 2.0)


def shown(bench: WireBench) -> str:
    """The thumbprint that the box displays."""
    return base64url(bench.box.thumbprint)


def answers(kind: type[Said], reply: Said) -> Callable[[bytes], bytes | None]:
    """Replies to messages of this type."""

    def answer(message: bytes) -> bytes | None:
        is_kind = message[1] == link_messages.SHAPES[kind][0]
        return link_messages.write(reply) if is_kind else None

    return answer


def test_a_box_is_enrolled_and_provisioned(technician: Technician, bench: WireBench, product: int) -> None:
    code, output, errors = technician.run(product, "--serial", bench.port, "--thumbprint", shown(bench))
    assert code == 0, errors
    state = technician.state(product)
    assert state["thumbprint"] == shown(bench) and state["pending"] is None
    authority = bench.box.box.kept.authority
    assert authority is not None and authority.name == state["name"] and bench.box.box.kept.is_certain
    assert output.startswith(f"Product {product} is {state['name']}: enrolled, and provisioned. Its clock is 20")
    assert f"Thumbprint: {shown(bench)}\n- Compare the thumbprint" in output
    assert errors.splitlines() == [
        "Enrolling the box.",
        f"The box has a key with the thumbprint {shown(bench)}.",
        "Provisioning the box.",
    ]


def test_the_command_can_be_repeated(technician: Technician, bench: WireBench, product: int) -> None:
    serial = technician.person.sql.value("select serial_number from product where product_id = $1", product)
    first = technician.enrol(product, "--serial", bench.port)
    again = technician.enrol(serial, "--serial", bench.port)
    assert first["isEnrolledNow"] and not first["isPending"] and len(first["leftToDo"]) == 1
    assert again == first | {"isEnrolledNow": False, "leftToDo": [], "boxTime": again["boxTime"]}


def test_an_interrupted_run_is_completed(technician: Technician, bench: WireBench, product: int) -> None:
    """The server knows the key of a box without an authority."""
    bench.answered = answers(Provision, AcceptedMessage(1))
    assert "The box refuses the provisioning of the server" in technician.fails(product, "--serial", bench.port)
    epoch = technician.state(product)["epoch"]
    bench.answered = lambda message: None
    assert technician.enrol(product, "--serial", bench.port)["epoch"] == epoch


def test_a_box_that_replaces_one_at_work_is_pending(technician: Technician, bench: WireBench, product: int) -> None:
    alice = technician.person
    technician.enrol(product, "--serial", bench.port)
    alice.sql.execute("update key_authority set needs_second_person = true where customer_id = $1", alice.customer)
    with WireBench() as other:
        enrolled = technician.enrol(product, "--serial", other.port)
        alice.sql.execute("update key_authority set needs_second_person = false where customer_id = $1", alice.customer)
        assert enrolled["isPending"] and enrolled["thumbprint"] == shown(other)
        assert enrolled["epoch"] == technician.state(product)["pending"]["epoch"]
        left = "\n".join(enrolled["leftToDo"])
        for text in ("Compare the thumbprint", "the box before is still at work", "Open the box once", "approval -d"):
            assert text in left
        at_work = technician.enrol(product, "--serial", bench.port)
    assert not at_work["isPending"] and at_work["thumbprint"] == shown(bench)
    (other_pending,) = at_work["leftToDo"]
    assert enrolled["thumbprint"] in other_pending and other_pending.startswith("Another enrolment is pending")


def test_a_port_that_another_program_uses_is_busy(technician: Technician, bench: WireBench, product: int) -> None:
    user = os.open(bench.port, os.O_RDWR | os.O_NOCTTY)
    fcntl.flock(user, fcntl.LOCK_EX)
    assert f"{bench.port} is busy: another program uses it." in technician.fails(product, "--serial", bench.port)
    os.close(user)
    technician.enrol(product, "--serial", bench.port)


def test_a_device_that_is_no_port_is_named(technician: Technician, product: int, tmp_path: Path) -> None:
    none = tmp_path / "ttyUSB7"
    assert f"{none} cannot be opened: No such file" in technician.fails(product, "--serial", none)
    assert "/dev/null is not a serial port." in technician.fails(product, "--serial", "/dev/null")
    assert technician.run(product)[0] == 2
    assert technician.run(product, "--serial", "/dev/null", "--simulate")[0] == 2
    assert technician.run(product, "--serial", "/dev/null", "--state", none)[0] == 2


def test_a_port_that_goes_away_is_an_error() -> None:
    own, other = pty.openpty()
    with SerialPort(os.ttyname(other)) as port:
        os.close(other)
        os.close(own)
        with pytest.raises(CommandFailed, match=r"/dev/\S+ was disconnected"):
            asyncio.run(port.read())


def test_a_silent_box_gets_three_links(
    technician: Technician, bench: WireBench, product: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box_link, "REPLY_SECONDS", 0.05)
    bench.answered = lambda message: b""
    assert "The box does not reply. Look whether it has power" in technician.fails(product, "--serial", bench.port)
    assert bench.links == 2 * 3, "each begins with two zero bytes"


def test_noise_and_a_damaged_frame_cost_a_repetition(
    technician: Technician, bench: WireBench, product: int, impatient: None
) -> None:
    sent: list[bytes] = []

    def distort(frame: bytes) -> bytes:
        sent.append(frame)
        match len(sent):
            case 1:
                return b"\x00\x17noise" + frame  # no zero byte ends the noise
            case 2:
                return b"noise\x00\x00\xff" * 9 + b"\x00" + frame
            case 3:
                return frame[:40] + bytes([frame[40] ^ 4]) + frame[41:]
            case _:
                return frame

    bench.distort = distort
    code, _, errors = technician.run(product, "--serial", bench.port)
    assert code == 0
    assert errors.count("The box does not reply. Trying again on a new link.") == 2
    assert technician.state(product)["thumbprint"] == shown(bench)


def test_a_frame_without_an_end_is_no_reply(
    technician: Technician, bench: WireBench, product: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box_link, "REPLY_SECONDS", 0.05)
    bench.distort = lambda frame: b"\x07" * 3_000
    assert "The box does not reply." in technician.fails(product, "--serial", bench.port)


def test_a_box_of_another_product_obeys_another_authority(
    technician: Technician, bench: WireBench, product: int
) -> None:
    name = technician.enrol(product, "--serial", bench.port)["name"]
    other = technician.person.box_in(technician.person.car())
    error = technician.fails(other, "--serial", bench.port)
    assert f"The box obeys another authority: it is {name}" in error and "Reset the box" in error
    refused_state = technician.person.get(f"/boxes/{other}/enrolment")
    refused(refused_state, 404, "The box is not enrolled.")


def test_a_box_with_another_root_obeys_another_authority(
    technician: Technician, bench: WireBench, product: int
) -> None:
    technician.enrol(product, "--serial", bench.port)
    kept = bench.box.box.kept
    assert kept.authority is not None
    other = replace(kept.authority, root=PrivateKey.generate().public)
    bench.box.box.restart(replace(kept, authority=other), kept.floor)
    assert "its root is none of this server's" in technician.fails(product, "--serial", bench.port)


def test_a_box_with_another_key_is_not_enrolled(technician: Technician, bench: WireBench, product: int) -> None:
    other = base64url(PrivateKey.generate().public.thumbprint)
    error = technician.fails(product, "--serial", bench.port, "--thumbprint", other)
    assert shown(bench) in error and "It is another box." in error
    refused(technician.person.get(f"/boxes/{product}/enrolment"), 404, "The box is not enrolled.")
    technician.enrol(product, "--serial", bench.port)
    assert f"not by {other}" in technician.fails(product, "--serial", bench.port, "--thumbprint", other)


@pytest.mark.parametrize(
    ("kind", "reply", "text"),
    [
        (Hello, Result(BoxRefusalCode.REFUSED), "its memory is damaged. Reset the box"),
        (Hello, VersionsMessage([3, 4]), "The box speaks version 3, 4 of the protocol, this program 2."),
        (Hello, link_messages.hello(), "The reply is not that of a box."),
        (Enrol, Result(BoxRefusalCode.REFUSED), "The box refuses to enrol"),
        (Provision, AcceptedMessage(1), "The box refuses the provisioning of the server."),
        (Provision, Result(BoxRefusalCode.REFUSED), "The box refuses the provisioning of the server."),
    ],
)
def test_refusals_of_the_box_are_explained(
    technician: Technician, bench: WireBench, product: int, kind: type[Said], reply: Said, text: str
) -> None:
    bench.answered = answers(kind, reply)
    assert text in technician.fails(product, "--serial", bench.port)


@pytest.mark.parametrize(
    "lie", [{"time": (1 << 53) - 1}, {"name": ""}, {"name": "box:1:1\x7e"}], ids=["time", "no name", "another name"]
)
def test_a_box_that_lies_about_its_state_is_not_reported_as_enrolled(
    technician: Technician, bench: WireBench, product: int, lie: dict[str, Any]
) -> None:
    """The challenge after the provisioning is not signed."""
    is_provisioned = False

    def answer(message: bytes) -> bytes | None:
        nonlocal is_provisioned
        is_provisioned = is_provisioned or message[1] == link_messages.SHAPES[Provision][0]
        if not is_provisioned or message[1] != link_messages.SHAPES[Hello][0]:
            return None
        [challenge] = Deframer().feed(bench.box.receive(wire.frame(message)))
        return link_messages.write(link_messages.read(challenge, Challenge)._replace(**lie))

    bench.answered = answer
    assert "does not have the name or the time" in technician.fails(product, "--serial", bench.port)


def test_a_box_that_takes_no_bytes_ends_the_command() -> None:
    """Its replies come, and no byte of the tool goes."""
    own, other = pty.openpty()
    tty.setraw(other)
    with SerialPort(os.ttyname(other)) as port:
        for _ in range(3):  # the system has several buffers
            with pytest.raises(TimeoutError):
                asyncio.run(asyncio.wait_for(port.write(bytes(200_000)), 0.1))

        async def begin() -> None:
            async with asyncio.timeout(5):  # more than the link takes
                await BoxLink(port).begin()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(box_link, "REPLY_SECONDS", 0.05)
            with pytest.raises(NoReply):
                asyncio.run(begin())
    os.close(other)
    os.close(own)


def test_refusals_of_the_server_are_shown(technician: Technician, bench: WireBench, product: int) -> None:
    alice = technician.person
    assert "404" in technician.fails(2_147_483_647, "--serial", bench.port, status=4)
    tracker = alice.product("IQ")
    assert "409 The product is not a key box." in technician.fails(tracker, "--serial", bench.port, status=4)
    assert "There is no product with the serial number It's." in technician.fails("It's", "--simulate")
    technician.enrol(product, "--serial", bench.port)
    with WireBench() as other:
        pending = technician.enrol(product, "--serial", other.port)
        alice.sql.execute(
            "update box_epoch set proven_at = now() where product_id = $1 and epoch = $2", product, pending["epoch"]
        )
        with WireBench() as third:
            error = technician.fails(product, "--serial", third.port, status=4)
            assert "409" in error and "add --replaces" in error and f"/boxes/{product}/enrolment" in error
            assert technician.enrol(product, "--serial", third.port, "--replaces", shown(other))["isPending"]
    assert bench.box.box.kept.authority is not None


def test_a_simulated_box_is_kept_in_its_file(technician: Technician, product: int, tmp_path: Path) -> None:
    file = tmp_path / "box.json"
    first = technician.enrol(product, "--simulate", "--state", file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert base64url(WireBox(file).thumbprint) == first["thumbprint"]
    again = technician.enrol(product, "--simulate", "--state", file)
    assert (again["name"], again["isEnrolledNow"]) == (first["name"], False)
    file.write_text("{}")
    assert "the file is damaged. To reset the box, delete the file." in technician.fails(
        product, "--simulate", "--state", file
    )
    assert "cannot be used: Is a directory" in technician.fails(product, "--simulate", "--state", tmp_path)


def test_the_commands_of_the_page_enrol_a_simulated_box(technician: Technician, product: int, tmp_path: Path) -> None:
    script = block("docs/how-to/enrol-box.md", "simulated").text
    own = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PRODUCT": str(product)}
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        capture_output=True, text=True, env=os.environ | technician.env | own, cwd=tmp_path, timeout=SCRIPT_DEADLINE,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [ran.stdout.count(text) for text in (": enrolled, and provisioned", ": enrolled before, and")] == [1, 1]
    assert technician.state(product)["thumbprint"] == base64url(WireBox(tmp_path / "box.json").thumbprint)


def test_a_simulated_box_without_a_file_is_another_one_each_time(technician: Technician, product: int) -> None:
    first, second = (technician.enrol(product, "--simulate") for _ in range(2))
    assert first["thumbprint"] != second["thumbprint"] and second["isPending"]
