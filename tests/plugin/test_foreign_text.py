"""Whatever others have written into a lock or a file: what a gate prints of it steers no terminal
and no CI."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from support import records
from support.project import Project, Seen

from perfgate.machine import machine_folder

pytestmark = pytest.mark.behaviour

HOSTILE = "\x1b]0;owned\x07\x1b[2J\n::error::owned\n##[error]owned\r\u202eowned\x9b1m"
STEERING = ("\x1b", "\x07", "\r", "\x9b", "\u202e", "\n::")


def refuse_steering(seen: Seen, *documents: str) -> None:
    texts = (seen.out, seen.err, *documents)
    assert {one: text for text in texts for one in STEERING if one in text} == {}
    assert "##[" not in seen.out + seen.err


def lock_file() -> Path:
    folder = machine_folder()
    folder.mkdir(exist_ok=True)
    return folder / "no-gpu.lock"


@contextmanager
def held(file: Path, text: str) -> Iterator[None]:
    """Another user's gate, which holds the lock and says in it what it likes."""
    with file.open("w") as opened:
        opened.write(text)
        opened.flush()
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield


@pytest.fixture
def ready(project: Project) -> Project:
    project.nsys()
    project.workload()
    project.measures(records.run())
    project.write("pyproject.toml", "[tool.perfgate]\nlock_timeout_s = 0.3\n")
    return project


def documents(project: Project) -> list[str]:
    return [
        (project.root / name).read_text("utf-8") for name in ("gate.json", "gate.md", "gate.xml")
    ]


def gate(project: Project) -> Seen:
    return project.gate(
        "--perfgate-json=gate.json",
        "--perfgate-markdown=gate.md",
        "--junitxml=gate.xml",
        "-ra",
        "-v",
    )


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"pid": 1, "since": HOSTILE, "workload": HOSTILE, "user": HOSTILE}),
        json.dumps({"pid": int("9" * 3000), "since": "", "workload": "", "user": ""}),
        HOSTILE,
        "[" * 4000,
        "\x00\xff",
        '{"pid": [1], "since": {}, "workload": null}',
    ],
)
def test_what_another_user_wrote_into_a_lock_is_escaped(ready: Project, text: str) -> None:
    with held(lock_file(), text):
        seen = gate(ready)
    assert seen.status == 1
    assert "NOT_MEASURED" in seen.out
    assert max(map(len, seen.out.splitlines())) < 1000
    refuse_steering(seen, *documents(ready))


def as_pipe(path: Path) -> None:
    os.mkfifo(path, 0o444)


def as_socket(path: Path) -> None:
    there = Path.cwd()
    os.chdir(path.parent)  # the whole path is too long for a socket's name
    try:
        with closing(socket.socket(socket.AF_UNIX)) as opened:
            opened.bind(path.name)
    finally:
        os.chdir(there)


def as_device(path: Path) -> None:
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero


@pytest.mark.parametrize(
    "put",
    [
        as_pipe,
        as_socket,
        *([as_device] if os.geteuid() == 0 else []),  # only root may make one
        Path.mkdir,
        lambda path: path.symlink_to("/dev/tty"),
        lambda path: path.symlink_to(path.with_name("nothing")),
    ],
)
def test_what_is_no_file_in_a_locks_place_is_refused_at_once(
    ready: Project, put: Callable[[Path], None]
) -> None:
    put(lock_file())
    began = time.monotonic()
    seen = gate(ready)
    assert time.monotonic() - began < 30
    assert seen.status == 1
    assert "NOT_MEASURED" in seen.out
    refuse_steering(seen, *documents(ready))


def test_a_lock_that_nobody_lets_be_opened_is_named(
    ready: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = lock_file()
    file.touch()
    opened = os.open

    def refuse(path: str | Path, *more: int, **named: object) -> int:
        if Path(path) == file:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    seen = gate(ready)
    assert seen.status == 1
    assert "NOT_MEASURED" in seen.out
    assert str(file.name) in seen.out


ESCAPES = json.dumps("\x1b[2J\n::error::owned\n##[error]owned\u202e\x9b1m")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", f"[tool.perfgate]\nruns = {ESCAPES}\n"),
        ("pyproject.toml", f"[tool.perfgate]\n{ESCAPES} = 1\n"),
        ("pyproject.toml", f"[tool.perfgate]\nnsys = {ESCAPES}\n"),
        ("workloads/train.yaml", f"command: [python]\nstep: {ESCAPES}\nsteps: {ESCAPES}\n"),
        ("workloads/train.yaml", f"command: [python]\n{ESCAPES}: 1\n"),
        (
            "workloads/more.py",
            (
                f"from perfgate import workload\n@workload(steps=3, budgets={{{ESCAPES}: 1}})\n"
                "def more(steps): pass\n"
            ),
        ),
        (
            "workloads/more.py",
            f"raise SystemExit({ESCAPES})\n# @workload\nfrom perfgate import workload\n",
        ),
    ],
)
def test_what_a_project_writes_is_escaped_where_it_is_refused(
    ready: Project, name: str, text: str
) -> None:
    ready.write(name, text)
    seen = ready.gate("-q")
    assert seen.status != 0
    refuse_steering(seen)
