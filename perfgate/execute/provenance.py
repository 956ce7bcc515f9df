"""Which code a run was of, by the files that its processes logged: everything not shown is an
error.

Each file belongs to the innermost place around it (`places`), and counts like this:

```
the side's own working tree               its code
the other side's working tree             the candidate: a copy, see below; the reference: unproven
another working tree or clone of the     a copy of the file at the same place in its own: as good if
repository                                equal, else the run was of other code
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
import shlex
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from perfgate.execute.context import RunContext
from perfgate.execute.places import KEPT, PACKAGE, Place, PlaceKind, Places
from perfgate.execute.worktree import Worktree
from perfgate.model.baseline import ALL_TRACKED, code_files
from perfgate.model.errors import CodeStale, CodeUnproven, RepositoryUnreadable
from perfgate.model.record import Record
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


class ImportLog(Record):
    """What one Python process said at its end that it loaded."""

    pid: int
    prefixes: tuple[str, ...] = ()
    """Where its interpreter and environment are."""
    files: tuple[str, ...]
    """Of its modules, and what it executed by a path."""


def read_import_logs(folder: Path) -> tuple[ImportLog, ...]:
    """Read what the processes of a run left in a folder; half of a log is none."""
    found = []
    for file in sorted(folder.glob("*.json")):
        with suppress(OSError, ValueError):
            found.append(ImportLog.model_validate_json(file.read_bytes()))
    return tuple(found)


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

    Args:
        context: of which side.
        workload: what was run.
        logs: what its processes said.
        started_at: POSIX time.
        measured: ids of those that took the steps.

    Raises:
        CodeUnproven: the run was to be of a commit, which is not shown.
        CodeStale: it was to be of what is in the project, and loaded a copy that differs.
    """
    side = _Side(context, workload, logs)
    files = side.files(logs)
    unlogged = set(measured) - {log.pid for log in logs} - {0}
    if context.tree is not None:
        _hold_to_commit(context.tree, workload, logs, files)
        if unlogged:
            raise _unproven("no-import-log-of-steps", workload, context.tree, pid=min(unlogged))
    files |= set(_named(workload, side.root))
    generated = side.ignored([file for file in files if file.suffix == ".py"])
    digests: dict[str, str] = {}
    for file in sorted(files - generated):
        written_at, is_tracked = file.stat().st_mtime, file in side.tracked
        if is_tracked and written_at > started_at:
            changed = f"{file} {started_at}".encode()
            digests[side.shown(file)] = hashlib.sha256(changed).hexdigest()
        elif is_tracked or written_at <= context.began_at:
            digests[side.shown(file)] = _digest(file)
    if context.tree is None and (unlogged or not logs):
        digests[ALL_TRACKED] = _all_tracked(
            context.root, context.settings.baselines, env=context.env
        )
    return digests


def _hold_to_commit(
    tree: Worktree, workload: Workload, logs: Sequence[ImportLog], files: Collection[Path]
) -> None:
    """Refuse a run in a checkout that did not load what it must have: the workload, or a command's
    scripts."""
    if not logs:
        raise _unproven("no-import-log", workload, tree)
    if not files:
        raise _unproven("nothing-of-commit-loaded", workload, tree)
    base = tree.root / (workload.cwd or ".")
    wanted = (
        [tree.root / workload.source]
        if workload.command is None
        else [base / word for word in workload.command if word.endswith(".py")]
    )
    for file in (Path(os.path.realpath(file)) for file in wanted):
        if file.is_file() and file.is_relative_to(tree.top) and file not in files:
            path = os.path.relpath(file, tree.root)
            raise _unproven("file-of-commit-not-loaded", workload, tree, file=path)


