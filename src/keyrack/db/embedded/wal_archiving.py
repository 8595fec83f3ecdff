"""In charge of where the server's WAL is archived to, and of the program by which PostgreSQL does it and gets it back.

Archiving belongs to the state directory, not to whoever happens to start the server: a command without the setting
would else leave a gap in the archive that nothing closes. So it is remembered there until the setting is `off`.

The program is a shell script, written anew at each start: PostgreSQL's account may be unable to reach our Python, and
an update may take ours away while the server runs.
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
TIMEOUT = 60  # seconds after which a segment that is not full is archived too

# put FILE DIRECTORY NAME; get DIRECTORY NAME FILE [OTHER DIRECTORY]
# A second `put` is right after a crash: the same bytes are no error, other bytes are. `get` says 1 for what is not
# there, which PostgreSQL takes for the end of the archive, and 126 for what it must not take for that.
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
    """The directory of the backups: the one that is wanted, else the one that is remembered; None for no archiving."""
    if wanted is None:
        with suppress(FileNotFoundError, NotADirectoryError):
            return Path(_note(layout).read_text().strip())
        return None
    return None if wanted == OFF else Path(wanted)


def remember(layout: Layout, directory: Path | None) -> None:
    """Have later servers of the state directory archive to the same place."""
    note = _note(layout)
    if directory is None:
        note.unlink(missing_ok=True)
    else:
        _write(note, f"{directory}\n", 0o600)


def refuse_beginning(layout: Layout, directory: Path) -> None:
    """Raises EmbeddedServerError where the data are missing that the backups are of: no empty ones in their place."""
    if not (layout.data / "PG_VERSION").exists() and owner(directory) is not None:
        raise EmbeddedServerError(
            f"There are no data in {layout.data}, but backups of them in {directory}. `keyrack backup restore` brings "
            "them back. To begin with an empty database, set KEYRACK_BACKUP_DIRECTORY to another directory."
        )


def parameters(layout: Layout, directory: Path, binaries: Binaries, account: OsAccount) -> dict[str, str]:
    """What the server is told to archive to the directory, which is made where it is missing.

    Raises EmbeddedServerError: it cannot be made or reached, or holds the backups of another database.
    """
    wal = directory / "wal"
    try:
        for path in (directory, directory / "base"):
            path.mkdir(mode=0o711, parents=True, exist_ok=True)
        if account.shared:  # other programs run as this account, too
            os.chown(directory, -1, account.gid)
            directory.chmod(0o710)
        wal.mkdir(mode=0o700, exist_ok=True)
        account.own(wal)
    except OSError as error:
        raise EmbeddedServerError(f"Backups cannot be kept in {directory}: {error.strerror}.") from None
    if account.switch and not account.can_enter(wal):
        raise EmbeddedServerError(
            f"The OS user {account.name}, who runs PostgreSQL for root, cannot enter {wal}. Set "
            "KEYRACK_BACKUP_DIRECTORY to a directory that this user can reach."
        )
    _claim(directory, system(layout.data, binaries, account))
    _write(program(layout), SCRIPT, 0o755)
    return {
        "archive_mode": "on",
        "archive_command": f"{_call(layout, 'put', '%p', wal, '%f')} || exit 1",  # 126 would have it start anew
        "archive_timeout": str(TIMEOUT),
    }


def restore_parameters(layout: Layout, directory: Path, other: Path | None) -> dict[str, str]:
    """What a server is told that is to get its WAL back from there; and from `other`, a pg_wal, what is not there."""
    _write(program(layout), SCRIPT, 0o755)
    return {"restore_command": _call(layout, "get", directory / "wal", "%f", "%p", *([other] if other else []))}


def owner(directory: Path) -> str | None:
    """The identifier of the database whose backups these are; None where there are none yet."""
    try:
        return (directory / "cluster").read_text().strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EmbeddedServerError(f"The backups in {directory} cannot be read: {error.strerror}.") from None


def system(data: Path, binaries: Binaries, account: OsAccount) -> str:
    """The identifier of the database, which its copies share. Raises EmbeddedServerError."""
    said = account.run([binaries.directory / "pg_controldata", "-D", data])
    match = re.search(r"^Database system identifier:\s+(\d+)$", said.stdout, re.MULTILINE)
    if not match:
        raise EmbeddedServerError(f"The data in {data} cannot be read: {said.stderr.strip()[-2000:]}")
    return match[1]


def program(layout: Layout) -> Path:
    """The program that archives and gets back."""
    return layout.state / "archive.sh"


def _claim(directory: Path, ours: str) -> None:
    theirs = owner(directory)
    if theirs is None:
        _write(directory / "cluster", f"{ours}\n", 0o644)
    elif theirs != ours:
        raise EmbeddedServerError(
            f"{directory} holds the backups of another database ({theirs}; this one is {ours}). Set "
            "KEYRACK_BACKUP_DIRECTORY to a directory of this one's own."
        )


def _call(layout: Layout, *words: str | Path) -> str:
    """The command for a shell; what PostgreSQL would replace in a path is doubled."""
    named = [word if word in ("%p", "%f") else shlex.quote(str(word)).replace("%", "%%") for word in words]
    quoted = shlex.quote(str(program(layout))).replace("%", "%%")
    return " ".join(["/bin/sh", quoted, *(f'"{word}"' if word in ("%p", "%f") else str(word) for word in named)])


def _note(layout: Layout) -> Path:
    return layout.state / "backup.directory"


def _write(path: Path, text: str, mode: int) -> None:
    """Write the file whole, in the place of what is there."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as out:
        os.fchmod(out.fileno(), mode)
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)
