"""Which code a run was of, by the files that its processes logged: everything not shown is an
error.

Each file belongs to the innermost place around it (`places`), and counts like this:

```
the side's own working tree               its code
the other side's working tree             refused, though it be equal
another working tree or clone of the      copies of the files at the same places in its own: as good
repository                                if equal, else the run was of other code
packages installed from the project       copies of its files, likewise; compiled ones prove no
                                          reference
anything else                             no code of the project
```

What took the steps must have left a log. A compiled module that both sides load from one file of
nobody's, an extension cache, shows nothing of either.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from perfgate.execute.context import RunContext
from perfgate.execute.folder import ImportLog
from perfgate.execute.places import Place, Places
from perfgate.execute.worktree import Worktree
from perfgate.model.baseline import ALL_TRACKED, code_files
from perfgate.model.errors import CodeStale, CodeUnproven, RepositoryUnreadable
from perfgate.model.workload import Workload
from perfgate.system import git
from perfgate.system.files import files_below

COMPILED: Final = ".so"
SHOWN: Final = 3
"""Files that a message names."""
_BY_CONTENT: Final = re.compile(
    r"[0-9a-f]{32}|(?=[a-z]*[2-7])[a-z2-7]{50}|(?=[A-Z]*[2-7])[A-Z2-7]{50}"
)
"""A digest, as caches call what they build by its source: hexadecimal, or base 32 (Triton,
Inductor)."""


# One run


def code_of_run(
    context: RunContext,
    workload: Workload,
    logs: Sequence[ImportLog],
    *,
    started_at: float,
    measured: Collection[int] = (),
) -> dict[str, str]:
    """SHA-256, by path from the root, of the project's files that a run was of.

    A file that was written while it ran has a digest that no other run's has; one that git does not
    track and that is younger than the gate is a run's work, and no code. Where a process that took
    steps left no log, it is of all that git tracks as well.

    It started at `started_at`, POSIX time; `measured` are the ids of the processes that took the
    steps.

    Raises:
        CodeUnproven: the run was to be of a commit, which is not shown.
        CodeStale: it was to be of what is in the project, and loaded a copy that differs.
    """
    side, tree = _Side(context), context.tree
    files, strays = side.loaded({Path(file) for log in logs for file in log.files})
    unlogged = set(measured) - {log.pid for log in logs} - {0}
    if tree is not None:
        if strays:
            raise _unproven("code-from-elsewhere", workload, tree, **_some(strays))
        if not logs:
            raise _unproven("no-import-log", workload, tree)
        if not files:
            raise _unproven("nothing-of-commit-loaded", workload, tree)
        if unlogged:
            raise _unproven("no-import-log-of-steps", workload, tree, pid=min(unlogged))
    elif strays:
        copy, file = min(strays.items())
        raise CodeStale("copy-differs", workload=workload.id, copy=copy, file=side.shown(file))
    files |= set(side.named_in(workload))
    digests: dict[str, str] = {}
    for file in sorted(files - side.ignored(files)):
        written_at, is_tracked = file.stat().st_mtime, file in side.tracked
        if is_tracked and written_at > started_at:
            changed = f"{file} {started_at}".encode()
            digests[side.shown(file)] = hashlib.sha256(changed).hexdigest()
        elif is_tracked or written_at <= context.began_at:
            digests[side.shown(file)] = _digest(file)
    if tree is None and (unlogged or not logs):
        baselines = context.settings.baselines
        digests[ALL_TRACKED] = _all_tracked(context.root, baselines, env=context.env)
    return digests


class _Side:
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
        made = list(filter(self._is_made_here, metadata.distributions(path=[str(site)])))
        with suppress(OSError, ValueError, KeyError, TypeError):
            table = tomllib.loads((self._root / "pyproject.toml").read_text("utf-8"))
            made += metadata.distributions(name=table["project"]["name"], path=[str(site)])
        return {file.as_posix() for one in made for file in one.files or ()}

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


# Both sides


def prove_apart(
    workload: Workload,
    tree: Worktree,
    *,
    reference: Sequence[ImportLog],
    candidate: Sequence[ImportLog],
) -> None:
    """Hold what both sides of an A/B run loaded against each other.

    Raises:
        CodeUnproven: both loaded one compiled module that nobody installed, or the candidate one
            that was built in the project and that the checkout lacks: without it the reference may
            have taken another way.
    """
    places = Places(tree.top, tree.origin_top)
    theirs, ours = (_compiled(logs) for logs in (reference, candidate))
    shared, lacking = list[Path](), list[str]()
    for file in ours:
        place = places.of(file)
        is_packages = place is not None and not place.is_tree
        is_by_content = any(map(_BY_CONTENT.search, file.parts[-2:]))
        if file in theirs and not is_packages and not is_by_content:
            shared.append(file)
        if place == Place(tree.origin_top, is_tree=True) and not _is_built_in(tree, file):
            lacking.append(os.path.relpath(file, tree.origin))
    if shared:
        raise _unproven("compiled-code-shared", workload, tree, **_some(shared))
    if lacking:
        raise _unproven("compiled-code-lacking", workload, tree, **_some(lacking))


def _compiled(logs: Sequence[ImportLog]) -> set[Path]:
    files = (Path(file) for log in logs for file in log.files if file.endswith(COMPILED))
    return {Path(os.path.realpath(file)) for file in files}


def _is_built_in(tree: Worktree, file: Path) -> bool:
    """Whether the checkout has a compiled module of that name too, perhaps of another Python."""
    there = tree.top / file.relative_to(tree.origin_top)
    return any(there.parent.glob(f"{file.name.partition('.')[0]}.*so"))


# The same code again


def code_now(paths: Mapping[str, str], root: Path, *, baselines: str) -> dict[str, str]:
    """SHA-256 by path from the root of the same files as they are now; one that is gone, or cannot
    be read, is left out. Of the folder of the baselines nothing is code.
    """
    found = {ALL_TRACKED: _all_tracked(root, baselines)} if ALL_TRACKED in paths else {}
    for path in paths:
        with suppress(OSError):
            found[path] = _digest(root / path)
    return found


def is_as_blessed(context: RunContext, code: Mapping[str, str], blessed: Mapping[str, str]) -> bool:
    """Whether a run in a checkout loaded what was blessed, as far as its commit holds it.

    What no commit holds (a build's products, a version that was written) each side makes for
    itself.
    """
    side = _Side(context)
    tracked = set(map(side.shown, side.tracked))
    held, held_then = (
        {path: digest for path, digest in files.items() if path in tracked}
        for files in (code_files(code), blessed)
    )
    return held == held_then


# What is asked of files and git


def _all_tracked(root: Path, baselines: str, env: Mapping[str, str] | None = None) -> str:
    """A digest of all that git tracks as it is now but for the baselines, and empty where git does
    not say."""
    left_out, digest = (root / baselines).resolve(), hashlib.sha256()
    with suppress(RepositoryUnreadable, OSError):
        top = git.top(root, env=env)
        for name in git.tracked_files(top, env=env):
            if not (top / name).is_relative_to(left_out):
                line = f"{_digest(top / name)} {name}\n"
                digest.update(line.encode(errors="surrogateescape"))
        return digest.hexdigest()
    return ""


def _read(file: Path) -> bytes | None:
    with suppress(OSError):
        return file.read_bytes()
    return None


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _some(files: Iterable[Path | str]) -> dict[str, object]:
    """The fields of a message on some files: how many, and the first."""
    paths = sorted(map(str, files))
    return {"files": len(paths), "paths": tuple(paths[:SHOWN])}


def _unproven(code: str, workload: Workload, tree: Worktree, **fields: object) -> CodeUnproven:
    return CodeUnproven(code, workload=workload.id, commit=tree.shown, **fields)
