"""The lock file: by version and hash what is installed in jobs that hold a token which may write.

perfgate itself is not in it: its own address holds a commit or a hash.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement

from perfgate.init import templates
from perfgate.model.errors import ScaffoldRefused

NAME: Final = "perfgate-lock.txt"
"""Below .github."""
BUILD: Final = ("hatchling>=1.26",)
"""What builds perfgate from a git URL: without it pip would fetch that unlocked."""
TIME_LIMIT_S: Final = 300.0
_GLIBCS: Final = range(39, 16, -1)
"""Minor versions of glibc 2 whose wheels run on ubuntu-24.04."""

_FROM: Final = "# perfgate itself: "
_FOR: Final = re.compile(
    r"^# For Python (3\.\d+) on GitHub's ubuntu-24\.04 \(x86_64\), of: ([^\r\n]*)", re.MULTILINE
)
_ORIGIN: Final = re.compile(rf"^{re.escape(_FROM)}(\S+)\r?$", re.MULTILINE)
_LOCKED: Final = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.!+-]+(?:\s+--hash=sha256:[0-9a-f]{64})+")
_OPTIONS: Final = ("--only-binary :all:", "--require-hashes")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What a lock file is to be of."""

    python: str
    """As `3.12`."""
    requirements: tuple[str, ...]
    origin: str | None
    """Where perfgate itself comes from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """What a lock file that perfgate init wrote, edited since or not, says of itself."""

    version: str
    """Of its writer."""
    python: str
    origin: str | None


def requirements_of(declared: Sequence[str]) -> tuple[str, ...]:
    """Return what perfgate needs with its extra github, of what its metadata declares, and what
    builds it."""
    needed = set(BUILD)
    for text in declared:
        try:
            one = Requirement(text)
        except InvalidRequirement:
            continue
        extras = ("", "github")
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras):
            one.marker = None
            needed.add(str(one))
    return tuple(sorted(needed, key=str.casefold))


def head_of(text: str) -> Head | None:
    """Read the head of a lock file; None of one that is none of perfgate's."""
    seal = templates.seal_of(text)
    made, named = re.search(_FOR, text), re.search(_ORIGIN, text)
    if seal is None or made is None:
        return None
    return Head(version=seal.version, python=made[1], origin=named[1] if named else None)


def is_current(text: str, wanted: Wanted) -> bool:
    """Whether a lock file is of what is wanted, edited or not."""
    made = re.search(_FOR, text)
    return made is not None and made[0] == _head(wanted).partition("\n")[0]


def locks(text: str) -> bool:
    """Whether every line of a lock file is a version with its hash."""
    joined = re.sub(r"\\\r?\n", " ", text)
    lines = [line.partition(" #")[0].strip() for line in joined.splitlines()]
    held = [line for line in lines if line and not line.startswith("#")]
    return bool(held) and all(line in _OPTIONS or _LOCKED.fullmatch(line) for line in held)


def locked(wanted: Wanted, *, version: str) -> str:
    """Ask an index, and return the text of a lock file.

    Raises:
        ScaffoldRefused: no index answers, it lacks something, or it does not say a hash.
    """
    pinned = "".join(f"{line}\n" for line in _resolved(wanted))
    return templates.sealed(f"{_head(wanted)}--only-binary :all:\n{pinned}", version=version)


def _head(wanted: Wanted) -> str:
    origin = "not known where from" if wanted.origin is None else wanted.origin
    needed = ", ".join(wanted.requirements)
    return f"# For Python {wanted.python} on GitHub's ubuntu-24.04 (x86_64), of: {needed}\n{_FROM}{origin}\n"


def _resolved(wanted: Wanted) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="perfgate-lock-") as folder:
        report = Path(folder) / "report.json"
        _ask_pip(wanted, report)
        try:
            found = json.loads(report.read_text(encoding="utf-8"))["install"]
            lines = [_line(one) for one in found]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ScaffoldRefused("lock-not-resolved", reason=str(error)) from error
    yield from sorted(lines, key=str.casefold)


def pip_command(wanted: Wanted, report: Path) -> list[str]:
    """Return the command by which pip says, in a report, what it would install on GitHub's runners."""
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in _GLIBCS]
    return [
        *(sys.executable, "-I", "-m", "pip", "install", "--quiet", "--no-input"),
        *("--disable-pip-version-check", "--retries", "1", "--dry-run", "--ignore-installed"),
        *(f"--report={report}", f"--target={report.parent}", "--only-binary=:all:"),
        *("--implementation=cp", f"--python-version={wanted.python}"),
        *(f"--platform={one}" for one in (*platforms, "manylinux2014_x86_64", "linux_x86_64")),
        *wanted.requirements,
    ]


def _ask_pip(wanted: Wanted, report: Path) -> None:
    try:
        done = subprocess.run(
            pip_command(wanted, report),
            cwd=report.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ScaffoldRefused("lock-not-resolved", reason=str(error)) from error
    if done.returncode != 0:
        printed = done.stderr.splitlines() or [f"exit status {done.returncode}"]
        errors = [line for line in printed if line.startswith("ERROR")] or printed
        raise ScaffoldRefused("lock-not-resolved", reason=errors[-1])


def _line(one: Mapping[str, Mapping[str, Mapping[str, Mapping[str, str]]]]) -> str:
    name, version = one["metadata"]["name"], one["metadata"]["version"]
    sha256 = one["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256", "")
    line = f"{name}=={version} --hash=sha256:{sha256}"
    if not _LOCKED.fullmatch(line):
        raise ValueError(f"the index says no hash of {name} {version}")
    return line
