"""What runs share: the project, or another commit that is checked out next to it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from perfgate.execute.side_environment import interpreter, options_there, pin
from perfgate.execute.worktree import Worktree, set_up, worktree
from perfgate.model.machine import Machine
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import Settings
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.system.process import Listening, ignore


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What stays the same over all runs of a gate."""

    root: Path
    settings: Settings
    tool: NsysTool
    machine: Machine
    env: Mapping[str, str]
    python: str
    """The interpreter of the workers."""
    pytest_options: tuple[str, ...] = ()
    """What the pytest inside a worker must share with the one around the gate: configuration file,
    plugins."""
    keep_captures: bool = False
    tree: Worktree | None = None
    """The checkout of another commit that the runs are of; `root` lies in it then."""
    began_at: float = field(default_factory=time.time)
    """POSIX time; files that are younger may have been written by the runs."""

    @cached_property
    def cleaner(self) -> Cleaner:
        """Takes secrets out of what its runs print and write; also those that a conftest put into
        this process."""
        return Cleaner({**os.environ, **self.env}, self.settings.pass_env)


@contextmanager
def at_commit(
    context: RunContext,
    revision: str,
    *,
    on_line: Callable[[str], object] = ignore,
    time_left_s: float = math.inf,
) -> Iterator[RunContext]:
    """Lend a context whose runs are of another commit, checked out below `.perfgate` for as long as
    the block lasts.

    `on_line` gets what `ab_setup` prints, which may take as long as `time_left_s`.

    Raises:
        RevisionMissing: the clone does not have the commit.
        RepositoryUnreadable: git does not answer.
        WorktreeFailed: it cannot be checked out or made ready to run, or lacks the interpreter that
        `ab_python` names.
    """
    folder, setup = context.root / ".perfgate" / "worktrees", context.settings.ab_setup
    with worktree(context.root, revision, folder=folder, env=context.env) as tree:
        if setup:
            set_up(
                tree,
                setup,
                env=context.env,
                time_left_s=time_left_s,
                listening=Listening(on_line=on_line, clean=context.cleaner.clean),
            )
        pin(tree)
        own = context.settings.ab_python
        yield replace(
            context,
            root=tree.root,
            python=context.python if own is None else str(interpreter(tree, own)),
            pytest_options=options_there(context.pytest_options, tree),
            tree=tree,
        )
