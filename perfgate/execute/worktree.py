"""A commit checked out beside the project for the length of a `with` block; knows nothing of what
is run there.

```
<folder>/.lock                        held while worktrees are made and abandoned ones removed
<folder>/<sha12>-<random>.lock        held by the gate that the worktree belongs to, for as long as it lives
<folder>/<sha12>-<random>/checkout/   the worktree; beside it is room for what perfgate itself needs there
```
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import secrets
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from perfgate.execute.places import is_environment
from perfgate.model.errors import RepositoryUnreadable, WorktreeFailed
from perfgate.model.note import Note, note
from perfgate.system import git

ROOT: Final = "PERFGATE_ROOT"
"""Tells the setup where the project itself is: data and caches that no commit holds can be linked
from there."""
COMMIT: Final = "PERFGATE_COMMIT"
SETUP_TIMEOUT_S: Final = 1800.0
TAIL_LINES: Final = 20
SHOWN_SHA: Final = 12
"""Digits of a commit that messages show."""

_NAME = re.compile(r"[0-9a-f]{12}-[0-9a-f]{8}")
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


class Ended(Protocol):
    """How a program ended."""

    @property
    def returncode(self) -> int | None:
        """Exit status, minus the signal's number, None where it was ended for its time limit."""

    @property
    def timed_out(self) -> bool:
        """Whether its time limit came first."""


class RunProcess(Protocol):
    """Runs a program to its end with everything that it starts; raises OSError where it cannot be
    started."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        log: Path,
        timeout_s: float,
        on_line: Callable[[str], None] | None = None,
    ) -> Ended:
        """Return when nothing of it runs any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Worktree:
    """One commit's checkout. All paths are absolute and without links."""

    top: Path
    """The checkout."""
    root: Path
    """The project's root inside it; another folder than `top` in a monorepo."""
    commit: str
    origin: Path
    """The project's root proper."""
    origin_top: Path
    """The top of the repository proper."""

    @property
    def home(self) -> Path:
        """The folder around the checkout, which goes with it."""
        return self.top.parent

    @property
    def shown(self) -> str:
        """The commit as messages name it."""
        return self.commit[:SHOWN_SHA]

    def counterpart(self, path: Path) -> Path | None:
        """The same place in the checkout; None of what is not the project's: elsewhere, or in an
        environment."""
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self.origin_top) or real.is_relative_to(self.home):
            return None
        inner = real.relative_to(self.origin_top)
        folders = (self.origin_top / part for part in (inner, *inner.parents[:-1]))
        return None if any(map(is_environment, folders)) else self.top / inner


@contextmanager
def worktree(
    root: Path,
    revision: str,
    *,
    folder: Path,
    env: Mapping[str, str],
    run: RunProcess,
    setup: Sequence[str] = (),
    on_line: Callable[[str], None] | None = None,
    time_left_s: float = math.inf,
) -> Iterator[Worktree]:
    """Check a commit out below `folder` and make it ready; on every way out it is removed.

    What a gate that was killed has left behind in `folder` is removed first.

    Args:
        root: the project's root.
        revision: the commit.
        folder: where worktrees lie; it belongs to perfgate, and git ignores it with the folder
            around it.
        env: the environment of git and `setup`.
        run: runs `setup`.
        setup: a command, word by word, that is run in the checkout's root. It finds the project's
            root in
            `PERFGATE_ROOT` and the commit in `PERFGATE_COMMIT`.
        on_line: gets the lines that `setup` prints.
        time_left_s: of the gate's time budget, s; `setup` may take as long, and `SETUP_TIMEOUT_S`
            at most.

    Raises:
        RevisionMissing: the clone does not have the commit.
        RepositoryUnreadable: git does not answer.
        WorktreeFailed: it cannot be checked out, `setup` fails, or Git LFS has left pointers.
    """
    commit = git.resolve(root, revision, env=env)
    within = git.prefix(root, env=env)
    origin = root.resolve()
    with _home(root, folder.resolve(), commit, env) as home:
        top = home / "checkout"
        git.add_worktree(root, top, commit, env=env)
        origin_top = origin.parents[len(within.parts) - 1] if within.parts else origin
        tree = Worktree(
            top=top, root=top / within, commit=commit, origin=origin, origin_top=origin_top
        )
        if not tree.root.is_dir():
            raise WorktreeFailed("commit-without-root", commit=tree.shown, folder=str(within))
        if setup:
            _set_up(tree, setup, env=env, run=run, on_line=on_line, time_left_s=time_left_s)
        _refuse_pointers(tree, env)
        yield tree


