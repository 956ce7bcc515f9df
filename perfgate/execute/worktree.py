"""A commit checked out next to the project for the length of a `with` block; knows nothing of what
is run there.

```
<folder>/<sha12>-<random>/            marked as long as its gate lives, removed by the next one else
<folder>/<sha12>-<random>/checkout/   the worktree; next to it is room for what perfgate needs there
```
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perfgate.execute.places import Place, Places
from perfgate.model.errors import RepositoryUnreadable, WorktreeFailed
from perfgate.model.note import note
from perfgate.system import git
from perfgate.system.files import left, refused_as, underway
from perfgate.system.process import Listening, run_process
from perfgate.system.signals import holding_signals_back

ROOT: Final = "PERFGATE_ROOT"
"""Says to the setup where the project itself is: data and caches that no commit holds can be linked
from there."""
COMMIT: Final = "PERFGATE_COMMIT"
SETUP_TIMEOUT_S: Final = 1800.0
TAIL_LINES: Final = 20
SHOWN_SHA: Final = 12
"""Digits of a commit that messages show."""
_NAME: Final = re.compile(r"[0-9a-f]{12}-[0-9a-f]{8}")


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
        if Places(self.origin_top).around(real) == Place(self.origin_top, is_tree=True):
            return self.top / real.relative_to(self.origin_top)
        return None


@contextmanager
def worktree(
    root: Path, revision: str, *, folder: Path, env: Mapping[str, str]
) -> Iterator[Worktree]:
    """Check a commit out below `folder`, and remove it on every way out.

    What a gate that was killed has left in `folder` is removed first.

    Args:
        root: the project's root.
        revision: the commit.
        folder: where worktrees lie; git ignores the folder around it.
        env: the environment of git.

    Raises:
        RevisionMissing: the clone does not have the commit.
        RepositoryUnreadable: git does not answer.
        WorktreeFailed: it cannot be checked out.
    """
    commit = git.resolve(root, revision, env=env)
    origin, origin_top = root.resolve(), git.top(root, env=env)
    folder = folder.resolve()
    home = folder / f"{commit[:SHOWN_SHA]}-{secrets.token_hex(4)}"
    with ExitStack() as held:
        with writing(commit, folder):
            folder.mkdir(parents=True, exist_ok=True)
            ignore = folder.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
            remove_abandoned(root, folder, env=env)
            held.callback(_remove, root, home, env)
            home.mkdir()
            held.enter_context(underway(home))
        top = home / "checkout"
        git.add_worktree(root, top, commit, env=env)
        yield Worktree(
            top=top,
            root=top / origin.relative_to(origin_top),
            commit=commit,
            origin=origin,
            origin_top=origin_top,
        )


def set_up(
    tree: Worktree,
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    time_left_s: float,
    listening: Listening,
) -> None:
    """Run the command that makes a checkout ready to run, in its root.

    It finds the project's root in `PERFGATE_ROOT` and the commit in `PERFGATE_COMMIT`.

    Args:
        tree: the checkout.
        command: word by word.
        env: its environment.
        time_left_s: of the gate's time budget, s; it may take `SETUP_TIMEOUT_S` at most.
        listening: who hears of what it prints.

    Raises:
        WorktreeFailed: it cannot be started, fails, or does not end in time.
    """
    timeout_s, log = min(max(time_left_s, 0.0), SETUP_TIMEOUT_S), tree.home / "setup.log"
    with refused_as(WorktreeFailed, "setup-not-started", commit=tree.shown):
        ended = run_process(
            command,
            cwd=tree.root,
            env={**git.without_repository(env), ROOT: str(tree.origin), COMMIT: tree.commit},
            log=log,
            timeout_s=timeout_s,
            listening=listening,
        )
    tail = [line for line in log.read_text("utf-8").splitlines() if line.strip()][-TAIL_LINES:]
    output = (note("output-tail", lines="\n".join(tail)) if tail else note("output-none"),)
    if ended.timed_out:
        raise WorktreeFailed("setup-timed-out", commit=tree.shown, limit_s=timeout_s, output=output)
    if ended.returncode:
        raise WorktreeFailed(
            "setup-failed", commit=tree.shown, status=ended.returncode, output=output
        )


def writing(commit: str, folder: Path) -> AbstractContextManager[None]:
    """Raise WorktreeFailed where the disk refuses what belongs to a checkout."""
    shown = commit[:SHOWN_SHA]
    return refused_as(WorktreeFailed, "checkout-not-written", commit=shown, folder=str(folder))


def remove_abandoned(root: Path, folder: Path, *, env: Mapping[str, str]) -> tuple[str, ...]:
    """Remove the worktrees below `folder` whose gate was killed, and return their names.

    Raises:
        OSError: the folder cannot be listed.
    """
    removed = []
    for home in sorted(folder.iterdir()) if folder.is_dir() else ():
        if _NAME.fullmatch(home.name):
            with left(home) as is_left:
                if is_left:
                    _remove(root, home, env)
                    removed.append(home.name)
    return tuple(removed)


def _remove(root: Path, home: Path, env: Mapping[str, str]) -> None:
    """Remove a worktree and git's entry of it; what cannot be removed stays."""
    if not home.exists():
        return
    with holding_signals_back():
        with suppress(RepositoryUnreadable):
            git.remove_worktree(root, home / "checkout", env=env)
        shutil.rmtree(home, ignore_errors=True)
