"""Other releases than the tested one: earlier ones from the repository, and invented later ones."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import pytest

import keyrack

PACKAGE = Path(keyrack.__file__).parent
ROOT = PACKAGE.parents[1]
ASSETS = "console/assets"

# Migrations of a release that only expands. Each revision is one step
EXPANDING = {
    "0101_columns": """
op.execute("alter table car add column colour text")
op.execute("alter table car add column seats integer not null default 4")
""",
    "0102_index": """
index("car_colour", "on car (customer_id, colour)")
""",
    "0103_check": """
op.execute("alter table car add constraint car_seats_check check (seats > 0) not valid")
""",
    "0104_valid": """
op.execute("alter table car validate constraint car_seats_check")
""",
}
# Migrations of a release that removes what the previous one no longer uses
CONTRACTING = {"0105_gone": 'op.execute("alter table car drop column colour")\n'}


def earlier(base: Path, commit: str) -> Path:
    """The source of a commit for PYTHONPATH. Skips the test without the repository's history."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("no repository with its history")
    target = base / commit
    target.mkdir()
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"the repository's history has no {commit}")
    subprocess.run(["tar", "x", "-C", target], input=packed.stdout, check=True)
    source = target / "src"
    if (source / "keyrack/console").is_dir():
        (source / "keyrack" / ASSETS).symlink_to(PACKAGE / ASSETS)
    return source


def later(base: Path, name: str, *, contracting: bool = False) -> Path:
    """A copy of the tested release with further migrations, for PYTHONPATH."""
    source = base / name
    without = shutil.ignore_patterns("assets", ".assets-*")
    shutil.copytree(PACKAGE, source / "keyrack", ignore=without)  # includes compiled files
    (source / "keyrack" / ASSETS).symlink_to(PACKAGE / ASSETS)
    migrations = source / "keyrack/db/migrations"
    file = migrations / "__init__.py"
    file.write_text(file.read_text() + '\nRELEASES["9.1.0"] = "0104"\n')
    revision = max(path.name[:4] for path in migrations.glob("versions/0*.py"))
    for made, body in (EXPANDING | (CONTRACTING if contracting else {})).items():
        (migrations / f"versions/{made}.py").write_text(written(made, body, revision, contracts=made in CONTRACTING))
        revision = made[:4]
    return source


def written(name: str, body: str, before: str, *, contracts: bool) -> str:
    """The file of a migration."""
    steps = "".join(f"    {line}\n" for line in body.strip().splitlines())
    since = 'unused_since = "9.1.0"\n' if contracts else ""
    return (
        f'"""The step {name}."""\nfrom alembic import op\n'
        "from keyrack.db.migrations.frozen.concurrent_index import index\n"
        f'revision = "{name[:4]}"\ndown_revision = "{before}"\n{since}\ndef upgrade() -> None:\n{steps}'
    )


def command(
    source: Path, *words: str, env: Mapping[str, str], errors: IO[bytes] | int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start a `keyrack` command of the release with this source."""
    return subprocess.Popen(
        [sys.executable, "-m", "keyrack", *words],
        env={**env, "PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
    )
