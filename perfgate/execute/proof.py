"""Whether a run in a checkout ran that checkout's code: what its processes loaded, held against the two trees.

Everything that cannot be shown is a `CodeUnproven`: a project compared with itself would look unchanged for ever.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from perfgate.execute.installed import distribution_at, name_of, origin_of
from perfgate.execute.side_environment import PACKAGE
from perfgate.execute.trees import OtherTrees
from perfgate.execute.witness import namespace
from perfgate.execute.worktree import Worktree
from perfgate.model.errors import CodeUnproven
from perfgate.model.order import INSTALLED
from perfgate.model.workload import Workload

SHOWN: Final = 3
"""Strays that a message names."""


@dataclass(frozen=True, kw_only=True)
class Witness:
    """What one Python process said of itself at its end."""

    pid: int
    prefixes: tuple[str, ...]
    """Where its interpreter and environment are."""
    modules: Mapping[str, str]
    """The file of each loaded module by name, extension modules and `__main__` included."""
    executed: tuple[str, ...] = ()
    """Files that were executed as modules or by `runpy`, whether or not they are loaded modules; where it was asked."""
    namespace: str = ""
    """What `pid` is of."""

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """The same without links."""
        return {name: Path(os.path.realpath(file)) for name, file in self.modules.items()}

    def installed_below(self, top: Path) -> tuple[Path, ...]:
        """Its interpreter's own folders below `top`."""
        real = [Path(os.path.realpath(prefix)) for prefix in self.prefixes]
        return tuple(prefix for prefix in real if prefix.is_relative_to(top) and prefix != top)


def read_witnesses(folder: Path) -> tuple[Witness, ...]:
    """Read the accounts that the processes of a run left in a folder; half of one is none."""
    found = []
    for file in sorted(file for file in folder.glob("*.json") if file.is_file()):
        with suppress(OSError, ValueError, TypeError, KeyError):
            told = json.loads(file.read_text(encoding="utf-8"))
            found.append(
                Witness(
                    pid=int(told["pid"]),
                    prefixes=tuple(told["prefixes"]),
                    modules=dict(told["modules"]),
                    executed=tuple(told.get("executed", ())),
                    namespace=str(told.get("namespace", "")),
                )
            )
    return tuple(found)


def prove_worker(
    workload: Workload,
    tree: Worktree,
    witnesses: Sequence[Witness],
    *,
    pid: int,
    code: Collection[str],
) -> None:
    """Hold a decorated workload's run to its checkout.

    Args:
        workload: what was run, as `workload_there` returned it.
        tree: where.
        witnesses: what the processes of the run said.
        pid: the worker's.
        code: files of the checkout that the worker loaded, relative to its root.

    Raises:
        CodeUnproven: a process loaded code from elsewhere, the worker said nothing, or did not load the workload.
    """
    _refuse_strays(workload, tree, witnesses, own=PACKAGE)
    if all(witness.pid != pid for witness in witnesses):
        raise unproven(workload, tree, "the worker did not say which code it loaded", SILENCE)
    top, source = (
        Path(os.path.realpath(path)) for path in (tree.root, tree.root / workload.source)
    )
    if not source.is_relative_to(top) or source.relative_to(top).as_posix() not in code:
        raise unproven(workload, tree, f"{workload.source} was not loaded from it", ENVIRONMENT)


def prove_command(workload: Workload, tree: Worktree, witnesses: Sequence[Witness]) -> None:
    """Hold a command's run to its checkout: each Python file among its words must have been loaded from there.

    Raises:
        CodeUnproven: a process loaded code from elsewhere, none said anything, or a file was not loaded.
    """
    _refuse_strays(workload, tree, witnesses, own=None)
    if not witnesses:
        raise unproven(
            workload, tree, "no Python process of its command said which code it loaded", SILENCE
        )
    loaded = {file for witness in witnesses for file in _own(witness, tree)}
    if not loaded:
        raise unproven(workload, tree, "no file of that commit was loaded", ENVIRONMENT)
    for word in workload.command or ():
        file = Path(os.path.realpath(tree.root / (workload.cwd or ".") / word))
        if (
            word.endswith(".py")
            and file.is_relative_to(tree.top)
            and file.is_file()
            and file not in loaded
        ):
            raise unproven(
                workload,
                tree,
                f"no process said that it ran {os.path.relpath(file, tree.root)}",
                SILENCE,
            )