def _set_up(
    tree: Worktree,
    setup: Sequence[str],
    *,
    env: Mapping[str, str],
    run: RunProcess,
    on_line: Callable[[str], None] | None,
    time_left_s: float,
) -> None:
    timeout_s = min(max(time_left_s, 0.0), SETUP_TIMEOUT_S)
    tail: deque[str] = deque(maxlen=TAIL_LINES)

    def take(line: str) -> None:
        if line.strip():
            tail.append(line)
        if on_line is not None:
            on_line(line)

    variables = {**git.without_repository(env), ROOT: str(tree.origin), COMMIT: tree.commit}
    try:
        ended = run(
            setup,
            cwd=tree.root,
            env=variables,
            log=tree.home / "setup.log",
            timeout_s=timeout_s,
            on_line=take,
        )
    except OSError as error:
        raise WorktreeFailed(
            "setup-not-started", commit=tree.shown, why=error.strerror or str(error)
        ) from error
    if ended.timed_out or ended.returncode is None:
        raise WorktreeFailed(
            "setup-timed-out", commit=tree.shown, limit_s=timeout_s, output=_output(tail)
        )
    if ended.returncode:
        raise WorktreeFailed(
            "setup-failed", commit=tree.shown, status=ended.returncode, output=_output(tail)
        )


def _output(tail: Sequence[str]) -> tuple[Note, ...]:
    return (note("output-tail", lines="\n".join(tail)) if tail else note("output-none"),)


def _refuse_pointers(tree: Worktree, env: Mapping[str, str]) -> None:
    """Refuse to compare files with what Git LFS left in their place.

    Raises:
        WorktreeFailed: names the first of them.
    """
    for name in git.lfs_files(tree.root, env=env):
        if (
            _is_pointer(tree.root / name)
            and (tree.origin / name).is_file()
            and not _is_pointer(tree.origin / name)
        ):
            raise WorktreeFailed("lfs-pointer", commit=tree.shown, file=name)


def _is_pointer(file: Path) -> bool:
    with suppress(OSError), file.open("rb") as opened:
        return opened.read(len(_LFS_POINTER)) == _LFS_POINTER
    return False


def remove_abandoned(root: Path, folder: Path, *, env: Mapping[str, str]) -> tuple[str, ...]:
    """Remove the worktrees below `folder` that no living gate holds, and return the names of those
    that were there.

    Raises:
        OSError: the folder cannot be listed or locked.
    """
    if not folder.is_dir():
        return ()
    with _alone_in(folder):
        before = _worktrees_in(folder)
        _remove_abandoned(root, folder.resolve(), env)
        return tuple(sorted(before - _worktrees_in(folder)))


def _worktrees_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir() and _NAME.fullmatch(path.name)}


# Folders and locks


@contextmanager
def _home(root: Path, folder: Path, commit: str, env: Mapping[str, str]) -> Iterator[Path]:
    """Make a folder of one's own and remove it, together with the worktree in it."""
    home = folder / f"{commit[:12]}-{secrets.token_hex(4)}"
    held: list[int] = []
    try:
        try:
            _prepare(folder)
            with _alone_in(folder):
                _remove_abandoned(root, folder, env)
                held.append(
                    os.open(
                        _lock_of(home), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666
                    )
                )
                _take(held[0])
                home.mkdir()
        except OSError as error:
            raise WorktreeFailed(
                "checkout-not-written",
                commit=commit[:SHOWN_SHA],
                folder=str(folder),
                why=error.strerror or str(error),
            ) from error
        yield home
    finally:
        try:
            _remove(root, home, env)
        except KeyboardInterrupt:
            _remove(root, home, env)
            raise
        finally:
            for descriptor in held:
                os.close(descriptor)


def _lock_of(home: Path) -> Path:
    return home.with_name(f"{home.name}.lock")


def _prepare(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder.parent / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _take(descriptor)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> None:
    # Some network file systems lock nothing; there nothing is ever found abandoned either.
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _remove_abandoned(root: Path, folder: Path, env: Mapping[str, str]) -> None:
    """Remove worktrees whose gate is gone: nobody holds their lock."""
    names = {path.name.removesuffix(".lock") for path in folder.iterdir()}
    for name in sorted(name for name in names if _NAME.fullmatch(name)):
        home = folder / name
        try:
            descriptor = os.open(_lock_of(home), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:  # another user's
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(root, home, env)
        except OSError:
            continue
        finally:
            os.close(descriptor)


def _remove(root: Path, home: Path, env: Mapping[str, str]) -> None:
    """Remove a worktree, git's entry of it, and its lock; what cannot be removed is left to the
    next gate."""
    if home.exists():
        top = home / "checkout"
        # Before git's own removal, which stops at the first file that it cannot delete.
        shutil.rmtree(top, ignore_errors=True)
        with suppress(RepositoryUnreadable):
            git.remove_worktree(root, top, env=env)
        shutil.rmtree(home, ignore_errors=True)
    with suppress(OSError):
        _lock_of(home).unlink(missing_ok=True)
