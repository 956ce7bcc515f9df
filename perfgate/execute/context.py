"""What runs share: the project, or another commit that is checked out next to it."""

from __future__ import annotations

import json
import math
import os
import re
import time
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from perfgate.execute.places import Place, Places
from perfgate.execute.side_environment import interpreter, options_there, pin
from perfgate.execute.worktree import Worktree, set_up, worktree
from perfgate.model.errors import RepositoryUnreadable
from perfgate.model.machine import Machine
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import Settings
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.system import git
from perfgate.system.files import files_below
from perfgate.system.process import Listening, ignore

COMPILED: Final = ".so"


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

    @cached_property
    def side(self) -> SideFiles:
        """Its files: all runs load nearly the same ones, which are looked up once."""
        return SideFiles(self)


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


# Its files


class SideFiles:
    """The files of one side, and what may be a copy of them."""

    def __init__(self, context: RunContext) -> None:
        self._env, self._root, tree = context.env, context.root.resolve(), context.tree
        self._is_reference, self._top = tree is not None, self._root
        if tree is not None:
            self._top = tree.top
        else:
            with suppress(RepositoryUnreadable):
                self._top = git.top(self._root, env=self._env)
        self._own = Place(self._top, is_tree=True)
        self._trees = {self._top} if tree is None else {self._top, tree.origin_top}
        self._places = Places(*self._trees)
        self._installed: dict[Path, set[str]] = {}

    def loaded(self, files: Iterable[Path]) -> tuple[set[Path], dict[Path, Path]]:
        """The side's own files, without links, that a run loaded, or equal copies of; and what it
        loaded instead of one, with that."""
        by_place: dict[Place | None, list[Path]] = {}
        for file in files:
            by_place.setdefault(self._places.of(file), []).append(file)
        own = {self._places.real(file) for file in by_place.pop(self._own, ()) if file.is_file()}
        strays: dict[Path, Path] = {}
        for place, there in by_place.items():
            if place is None:
                continue
            for file, originals in self._copies(place, there):
                same = [one for one in originals if _read(one) == _read(file)]
                if same and place.folder not in self._trees:
                    own.add(same[0])
                else:
                    strays[file] = min(originals, default=file)
        return own, strays

    def _copies(self, place: Place, files: Iterable[Path]) -> Iterator[tuple[Path, list[Path]]]:
        """The project's among some files of one place elsewhere, each with the side's own that it
        may be a copy of."""
        is_other_side, top = place.folder in self._trees, self._top
        is_foreign = place.is_tree and not is_other_side
        if is_foreign and not git.is_same_repository(top, place.folder, env=self._env):
            return
        installed = set() if place.is_tree else self._installed_in(place.folder)
        for file in files:
            there = file if file.is_relative_to(place.folder) else self._places.real(file)
            inner = there.relative_to(place.folder)
            if place.is_tree:
                found = {top / inner} & self.tracked
            elif inner.as_posix() in installed:
                found = {one for one in self.tracked if str(one).endswith(f"/{inner}")}
            else:
                continue
            proves_none = self._is_reference and file.suffix == COMPILED
            if found or proves_none or is_other_side:
                yield file, sorted(found)

    def _installed_in(self, site: Path) -> set[str]:
        """The files that installing the project, of either side, has put into a folder."""
        if site in self._installed:
            return self._installed[site]
        made = list(filter(self._is_made_here, metadata.distributions(path=[str(site)])))
        with suppress(OSError, ValueError, KeyError, TypeError):
            table = tomllib.loads((self._root / "pyproject.toml").read_text("utf-8"))
            made += metadata.distributions(name=table["project"]["name"], path=[str(site)])
        self._installed[site] = {file.as_posix() for one in made for file in one.files or ()}
        return self._installed[site]

    def _is_made_here(self, installed: metadata.Distribution) -> bool:
        """Whether a distribution was installed from a folder or archive of a side (PEP 610)."""
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            url = json.loads(installed.read_text("direct_url.json") or "{}")["url"]
            scheme, _, path = url.partition("://")
            origin = Path(os.path.realpath(unquote(path)))
            return scheme == "file" and any(map(origin.is_relative_to, self._trees))
        return False

    @cached_property
    def tracked(self) -> set[Path]:
        """What git tracks in the side's working tree; where it does not say, all Python files
        there."""
        try:
            return {self._top / name for name in git.tracked_files(self._top, env=self._env)}
        except RepositoryUnreadable:
            return {file for file in files_below(self._top) if file.suffix == ".py"}

    def ignored(self, files: Collection[Path]) -> set[Path]:
        """The Python files among some that git ignores."""
        python = {file for file in files if file.suffix == ".py"} - self.tracked
        return git.ignored(self._top, python, env=self._env)

    def named_in(self, workload: Workload) -> Iterator[Path]:
        """The files of the project that a command's words name, also behind `--option=` or in a
        shell's line."""
        base = self._root / (workload.cwd or ".")
        for word in workload.command or ():
            for name in {word, word.partition("=")[2], *re.split(r"[\s=;&|<>()'\"]+", word)}:
                with suppress(OSError, ValueError):  # no file's name: too long, or with a zero
                    file = (base / name).resolve()
                    is_own = self._places.of(file) == self._own
                    if is_own and file.is_file() and file.is_relative_to(self._root):
                        yield file

    def shown(self, file: Path) -> str:
        """A file's path from the root."""
        return os.path.relpath(file, self._root)


def _read(file: Path) -> bytes | None:
    with suppress(OSError):
        return file.read_bytes()
    return None
