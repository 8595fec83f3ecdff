"""WAL archiving of the embedded server: its directory, and the script that archives and restores.

Archiving belongs to the state directory, not to the process that happens to start the server. Otherwise a command
without the setting would leave a permanent gap in the archive. So the state directory remembers it until the setting is
`off`.

The program is a shell script that each start writes again. PostgreSQL's account may be unable to reach our Python, and
an update may remove our Python while the server runs.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path

from keyrack.db.embedded.binaries import Binaries, EmbeddedServerError, OsAccount
from keyrack.db.embedded.layout import Layout

OFF = "off"
TIMEOUT = 60  # seconds after which a partial segment is archived too

# put FILE DIRECTORY NAME; get DIRECTORY NAME FILE [OTHER DIRECTORY]
# A second `put` is normal after a crash: the same bytes are no error, other bytes are. `get` exits with 1 for a missing
# file, which PostgreSQL takes as the end of the archive. It exits with 126 if PostgreSQL must not conclude that.
SCRIPT = r"""#!/bin/sh
# Written by Keyrack whenever it starts its PostgreSQL.
umask 077

put() {
    target="$2/$3.gz"
    if [ -e "$target" ]; then
        if gzip -cd <"$target" | cmp -s - "$1"; then
            sync "$target" "$2"
            return
        fi
        echo "archive: $target is there already with other content: not archived" >&2
        return 1
    fi
    rm -f "$2/.$3".*
    fresh="$2/.$3.$$"
    if gzip -n -1 <"$1" >"$fresh" && sync "$fresh" && mv "$fresh" "$target" && sync "$2"; then
        return 0
    fi
    rm -f "$fresh"
    return 1
}

get() {
    if [ ! -d "$1" ]; then
        echo "archive: $1 is not there" >&2
        return 126
    fi
    if [ -e "$1/$2.gz" ]; then
        gzip -cd <"$1/$2.gz" >"$3" && return 0
        echo "archive: $1/$2.gz is damaged" >&2
        return 126
    fi
    [ -n "$4" ] && [ -f "$4/$2" ] && cp "$4/$2" "$3"
}

case "$1" in
put) put "$2" "$3" "$4" || exit 1 ;;
get) get "$2" "$3" "$4" "$5" ;;
esac
"""


def resolve_archive_directory(layout: Layout, wanted: str | None) -> Path | None:
    """The directory of the backups: the setting, else the remembered one; None without archiving."""
    if wanted is None:
        with suppress(FileNotFoundError, NotADirectoryError):
            return Path(_note(layout).read_text().strip())
        return None
    return None if wanted == OFF else Path(wanted)


def remember(layout: Layout, directory: Path | None) -> None:
    """Remember the archive directory for later servers of the state directory."""
    note = _note(layout)
    if directory is None:
        note.unlink(missing_ok=True)
    else:
        _write(note, f"{directory}\n", 0o600)


def refuse_beginning(layout: Layout, directory: Path) -> None:
    """Raise EmbeddedServerError if the data are missing, but backups of them exist.

    It prevents an empty database in place of the lost one.
    """
    if not (layout.data / "PG_VERSION").exists() and owner(directory) is not None:
        raise EmbeddedServerError(
            f"There are no data in {layout.data}, but backups of them in {directory}. `keyrack backup restore` "
            "restores them. To begin with an empty database, set KEYRACK_BACKUP_DIRECTORY to another directory."
        )


def parameters(layout: Layout, directory: Path, binaries: Binaries, account: OsAccount) -> dict[str, str]:
    """The server parameters that archive to `directory`, which is made if missing.

    Raises EmbeddedServerError if the directory cannot be made or reached, or has the backups of another database.
    """
    wal = directory / "wal"
    try:
        for path in (directory, directory / "base"):
            path.mkdir(mode=0o711, parents=True, exist_ok=True)
        if account.shared:  # unrelated programs run as this account, too
            os.chown(directory, -1, account.gid)
            directory.chmod(0o710)
        wal.mkdir(mode=0o700, exist_ok=True)
        account.own(wal)
    except OSError as error:
        raise EmbeddedServerError(f"Backups cannot be written to {directory}: {error.strerror}.") from None
    if account.switch and not account.can_enter(wal):
        raise EmbeddedServerError(
            f"The OS user {account.name}, which runs PostgreSQL for root, cannot enter {wal}. Set "
            "KEYRACK_BACKUP_DIRECTORY to a directory that this user can reach."
        )
    _claim(directory, system(layout.data, binaries, account))
    _write(program(layout), SCRIPT, 0o755)
    return {
        "archive_mode": "on",
        "archive_command": f"{_call(layout, 'put', '%p', wal, '%f')} || exit 1",  # 126 would restart the archiver
        "archive_timeout": str(TIMEOUT),
    }


def restore_parameters(layout: Layout, directory: Path, other: Path | None) -> dict[str, str]:
    """The server parameters that restore WAL from `directory`.

    WAL that is missing there comes from `other`, a pg_wal.
    """
    _write(program(layout), SCRIPT, 0o755)
    return {"restore_command": _call(layout, "get", directory / "wal", "%f", "%p", *([other] if other else []))}


def owner(directory: Path) -> str | None:
    """The identifier of the database that the backups belong to; None without backups. Raises EmbeddedServerError."""
    try:
        return (directory / "cluster").read_text().strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EmbeddedServerError(f"The backups in {directory} cannot be read: {error.strerror}.") from None


def system(data: Path, binaries: Binaries, account: OsAccount) -> str:
    """The system identifier of the database, which its copies share. Raises EmbeddedServerError."""
    said = account.run([binaries.directory / "pg_controldata", "-D", data])
    match = re.search(r"^Database system identifier:\s+(\d+)$", said.stdout, re.MULTILINE)
    if not match:
        raise EmbeddedServerError(f"The data in {data} cannot be read: {said.stderr.strip()[-2000:]}")
    return match[1]


def program(layout: Layout) -> Path:
    """The script that archives and restores."""
    return layout.state / "archive.sh"


def _claim(directory: Path, ours: str) -> None:
    theirs = owner(directory)
    if theirs is None:
        _write(directory / "cluster", f"{ours}\n", 0o644)
    elif theirs != ours:
        raise EmbeddedServerError(
            f"{directory} has the backups of another database ({theirs}; this one is {ours}). Set "
            "KEYRACK_BACKUP_DIRECTORY to another directory."
        )


def _call(layout: Layout, *words: str | Path) -> str:
    """The shell command of the script; doubles each `%`, which PostgreSQL would replace in a path."""
    named = [word if word in ("%p", "%f") else shlex.quote(str(word)).replace("%", "%%") for word in words]
    quoted = shlex.quote(str(program(layout))).replace("%", "%%")
    return " ".join(["/bin/sh", quoted, *(f'"{word}"' if word in ("%p", "%f") else str(word) for word in named)])


def _note(layout: Layout) -> Path:
    return layout.state / "backup.directory"


def _write(path: Path, text: str, mode: int) -> None:
    """Replace the file atomically."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as out:
        os.fchmod(out.fileno(), mode)
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)