class _Side:
    """Which of the files that a run loaded are the project's, and of which side."""

    def __init__(self, context: RunContext, workload: Workload, logs: Sequence[ImportLog]) -> None:
        self._context, self._workload = context, workload
        self.root = context.root.resolve()
        self._top = _top_of(self.root, context.env) if context.tree is None else context.tree.top
        self._trees = (self._top, *(() if context.tree is None else (context.tree.origin_top,)))
        self._places = places_of(logs, *self._trees)
        self._installed: dict[Path, frozenset[str]] = {}

    def files(self, logs: Sequence[ImportLog]) -> set[Path]:
        """Files of the side's own working tree, without links, of an archive the archive: those
        that it loaded, or equal copies of.

        Raises:
            CodeUnproven: of a commit, a copy differs, or is the other side's own file.
            CodeStale: of the project, a copy differs.
        """
        found: set[Path | None] = set()
        strays: list[tuple[Path, Path]] = []
        for file in {Path(file) for log in logs for file in log.files}:
            place = self._places.of(file)
            if place == Place(PlaceKind.TREE, self._top):
                found.add(_on_disk(self._places.real(file)))
            elif (own := self._originals(file, place)) is not None:
                same = next((one for one in own if _read(one) == _read(file)), None)
                if place.folder in self._trees or same is None:
                    strays.append((file, own[0] if own else file))
                else:
                    found.add(same)
        strays.sort()
        if strays and self._context.tree is not None:
            shown = _some([str(file) for file, _ in strays])
            raise _unproven("code-from-elsewhere", self._workload, self._context.tree, **shown)
        if strays:
            copy, file = strays[0]
            raise CodeStale(
                "copy-differs", workload=self._workload.id, copy=copy, file=self.shown(file)
            )
        return {file for file in found if file is not None}

    def _originals(self, file: Path, place: Place) -> list[Path] | None:
        """The side's own files that one might be a copy of; None of what is not the project's."""
        if place.kind is PlaceKind.NOBODYS:
            return None
        there = file if file.is_relative_to(place.folder) else self._places.real(file)
        inner = there.relative_to(place.folder)
        if place.kind is PlaceKind.TREE:
            is_ours = self._is_of_repository(place.folder)
        else:
            is_ours = inner.as_posix() in self._installed_in(place.folder)
        if not is_ours:
            return None
        own = [one for one in self.tracked if one.parts[-len(inner.parts) :] == inner.parts]
        is_compiled = file.suffix == COMPILED and self._context.tree is not None
        if not own and not is_compiled and place.folder not in self._trees:
            return None
        return sorted(own, key=lambda one: len(one.parts))

    def _is_of_repository(self, top: Path) -> bool:
        with suppress(RepositoryUnreadable):
            return top in self._trees or git.is_same_repository(
                self._top, top, env=self._context.env
            )
        return False

    @cached_property
    def _names(self) -> frozenset[str]:
        """What the project is installed as."""
        with suppress(OSError, ValueError, AttributeError):
            table = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))
            return frozenset({_normal(str(table.get("project", {}).get("name", "")))})
        return frozenset()

    def _installed_in(self, site: Path) -> frozenset[str]:
        """The files that installing the project, of either side, has put into a folder."""
        if site not in self._installed:
            files = list[str]()
            for info in site.glob("*.dist-info"):
                origin, name = _origin_of(info), _normal(info.name.partition("-")[0])
                is_ours = name in self._names
                if origin is not None:
                    is_ours = any(origin.is_relative_to(tree) for tree in self._trees)
                with suppress(OSError):
                    text = (info / "RECORD").read_text("utf-8", "replace") if is_ours else ""
                    files += (line.rsplit(",", 2)[0].strip('"') for line in text.splitlines())
            self._installed[site] = frozenset(files)
        return self._installed[site]

    @cached_property
    def tracked(self) -> frozenset[Path]:
        """What git tracks in the side's working tree; where it does not say, all Python files
        there."""
        return frozenset(_tracked(self._top, self._context.env))

    def ignored(self, files: Collection[Path]) -> set[Path]:
        """Those of some files that git ignores; none where it does not say."""
        with suppress(RepositoryUnreadable):
            names = git.ignored(self.root, [str(file) for file in files], env=self._context.env)
            return {Path(name) for name in names}
        return set()

    def shown(self, file: Path) -> str:
        """A file's path from the root."""
        return Path(os.path.relpath(file, self.root)).as_posix()


def places_of(logs: Sequence[ImportLog], *trees: Path) -> Places:
    """Where files belong, by what some processes said of their environments."""
    prefixes = {Path(os.path.realpath(prefix)) for log in logs for prefix in log.prefixes}
    return Places(*trees, prefixes=prefixes)


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
    places = places_of((*reference, *candidate), tree.top, tree.origin_top)
    theirs, ours = (_compiled(logs) for logs in (reference, candidate))
    shared = [
        str(file)
        for file in sorted(theirs & ours)
        if places.of(file).kind is not PlaceKind.PACKAGES
        and not any(_BY_CONTENT.search(part) for part in file.parts[-2:])
    ]
    if shared:
        raise _unproven("compiled-code-shared", workload, tree, **_some(shared))
    lacking = [
        os.path.relpath(file, tree.origin)
        for file in sorted(ours)
        if places.of(file) == Place(PlaceKind.TREE, tree.origin_top)
        and not _is_built_in(tree, file)
    ]
    if lacking:
        raise _unproven("compiled-code-lacking", workload, tree, **_some(lacking))


