"""Whether the two sides of a duet were apart: neither went another way for want of what the other had built.

What each side shows of itself (`proof`, `copies`) is not enough: a build's product bears no commit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

from perfgate import git
from perfgate.duet.copies import is_version_file
from perfgate.duet.environment import PACKAGE
from perfgate.duet.proof import SHOWN, Witness, is_extension, unproven
from perfgate.duet.worktree import Worktree
from perfgate.model.errors import RepositoryUnreadable
from perfgate.model.workload import Workload

_BY_CONTENT: Final = re.compile(r"[0-9a-f]{32}|(?=[a-z]*[2-7])[a-z2-7]{50}|(?=[A-Z]*[2-7])[A-Z2-7]{50}")
"""A digest, as caches call what they build: hexadecimal, or base 32 (Triton, Inductor)."""
_NAMED_BY: Final = 2
"""The last parts of a path, one of which is the digest: the folder of what was built, or the file itself."""

LACKING: Final = (
    "Without it that commit's code may have taken another way",
    (
        "Let duet_setup make it there as it was made here, for example: "
        'duet_setup = ["python", "setup.py", "build_ext", "--inplace"]. Where that commit has no source of it, judge '
        "by stored values: without --perfgate-against."
    ),
)


def prove_apart(
    workload: Workload,
    tree: Worktree,
    *,
    reference: Sequence[Witness],
    candidate: Sequence[Witness],
    env: Mapping[str, str],
    began_at: float,
) -> None:
    """Hold the accounts of both sides against each other.

    Args:
        workload: what was run.
        tree: the checkout that the reference ran in.
        reference: what its processes said.
        candidate: what those in the project said.
        env: the environment that git is asked in.
        began_at: when the gate began, POSIX time: what is younger was made by its runs.

    Raises:
        CodeUnproven: the candidate loaded a build's product that the checkout does not have.
    """
    sides = _Sides(tree, reference, candidate, env)
    if lacking := tuple(dict.fromkeys(sides.lacking(began_at))):
        fact = f"the project loaded {_some(lacking)}, which no commit of it holds and the checkout does not have"
        raise unproven(workload, tree, fact, LACKING)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


class _Sides:
    """What both sides loaded, and what is known of those files."""

    def __init__(
        self, tree: Worktree, reference: Sequence[Witness], candidate: Sequence[Witness], env: Mapping[str, str]
    ) -> None:
        self._tree = tree
        self._reference = reference
        self._candidate = candidate
        self._env = env

    def lacking(self, began_at: float) -> Iterator[str]:
        """Name the files of the project that the candidate loaded, no commit holds, and the checkout lacks.

        Modules that are only not committed yet are what is compared, and none of them.
        """
        loaded = dict.fromkeys(
            (name, file, _is_compiled(witness, name))
            for witness in self._candidate
            for name, file in witness.files.items()
            if self._is_own(witness, file)
        )
        for name, file, is_compiled in loaded:
            is_there = self._has_built(name, file) if is_compiled else self._there(file).exists()
            if is_there or _is_named_by_content(file):
                continue
            of_build = self._is_untracked(file) if is_compiled else self._is_generated(file, began_at)
            if of_build or self._is_of_missing_submodule(file):
                yield os.path.relpath(file, self._tree.origin)

    def _is_own(self, witness: Witness, file: Path) -> bool:
        tree = self._tree
        if not file.is_relative_to(tree.origin_top) or file.is_relative_to(PACKAGE):
            return False
        foreign = (tree.origin / ".perfgate", *witness.installed_below(tree.origin_top))
        return not any(file.is_relative_to(folder) for folder in foreign) and tree.counterpart(file) is not None

    def _there(self, file: Path) -> Path:
        return self._tree.top / file.relative_to(self._tree.origin_top)

    def _has_built(self, name: str, file: Path) -> bool:
        """Whether the reference loaded a compiled module of that name, or could have, perhaps of another Python."""
        if name in self._built_there:
            return True
        with suppress(OSError):
            stem = file.name.partition(".")[0]
            return any(is_extension(entry.name, stem) for entry in self._there(file).parent.iterdir())
        return False

    @cached_property
    def _built_there(self) -> frozenset[str]:
        return frozenset(
            name
            for witness in self._reference
            for name, file in witness.files.items()
            if _is_compiled(witness, name) and file.is_relative_to(self._tree.home)
        )

    def _is_untracked(self, file: Path) -> bool:
        try:
            return not git.is_tracked(self._tree.origin_top, file, env=self._env)
        except RepositoryUnreadable:  # of a submodule, which the commit does not hold either
            return True

    def _is_generated(self, file: Path, began_at: float) -> bool:
        """Whether a file of Python code is one that git ignores, and older than the runs; a version's is no code."""
        if file.suffix != ".py" or is_version_file(file):
            return False
        with suppress(OSError, RepositoryUnreadable):
            return file.stat().st_mtime < began_at and bool(
                git.ignored(self._tree.origin_top, [str(file)], env=self._env)
            )
        return False

    def _is_of_missing_submodule(self, file: Path) -> bool:
        """Whether it is of a submodule that the commit has as well, but nobody has checked out there."""
        for above in file.parents:
            if above == self._tree.origin_top:
                return False
            if (above / ".git").exists():
                there = self._there(above)
                return there.is_dir() and not any(there.iterdir())
        return False


def _is_named_by_content(file: Path) -> bool:
    return any(_BY_CONTENT.search(part) for part in file.parts[-_NAMED_BY:])


def _is_compiled(witness: Witness, name: str) -> bool:
    return witness.modules[name].endswith(".so") or witness.files[name].suffix == ".so"