def prove_measured(
    workload: Workload, tree: Worktree, witnesses: Sequence[Witness], *, measured: Collection[int]
) -> None:
    """Hold the processes of a command whose steps were `measured`, by their ids, to having been among those that spoke.

    None of them is a mere fork, which nsys does not trace. Ids of several namespaces cannot be compared.

    Raises:
        CodeUnproven: another process spoke, and not the measured one.
    """
    if {witness.namespace for witness in witnesses} != {namespace()}:
        return
    spoke = {witness.pid for witness in witnesses}
    for pid in measured:
        if pid and pid not in spoke:
            raise unproven(
                workload,
                tree,
                f"process {pid}, which took the steps, did not say what it loaded",
                SILENCE,
            )


def have_spoken(witnesses: Sequence[Witness], measured: Collection[int]) -> bool:
    """Whether each process that took steps, by its id, is known to have said what it loaded."""
    if not measured or {witness.namespace for witness in witnesses} != {namespace()}:
        return False
    return set(measured) <= {witness.pid for witness in witnesses}


SILENCE: Final = (
    "A program that is not Python says nothing, nor does python -I, -S or -E, nor one that is killed",
    'Leave such options out of the command, or judge by stored values: without --perfgate-against, with duet = "off".',
)
ENVIRONMENT: Final = (
    "The baseline's code was to be measured",
    "Let duet_setup make an environment of the checkout's own, and name its interpreter in duet_python.",
)


def _refuse_strays(
    workload: Workload, tree: Worktree, witnesses: Sequence[Witness], *, own: Path | None
) -> None:
    found = list(
        dict.fromkeys(stray for witness in witnesses for stray in strays(witness, tree, own=own))
    )
    if found:
        raise unproven(
            workload,
            tree,
            f"code of the project was loaded from elsewhere ({some(found)})",
            ENVIRONMENT,
        )


def some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def unproven(workload: Workload, tree: Worktree, fact: str, why: tuple[str, str]) -> CodeUnproven:
    """What to say of a run in a checkout that is not shown to be of its code; `why` is expectation and next step."""
    return CodeUnproven(
        subject=f"{workload.id} at {tree.subject}",
        fact=fact,
        expectation=why[0],
        next_step=f"{why[1]}{tree.submodule_advice}",
    )


def strays(witness: Witness, tree: Worktree, *, own: Path | None) -> tuple[str, ...]:
    """Name the modules that are the project's, or look like it, and are not the checkout's.

    ```
    below the repository proper, and neither installed there nor in the checkout      an editable installation
    the same, executed by its path and no module's                                    `spec_from_file_location`, a hub
    elsewhere, and the checkout has a module of that name                             a copy in site-packages
    elsewhere, and installed from a folder of the repository, or as one of its        the same, in any layout
    projects by name
    the same in place (editable), where the file itself lies among the installed       compiled code: scikit-build-core,
    and does not only lead to the project's                                            maturin
    elsewhere, in another working tree or clone, and the checkout has another file     an editable installation of that
    there
    ```

    Args:
        witness: a process.
        tree: the checkout.
        own: the perfgate package that must have been loaded, and is none of the project's even where it lies in it;
            None where none is needed.
    """
    environments = witness.installed_below(tree.origin_top)
    found = []
    elsewhere: dict[str, Path] = {}
    for name, file in witness.files.items():
        if own is not None and (name == own.name or name.startswith(f"{own.name}.")):
            if not file.is_relative_to(own):
                found.append(f"{name} from {file}")
        elif file.is_relative_to(tree.home):
            continue
        elif any(file.is_relative_to(environment) for environment in environments):
            elsewhere[name] = file
        elif _is_of_project(file, tree):
            if own is None or not file.is_relative_to(own):
                found.append(f"{name} from {file.relative_to(tree.origin_top)}")
        else:
            elsewhere[name] = file
    foreign = [*environments, tree.home, *(() if own is None else (own,))]
    executed = {Path(os.path.realpath(path)) for path in witness.executed} - set(
        witness.files.values()
    )
    found += [
        str(file.relative_to(tree.origin_top))
        for file in sorted(executed)
        if _is_of_project(file, tree) and not any(file.is_relative_to(folder) for folder in foreign)
    ]
    names = _modules_at((tree.root, tree.root / "src", tree.top, tree.top / "src"), elsewhere)
    sites = {site for file in elsewhere.values() if (site := site_of(file)) is not None}
    local, put_beside = _installed_from(tree, sites), _put_beside_links(tree, sites)
    others = OtherTrees(tree.top)
    for name, file in elsewhere.items():
        is_local = (site_of(file), name.partition(".")[0]) in local or file in put_beside
        if name in names or is_local or _differs(file, tree, others):
            found.append(f"{name} from {file}")
    return tuple(found)


