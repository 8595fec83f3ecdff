"""The npm package of the TypeScript client.

The tests check its files and types, and run a scenario with the installed package.

`make test-clients` installs the compiler into the directory KEYRACK_CLIENTS.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.clients.test_typescript_sources import (
    BOOKINGS,
    HOOK,
    SCRIPT,
    box,
    expected,
    open_server,
    owner,
)
from tests.clients.tools import NODE, TOOLS, put_node
from tests.clients.typescript_client import PROGRAMS, ROOT, credentials, losing_every_second_response, page, run
from tests.docs.page_runner import PROGRAM
from tests.support.browser import launched, needed
from tests.support.people import Person, web
from tests.support.servers import RunningServer

__all__ = ["open_server", "owner"]  # fixtures

pytestmark = pytest.mark.skipif(not TOOLS, reason="`make test-clients` installs the compiler first")
PACKAGE = ROOT / "clients/typescript"
README = (PACKAGE / "README.md").read_text()
MAX_BYTES = 40_000
SECONDS = 300  # for npm and the compiler
NODES = [NODE, *({Path(found)} if (found := shutil.which("node")) else set())]


def command(*arguments: str | Path, cwd: Path) -> str:
    ran = subprocess.run(
        arguments,
        cwd=cwd,
        env=put_node(Path(TOOLS or "")),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def pack(target: Path) -> Path:
    target.mkdir()
    command(sys.executable, PACKAGE / "build.py", "pack", TOOLS or "", target, cwd=target)
    (built,) = target.iterdir()
    return built


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack(tmp_path_factory.mktemp("package") / "built")


@pytest.fixture(scope="module")
def workshop(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the installed package and compiled programs.

    The programs are those of the README and of the tests.
    """
    place = tmp_path_factory.mktemp("workshop")
    (place / "package.json").write_text('{"private": true, "type": "module"}')
    command("npm", "install", "--offline", "--no-audit", "--no-fund", package, cwd=place)
    for name in ("typescript", "@types", "undici-types", "standardwebhooks", "@stablelib", "fast-sha256"):
        (place / "node_modules" / name).symlink_to(Path(TOOLS or "") / "node_modules" / name)
    for name, content in PROGRAM.findall(README):
        (place / f"readme_{name}").write_text(content)
    for path in PROGRAMS.glob("*.ts"):
        (place / path.name).write_text(
            path.read_text().replace("../../../clients/typescript/src/index.ts", "keyrack-client")
        )
    options = json.loads(re.sub(r"//.*", "", (PACKAGE / "tsconfig.json").read_text()))["compilerOptions"]
    options |= {"rootDir": ".", "outDir": "made", "types": ["node"], "declaration": False, "stripInternal": False}
    options |= {"skipLibCheck": False, "lib": ["ES2023", "DOM", "DOM.Iterable"]}
    config = {"compilerOptions": options, "include": ["*.ts"]}
    (place / "tsconfig.json").write_text(json.dumps(config))
    command(NODE, place / "node_modules/typescript/lib/tsc.js", "-p", ".", cwd=place)
    return place


def test_the_package_is_small_and_has_no_dependency(package: Path) -> None:
    assert package.stat().st_size < MAX_BYTES
    with tarfile.open(package) as packed:
        names = set(packed.getnames())
        manifest = json.load(packed.extractfile("package/package.json") or pytest.fail("no package.json"))
    assert not any("dependencies" in name.lower() for name in manifest)
    assert {f"package/{name}" for name in ("LICENSE", "README.md", "CHANGELOG.md", "dist/index.js")} <= names
    assert {f"package/dist/{path.stem}.d.ts" for path in (PACKAGE / "src").glob("*.ts")} <= names
    version = re.search(r'VERSION = "(.*)"', (PACKAGE / "src/transport.ts").read_text())
    assert version is not None and version[1] == manifest["version"]
    assert f"## {manifest['version']}\n" in (PACKAGE / "CHANGELOG.md").read_text()


def test_the_package_is_reproducible(package: Path, tmp_path: Path) -> None:
    assert pack(tmp_path / "again").read_bytes() == package.read_bytes()


def test_npm_would_pack_the_same_files(package: Path, tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "copy", ignore=shutil.ignore_patterns("node_modules"))
    with tarfile.open(package) as packed:
        names = {name.removeprefix("package/") for name in packed.getnames()}
        packed.extractall(tmp_path, filter="data")
    shutil.copytree(tmp_path / "package", tmp_path / "copy", dirs_exist_ok=True)
    said = command("npm", "pack", "--dry-run", "--json", cwd=tmp_path / "copy")
    assert {file["path"] for file in json.loads(said)[0]["files"]} == names


@pytest.mark.parametrize("node", NODES, ids=["wheel", "path"][: len(NODES)])
def test_the_scenario_with_the_package(node: Path, workshop: Path, owner: Person, open_server: RunningServer) -> None:
    serial = box(owner)
    given = credentials(owner, open_server.url) | {"box": serial, "hook": HOOK}
    place = workshop / "made"
    assert run("node_scenario.js", "keyrack-client", given, node=node, place=place) == expected(serial)


