"""The sources in C for tests.

Box and phone are built with their makefiles.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

SANITIZED = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"  # flags
PROBE = "#include <bearssl.h>\nint main(void) { return br_ec_get_default() == 0; }\n"


def compiler() -> str:
    """The C compiler. Skips the test if it or BearSSL is missing."""
    cc = os.environ.get("CC", "cc")
    if not shutil.which(cc) or not shutil.which("make"):
        pytest.skip("there is no C compiler, or no make")
    with tempfile.TemporaryDirectory() as directory:
        link = [cc, "-x", "c", "-", "-o", f"{directory}/probe", "-lbearssl"]
        if subprocess.run(link, input=PROBE.encode(), capture_output=True, check=False).returncode:
            pytest.skip("there is no BearSSL (Debian: libbearssl-dev)")
    return cc


def with_sanitizer() -> dict[str, str]:
    """The environment in which Python loads code with sanitizers. Skips the test if the compiler has none."""
    find = [compiler(), "-print-file-name=libasan.so"]
    path = subprocess.run(find, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_absolute():
        pytest.skip("the C compiler has no sanitizer")
    return os.environ | {"LD_PRELOAD": path, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}


@dataclass(frozen=True)
class Sources:
    """A directory of sources in C, with a makefile."""

    path: Path

    def make(self, build: Path, *targets: str, flags: str = "-Os") -> None:
        variables = [f"BUILD={build}", f"CC={compiler()}", f"CFLAGS={flags}"]
        command = ["make", "-C", str(self.path), *variables, *targets]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr

    @functools.cached_property
    def _kept(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix=f"keyrack-{self.path.name}-")

    @functools.cached_property
    def build(self) -> Path:
        """The directory with all default targets, one for each process."""
        build = Path(self._kept.name)
        self.make(build, "all")
        return build


def code_size(objects: Sequence[str]) -> int:
    """The bytes of code and constants. There are no mutable globals."""
    sizes = subprocess.run(["size", *objects], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    text, data, bss = (sum(int(line.split()[column]) for line in sizes) for column in range(3))
    assert len(sizes) == len(objects)
    assert (data, bss) == (0, 0)
    return text


def foreign_names(objects: Sequence[str]) -> set[str]:
    """The functions that the code calls and does not have.

    Those that a compiler may call by itself are left out.
    """
    names = subprocess.run(["nm", "-u", *objects], capture_output=True, text=True, check=True).stdout
    own = {"memcpy", "memmove", "memset", "memcmp", "strlen", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}
    return {name for name in re.findall(r" U (\w+)", names) if not name.startswith("kr_")} - own


def check_example(readme: str, include: Sequence[Path], path: Path) -> None:
    """Compile all C code of a README, as one file at `path`."""
    parts = re.findall(r"^```c\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    assert len(parts) == 2
    path.write_text("\n".join(parts))
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *(f"-I{each}" for each in include)]
    done = subprocess.run([compiler(), *flags, str(path)], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


_REFERENCE = Path(__file__).parents[2] / "reference"
BOX, PHONE = Sources(_REFERENCE / "box"), Sources(_REFERENCE / "phone-core")