def _is_of_project(file: Path, tree: Worktree) -> bool:
    """Whether a file lies below the repository proper, and not among installed packages; the checkout may as well."""
    return file.is_relative_to(tree.origin_top) and not tree.is_installed(
        file.relative_to(tree.origin_top)
    )


def _differs(file: Path, tree: Worktree, others: OtherTrees) -> bool:
    """Whether a file of another working tree or clone is not what the checkout has there."""
    inner = others.inner(file)
    with suppress(OSError):
        return inner is not None and (tree.top / inner).read_bytes() != file.read_bytes()
    return False


def _own(witness: Witness, tree: Worktree) -> Iterator[Path]:
    """Files of the checkout, without those of an environment in it."""
    environments = witness.installed_below(tree.top)
    for file in witness.files.values():
        foreign = any(file.is_relative_to(environment) for environment in environments)
        if (
            file.is_relative_to(tree.top)
            and not tree.is_installed(file.relative_to(tree.top))
            and not foreign
        ):
            yield file


def _modules_at(folders: Sequence[Path], names: Collection[str]) -> set[str]:
    """The names of which a folder holds the very module; those of the standard library belong to that."""
    there: dict[Path, set[str]] = {}

    def listed(folder: Path) -> set[str]:
        if folder not in there:
            there[folder] = set()
            with suppress(OSError):
                there[folder] = {entry.name for entry in folder.iterdir()}
        return there[folder]

    def holds(folder: Path, name: str) -> bool:
        *packages, last = name.split(".")
        for package in packages:
            if package not in listed(folder):
                return False
            folder /= package
        module = any(entry == f"{last}.py" or is_extension(entry, last) for entry in listed(folder))
        package_file = last in listed(folder) and any(
            entry == "__init__.py" or is_extension(entry, "__init__")
            for entry in listed(folder / last)
        )
        return module or package_file

    return {
        name
        for name in names
        if name.partition(".")[0] not in sys.stdlib_module_names
        and not name.startswith("__")
        and any(holds(folder, name) for folder in folders)
    }


def is_extension(entry: str, name: str) -> bool:
    """Whether a file is, by its name, the compiled module of a name: of whichever Python."""
    return entry.startswith(f"{name}.") and entry.endswith(".so")


def site_of(file: Path) -> Path | None:
    """The innermost folder of installed packages above a file."""
    return next((above for above in file.parents if above.name in INSTALLED), None)


def _installed_from(tree: Worktree, sites: Collection[Path]) -> set[tuple[Path | None, str]]:
    """The top-level names, by folder, that were installed there from the repository proper, or as a project of it."""
    return {
        (site, top.partition(".")[0])
        for site in sites
        for info in site.glob("*.dist-info")
        if not origin_of(info).is_editable and is_of_repository(info, tree)
        for one in distribution_at(info)
        for top in one.tops
        if top and not top.endswith(".dist-info")
    }


def _put_beside_links(tree: Worktree, sites: Collection[Path]) -> set[Path]:
    """The files, without links, that installing the repository's projects in place has put among the packages.

    What only leads to the project's files is none: `.pth` files, and the finders that these import.
    """
    return {
        Path(os.path.realpath(site / inner))
        for site in sites
        for info in site.glob("*.dist-info")
        if origin_of(info).is_editable and is_of_repository(info, tree)
        for one in distribution_at(info)
        for inner in one.recorded - one.finders(site)
        if not inner.startswith(f"{info.name}/")
    }


def is_of_repository(info: Path, tree: Worktree) -> bool:
    """Whether what was installed is, by its folder or its name, a project of the repository, not of the checkout."""
    origin = origin_of(info)
    if origin.path is not None and origin.path.is_relative_to(tree.home):
        return False
    if name_of(info) in tree.names:
        return True
    return (
        origin.is_folder and origin.path is not None and origin.path.is_relative_to(tree.origin_top)
    )