def _compiled(logs: Sequence[ImportLog]) -> set[Path]:
    files = (Path(file) for log in logs for file in log.files if file.endswith(COMPILED))
    return {Path(os.path.realpath(file)) for file in files}


def _is_built_in(tree: Worktree, file: Path) -> bool:
    """Whether the checkout has a compiled module of that name too, perhaps of another Python."""
    there = tree.top / file.relative_to(tree.origin_top)
    return any(there.parent.glob(f"{file.name.partition('.')[0]}.*{COMPILED.lstrip('.')}"))


# The same code again


def code_now(paths: Mapping[str, str], root: Path, *, baselines: str) -> dict[str, str]:
    """SHA-256 by path of the same files as they are now; one that is gone, or cannot be read, is
    left out.

    Args:
        paths: of which files.
        root: the project's root.
        baselines: the folder of the baselines, from there, of which nothing is code.
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

    Raises:
        RepositoryUnreadable: git does not answer.
    """
    tracked = _tracked(_top_of(context.root.resolve(), context.env), context.env)

    def held(files: Mapping[str, str]) -> dict[str, str]:
        return {
            path: digest
            for path, digest in files.items()
            if (context.root / path).resolve() in tracked
        }

    return held(code_files(code)) == held(blessed)


# What is asked of files and git


def _named(workload: Workload, root: Path) -> Iterator[Path]:
    """The files of the project that a command's words name, also behind `--option=` or in a shell's
    line."""
    base = root / (workload.cwd or ".")
    for word in workload.command or ():
        parts = {word}
        with suppress(ValueError):
            parts |= set(shlex.split(word))
        for name in {end for part in parts for end in (part, part.partition("=")[2])}:
            with suppress(OSError, ValueError):  # too long for a file's name, or with a zero in it
                file = (base / name).resolve()
                is_kept = file.is_relative_to(root / KEPT) or file.is_relative_to(PACKAGE)
                if file.is_file() and file.is_relative_to(root) and not is_kept:
                    yield file


def _top_of(root: Path, env: Mapping[str, str]) -> Path:
    """The top of the repository around a root; the root itself outside one."""
    with suppress(RepositoryUnreadable):
        within = git.prefix(root, env=env)
        return root.parents[len(within.parts) - 1] if within.parts else root
    return root


def _tracked(top: Path, env: Mapping[str, str]) -> set[Path]:
    """What git tracks; where it does not say, all Python files."""
    try:
        return {(top / name).resolve() for name in git.tracked_files(top, env=env)}
    except RepositoryUnreadable:
        return {file for file in files_below(top) if file.suffix == ".py"}


def _all_tracked(root: Path, baselines: str, env: Mapping[str, str] | None = None) -> str:
    """A digest of all that git tracks as it is now, and empty where git does not say."""
    with suppress(RepositoryUnreadable):
        return git.content_digest(root, baselines=baselines, env=env)
    return ""


def _origin_of(info: Path) -> Path | None:
    """The folder or archive of this machine that a distribution was installed from (PEP 610)."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        url = urlsplit(json.loads((info / "direct_url.json").read_text(encoding="utf-8"))["url"])
        return Path(os.path.realpath(unquote(url.path))) if url.scheme == "file" else None
    return None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _on_disk(file: Path) -> Path | None:
    """A file, the archive that it is in, or None."""
    return next((one for one in (file, *file.parents) if one.is_file()), None)


def _read(file: Path) -> bytes | None:
    with suppress(OSError):
        return file.read_bytes()
    return None


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _some(paths: Sequence[str]) -> dict[str, object]:
    """The fields of a message on some files: how many, and the first."""
    return {"files": len(paths), "paths": tuple(paths[:SHOWN])}


def _unproven(code: str, workload: Workload, tree: Worktree, **fields: object) -> CodeUnproven:
    return CodeUnproven(code, workload=workload.id, commit=tree.shown, **fields)
