"""Whether the two sides of a duet were apart: neither took compiled code of the other's, nor a way without it.

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

from perfgate.execute.copies import is_version_file
from perfgate.execute.installed import distribution_at, origin_of, project_names
from perfgate.execute.proof import Witness, is_extension, is_of_repository, site_of, some, unproven
from perfgate.execute.side_environment import PACKAGE
from perfgate.execute.trees import OtherTrees
from perfgate.execute.worktree import Worktree
from perfgate.model.errors import RepositoryUnreadable
from perfgate.model.order import is_installed
from perfgate.model.workload import Workload
from perfgate.system import git

SYSTEM: Final = tuple(map(Path, ("/usr", "/lib", "/lib64", "/nix", "/gnu")))
"""Where a system's own libraries are."""
_BY_CONTENT: Final = re.compile(
    r"[0-9a-f]{32}|(?=[a-z]*[2-7])[a-z2-7]{50}|(?=[A-Z]*[2-7])[A-Z2-7]{50}"
)
"""A digest, as caches call what they build: hexadecimal, or base 32 (Triton, Inductor)."""
_NAMED_BY: Final = 2
"""The last parts of a path, one of which is the digest: the folder of what was built, or the file itself."""

SHARED: Final = (
    "It lies outside both and is of no installed package, so either side's code may be in it",
    (
        "Let each side build its own, in duet_setup or in a folder beside its files (build_directory, build_dir); "
        "if it is another project's, install that (pip install)."
    ),
)
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
        CodeUnproven: both loaded the same build's product, or the candidate one that the checkout does not have.
    """
    sides = _Sides(tree, reference, candidate, env)
    if shared := tuple(dict.fromkeys(sides.shared())):
        raise unproven(
            workload, tree, f"both sides loaded the same compiled code ({some(shared)})", SHARED
        )
    if lacking := tuple(dict.fromkeys(sides.lacking(began_at))):
        fact = f"the project loaded {some(lacking)}, which no commit of it holds and the checkout does not have"
        raise unproven(workload, tree, fact, LACKING)


class _Sides:
    """What both sides loaded, and what is known of those files."""

    def __init__(
        self,
        tree: Worktree,
        reference: Sequence[Witness],
        candidate: Sequence[Witness],
        env: Mapping[str, str],
    ) -> None:
        self._tree = tree
        self._reference = reference
        self._candidate = candidate
        self._env = env
        self._others = OtherTrees(tree.top, env=env)

    def shared(self) -> Iterator[str]:
        """Name the compiled modules that both sides loaded from one file, and that may be built from either's code.

        ```
        by its name a digest of what it was built from               Triton, Inductor, Cython's inline    no
        else a module of a package of the checkout                   pyximport                            yes, where no
                                                                     other project's installation holds it
        else installed, the interpreter's or the system's            wheels, conda; `strays` sees to it   no
        else of another project, in place or by `--target`           pip install -e ../other              no
        anywhere else                                                ~/.cache, ~/.pyxbld, a build folder  yes
        ```
        """
        theirs = {file for witness in self._candidate for file in witness.files.values()}
        for witness in self._reference:
            for name, file in witness.files.items():
                if (
                    file in theirs
                    and _is_compiled(witness, name)
                    and not self._is_of_others(witness, name, file)
                ):
                    yield f"{name} from {file}"

    def _is_of_others(self, witness: Witness, name: str, file: Path) -> bool:
        if _is_named_by_content(file):
            return True
        found_as = Path(
            witness.modules[name]
        )  # installers may fill an environment with links into their cache
        if self._is_in_package_of_checkout(witness, name):
            return self._is_owned(file) or self._is_owned(found_as)
        libraries = [
            Path(os.path.realpath(prefix)) / lib
            for prefix in witness.prefixes
            for lib in ("lib", "lib64")
        ]
        for path in (file, found_as):
            if is_installed(path) or any(
                path.is_relative_to(folder) for folder in (*libraries, *SYSTEM)
            ):
                return True
        if self._others.inner(file) is not None:
            return False
        return (
            self._is_in_other_project(file)
            or self._is_installed_in_place(witness, file)
            or self._is_owned(file)
        )

    def _is_in_package_of_checkout(self, witness: Witness, name: str) -> bool:
        *packages, _ = name.split(".")
        above = (witness.files.get(".".join(packages[: n + 1])) for n in range(len(packages)))
        return any(file is not None and file.is_relative_to(self._tree.home) for file in above)

    def _is_in_other_project(self, file: Path) -> bool:
        """Whether a file lies in a project of another name; caches of a home folder are not of what lies in that."""
        for above in file.parents:
            if above.name.startswith("."):
                return False
            if names := project_names(above):
                return names.isdisjoint(self._tree.names)
        return False

    def _is_installed_in_place(self, witness: Witness, file: Path) -> bool:
        """Whether it lies in a project that is installed as a link to it, and is not the repository's."""
        sites = {site for other in witness.files.values() if (site := site_of(other)) is not None}
        return any(
            origin.is_editable and origin.path is not None and file.is_relative_to(origin.path)
            for site in sites
            for note in site.glob("*.dist-info/direct_url.json")
            if not is_of_repository(note.parent, self._tree)
            for origin in (origin_of(note.parent),)
        )

    def _is_owned(self, file: Path) -> bool:
        """Whether it was installed into a folder above as another project than the repository's."""
        return any(
            one.holds(file.relative_to(above)) and not is_of_repository(info, self._tree)
            for above in file.parents
            for info in above.glob("*.dist-info")
            for one in distribution_at(info)
        )

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
            of_build = (
                self._is_untracked(file) if is_compiled else self._is_generated(file, began_at)
            )
            if of_build or self._is_of_missing_submodule(file):
                yield os.path.relpath(file, self._tree.origin)

    def _is_own(self, witness: Witness, file: Path) -> bool:
        tree = self._tree
        if not file.is_relative_to(tree.origin_top) or file.is_relative_to(PACKAGE):
            return False
        foreign = (tree.origin / ".perfgate", *witness.installed_below(tree.origin_top))
        return (
            not any(file.is_relative_to(folder) for folder in foreign)
            and tree.counterpart(file) is not None
        )

    def _there(self, file: Path) -> Path:
        return self._tree.top / file.relative_to(self._tree.origin_top)

    def _has_built(self, name: str, file: Path) -> bool:
        """Whether the reference loaded a compiled module of that name, or could have, perhaps of another Python."""
        if name in self._built_there:
            return True
        with suppress(OSError):
            stem = file.name.partition(".")[0]
            return any(
                is_extension(entry.name, stem) for entry in self._there(file).parent.iterdir()
            )
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