@pytest.mark.parametrize(
    ("name", "options"),
    [("@deno/*/deno", ("run", "--allow-net", "--allow-read", "--allow-env")), ("@oven/*/bin/bun", ())],
    ids=["deno", "bun"],
)
def test_the_scenario_with_the_package_in_other_runtimes(
    name: str, options: tuple[str, ...], workshop: Path, owner: Person, open_server: RunningServer
) -> None:
    """npm installs their programs, without the scripts of the packages."""
    runtimes = sorted((Path(TOOLS or "") / "node_modules").glob(name))
    if not runtimes:
        pytest.skip("npm has no program for this machine")
    serial = box(owner)
    given = credentials(owner, open_server.url) | {"box": serial, "hook": HOOK}
    place, module = workshop / "made", workshop / "node_modules/keyrack-client/dist/index.js"
    assert run("node_scenario.js", module, given, node=runtimes[0], options=options, place=place) == expected(serial)


@needed
def test_the_scenario_with_the_package_in_a_browser(workshop: Path, owner: Person, open_server: RunningServer) -> None:
    serial = box(owner)
    secrets = credentials(owner, open_server.url)
    form = {"client_id": secrets["clientId"], "client_secret": secrets["clientSecret"]}
    answer = web().post(
        f"{open_server.url}/v3/oauth2/token",
        data=form | {"grant_type": "client_credentials"},
        headers={"vendor-API-Key": owner.api_key},
    )
    given = {name: secrets[name] for name in ("url", "apiKey", "customerId")}
    given |= {"token": answer.json()["access_token"], "box": serial, "hook": HOOK}
    installed = workshop / "node_modules/keyrack-client/dist"
    modules = {f"/dist/{path.name}": path.read_bytes() for path in installed.glob("*.js")}
    modules["/scenario.js"] = (workshop / "made/scenario.js").read_bytes()
    with page(modules) as url, launched() as browser:
        tab = browser.new_page()
        tab.goto(url)
        refusal, seen = tab.evaluate(SCRIPT, ["/dist/index.js", "/scenario.js", given, secrets])
    assert refusal.startswith("A browser must not have clientSecret or login")
    assert seen == expected(serial)


def test_the_package_loses_no_booking(workshop: Path, owner: Person, open_server: RunningServer) -> None:
    car, user = owner.car_with_box(), owner.user()
    lost: list[str] = []
    with losing_every_second_response(open_server.url, lost) as url:
        given = credentials(owner, url) | {"carId": car, "userId": user, "count": BOOKINGS}
        assert run("flaky_bookings.js", "keyrack-client", given, place=workshop / "made") == BOOKINGS
    starts = [row["start"] for row in owner.get(f"/cars/{car}/assignments").json()]
    assert len(starts) == len(set(starts)) == BOOKINGS


@pytest.mark.parametrize("name", ["book", "lists", "other", "changes"])
def test_the_programs_of_the_readme(name: str, workshop: Path, owner: Person, open_server: RunningServer) -> None:
    owner.car_with_box("Golf")
    owner.user()
    given = credentials(owner, open_server.url)
    environment = {
        "KEYRACK_URL": given["url"],
        "KEYRACK_API_KEY": given["apiKey"],
        "KEYRACK_CLIENT_ID": given["clientId"],
        "KEYRACK_CLIENT_SECRET": given["clientSecret"],
        "KEYRACK_CUSTOMER_ID": str(given["customerId"]),
    }
    ran = subprocess.run(
        [NODE, workshop / f"made/readme_{name}.js"],
        cwd=workshop, env=os.environ | environment, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    (workshop / "position.txt").unlink(missing_ok=True)
    expected_texts = {
        "book": "booked: Golf Succeeded",
        "lists": "0",
        "other": "typescript's fleet 1",
        "changes": "car.created",
    }
    assert expected_texts[name] in ran.stdout


def test_messages_of_the_npm_library_are_verified(workshop: Path) -> None:
    program = (
        'import { Webhook } from "standardwebhooks";'
        'import { verify } from "keyrack-client";'
        'const secret = "whsec_" + "c2VjcmV0".repeat(4), body = JSON.stringify({ name: "Käfer" }), at = new Date();'
        'const headers = { "webhook-id": "m1", "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),'
        '  "webhook-signature": new Webhook(secret).sign("m1", at, body) };'
        "console.log((await verify(headers, Buffer.from(body), secret)).name);"
        'const error = await verify(headers, Buffer.from(body + " "), secret).catch((error) => error.name);'
        "console.log(error);"
    )
    (workshop / "signed.mjs").write_text(program)
    assert command(NODE, "signed.mjs", cwd=workshop) == "Käfer\nInvalidSignature\n"
