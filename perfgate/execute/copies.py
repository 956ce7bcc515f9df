"""Whether a run in the project ran the project: code that came from elsewhere, held to the project's own files.

A stale copy in site-packages would look unchanged for ever. Copies that are equal are as good as the files.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Final, TypeVar

from packaging.utils import canonicalize_name

from perfgate.execute.installed import (
    LAYOUTS,
    Distribution,
    built_in,
    distribution_at,
    name_of,
    origin_of,
    project_names,
)
from perfgate.execute.proof import Witness
from perfgate.execute.side_environment import PACKAGE
from perfgate.execute.trees import OtherTrees
from perfgate.model.errors import CodeStale, RepositoryUnreadable
from perfgate.model.order import INSTALLED, is_installed
from perfgate.model.workload import Workload
from perfgate.system import git

_VERSION_FILE: Final = re.compile(r"_*(version|about|(build|git)_?(info|version))_*")
_VERSION_LINE: Final = re.compile(rb"^[ \t]*__version\w*[ \t]*[:=].*$", re.MULTILINE)
"""What tools write a version into while they build: it differs in every fresh copy."""

HUB: Final = "hubconf.py"
"""What each repository has that `torch.hub` puts on the path: its modules are often called as a project's own."""

AnyPath = TypeVar("AnyPath", bound=PurePath)


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """One module that came from outside the project."""

    name: str
    file: Path
    """As it was found, so perhaps through a link."""
    site: Path
    """The folder of the path that it was found in."""
    twin: Path | None = None
    """The project's file of the same place, where it lies in another working tree or clone of the repository."""

    @property
    def inner(self) -> PurePath:
        """Its file from there."""
        return self.file.relative_to(self.site)


def hold_to_project(
    workload: Workload, root: Path, witnesses: Sequence[Witness], *, env: Mapping[str, str]
) -> dict[str, str]:
    """Return SHA-256 by path of the project's files of which an equal copy was loaded, from elsewhere.

    ```
    the same file below the root or `src`, with other content, among    stale, where it was installed as the project
    installed packages
    the same, from anywhere else (a folder on PYTHONPATH)               stale, but where it is known to be of another
                                                                        project: by its name, by git, by torch.hub
    the same place in another working tree or clone of the repository   stale
    the same file in what a build has left below the root (`build/lib`)  stale
    installed from a folder of the repository, or by the name of a      stale
    project in it that has the same file in any layout
    equal; not in the project; generated (git ignores it); compiled     none of it
    not to be read, as in an archive                                    none of it
    ```

    Raises:
        CodeStale: a copy with other content was loaded: the run was not of what is in the project.
    """
    project = _Project(root, witnesses, env)
    equal: dict[str, Path] = {}
    modules = dict.fromkeys(module for witness in witnesses for module in witness.modules.items())
    for loaded in project.foreign(modules):
        own = [file for file in project.sources(loaded) if file.is_file()]
        same = next((file for file in own if _is_same(loaded.file, file)), None)
        if same is not None:
            real = same.resolve()
            if real.is_relative_to(project.root):
                equal[real.relative_to(project.root).as_posix()] = real
        elif own and project.is_meant(loaded, own):
            raise CodeStale(
                subject=workload.id,
                fact=f"{loaded.name} was loaded from {loaded.file}, which differs from the project's "
                f"{project.from_root(own[0])}",
                expectation="A gate measures what is in the project",
                next_step=project.way_out(loaded),
            )
    ignored = project.ignored(equal)
    return {
        path: hashlib.sha256(file.read_bytes()).hexdigest()
        for path, file in equal.items()
        if path not in ignored
    }


def loaded_code(root: Path, witnesses: Sequence[Witness], *, env: Mapping[str, str]) -> set[Path]:
    """The project's files among those that processes loaded or executed, archives as a whole; no installed packages."""
    project = _Project(root, witnesses, env)
    told = {
        file for witness in witnesses for file in (*witness.modules.values(), *witness.executed)
    }
    files = {
        found for file in told if (found := _on_disk(Path(os.path.realpath(file)))) is not None
    }
    return {file for file in files if project.is_code(file)}


def executed_code(root: Path, witness: Witness, *, env: Mapping[str, str]) -> set[Path]:
    """The project's files of Python code that a process has executed and git tracks: others may be generated."""
    project = _Project(root, [witness], env)
    files = {Path(os.path.realpath(file)) for file in witness.executed} - set(
        witness.files.values()
    )
    own = {file for file in files if project.is_own(file) and not file.is_relative_to(PACKAGE)}
    return own & set(project.listed) if own else own


def neighbours(root: Path, witnesses: Sequence[Witness], *, env: Mapping[str, str]) -> set[Path]:
    """Files of Python code that processes loaded or executed from beside the root, in a monorepo, and git tracks."""
    project = _Project(root, witnesses, env)
    told = {
        file
        for one in witnesses
        for file in (*one.modules.values(), *one.executed)
        if file.endswith(".py")
    }
    beside = {file for file in map(Path, map(os.path.realpath, told)) if project.is_beside(file)}
    return beside & set(project.listed) if beside else set()


class _Project:
    """What is to be known of a project, asked for as late as possible: most runs load no copy."""

    def __init__(self, root: Path, witnesses: Sequence[Witness], env: Mapping[str, str]) -> None:
        self.root = root.resolve()
        prefixes = {
            Path(os.path.realpath(prefix)) for witness in witnesses for prefix in witness.prefixes
        }
        self._libraries = [prefix / name for prefix in prefixes for name in ("lib", "lib64")]
        self._environments = [prefix for prefix in prefixes if self.root in prefix.parents]
        self._env = env
        self._local: dict[Path, tuple[Distribution, ...]] = {}
        self._all: dict[Path, tuple[Distribution, ...]] = {}

    def is_own(self, file: Path) -> bool:
        """Whether a file is the project's, and no run's."""
        return not self._is_elsewhere(file) and not file.is_relative_to(self.root / ".perfgate")

    def is_code(self, file: Path) -> bool:
        """The same, also in a folder that is named as one of installed packages and that git tracks; not perfgate."""
        if file.is_relative_to(PACKAGE) or not file.is_relative_to(self.root):
            return False
        if not is_installed(file.relative_to(self.root)):
            return self.is_own(file)
        return any(file.relative_to(self._top).is_relative_to(folder) for folder in self._vendored)

    def is_beside(self, file: Path) -> bool:
        """Whether a file is in the repository, and not at or below the root; perfgate's own are none."""
        outside = not file.is_relative_to(self.root) and not file.is_relative_to(PACKAGE)
        return outside and file.is_relative_to(self._top)

    def foreign(self, modules: Iterable[tuple[str, str]]) -> Iterator[Loaded]:
        """Those modules, of Python code, that are not the project's but might be a copy of its files."""
        for name, told in modules:
            file, real = Path(told), Path(os.path.realpath(told))
            if file.suffix != ".py" or name.partition(".")[0] in _NEVER:
                continue
            if real.is_relative_to(PACKAGE) or real.is_relative_to(self.root / ".perfgate"):
                continue
            site, twin = _site(name, file), self._twin(real)
            if twin is not None:
                yield Loaded(name=name, file=file, site=site or file.parent, twin=twin)
            if twin is not None or site is None:
                continue
            loaded = Loaded(name=name, file=file, site=site)
            if loaded.inner.parts[0].removesuffix(".py") not in self._tops and not self._from_here(
                site
            ):
                continue
            is_library = not is_installed(file) and any(
                real.is_relative_to(library) for library in self._libraries
            )
            if not is_library and (self._is_elsewhere(real) or self._is_built(loaded)):
                yield loaded

    @cached_property
    def _others(self) -> OtherTrees:
        return OtherTrees(self._top, self.root, env=self._env)

    def _twin(self, file: Path) -> Path | None:
        """The same place here of a file in another working tree or clone of the repository; None of any other."""
        inner = self._others.inner(file)
        return None if inner is None else self._top / inner

    def _is_elsewhere(self, file: Path) -> bool:
        """Whether a file is outside the root or below it in an environment; vendored folders are looked at later."""
        if not file.is_relative_to(self.root) or is_installed(file.relative_to(self.root)):
            return True
        return any(file.is_relative_to(environment) for environment in self._environments)

    def _is_built(self, loaded: Loaded) -> bool:
        """Whether a module is of the copy that building the project leaves in it."""
        folder = loaded.site.resolve()
        if folder.parent != self.root / "build" or folder.name.partition(".")[0] != "lib":
            return False
        return bool(self.ignored([self.from_root(folder / loaded.inner)]))

    @cached_property
    def _tops(self) -> frozenset[str]:
        """Names of what the project may hold as modules."""
        found: set[str] = set()
        for layout in LAYOUTS:
            with suppress(OSError):
                found |= {
                    entry.name.removesuffix(".py") for entry in (self.root / layout).iterdir()
                }
        return frozenset(found - sys.stdlib_module_names)

    def sources(self, loaded: Loaded) -> list[Path]:
        """The project's files that a module would be a copy of; they may be missing."""
        if loaded.twin is not None:
            return _forms(loaded.twin)
        inner = loaded.inner
        forms = _forms(inner)
        found = [self.root / layout / form for layout in LAYOUTS for form in forms]
        if not any(file.is_file() for file in found):
            found = [
                file
                for one in self._from_here(loaded.site)
                if one.holds(inner)
                for file in self.listed
                if self._is_source(one, file) and file.parts[-len(inner.parts) :] == inner.parts
            ]
        return found

    def _from_here(self, site: Path) -> tuple[Distribution, ...]:
        """What was installed into a folder from one of the repository's, not as a link to it, or by its name."""
        if site not in self._local:
            infos = sorted(
                info for info in site.glob("*.dist-info") if self._is_of_repository(info)
            )
            self._local[site] = tuple(one for info in infos for one in distribution_at(info))
        return self._local[site]

    def _is_of_repository(self, info: Path) -> bool:
        if name_of(info) in self._homes:
            return True
        source = origin_of(info).source
        return source is not None and self._holds(source)

    def _is_source(self, one: Distribution, file: Path) -> bool:
        """Whether a distribution was to be made of the folder around one of the project's files."""
        if one.source is not None and self._holds(one.source):
            return file.is_relative_to(one.source)
        return any(file.is_relative_to(home) for home in self._homes.get(one.name, ()))

    def is_meant(self, loaded: Loaded, own: Sequence[Path]) -> bool:
        """Whether a module was to be the project's, though its file is none of these, as far as they can be read."""
        if self.ignored([self.from_root(own[0])]):
            return False  # generated
        if loaded.twin is not None or self._is_built(loaded):
            return True
        real = Path(os.path.realpath(loaded.file))
        if real.is_relative_to(self._top):
            inner = real.relative_to(self._top)
            if not is_installed(inner) and not any(
                (above / "pyvenv.cfg").is_file() for above in real.parents
            ):
                return False  # a neighbour in a monorepo: the working tree as well
            if any(inner.is_relative_to(folder) for folder in self._vendored):
                return False
        owners = [one for one in self._installed_in(loaded.site) if one.holds(loaded.inner)]
        if any(_read(file) is None for file in (loaded.file, *own)):
            return any(one.has_record and self._is_installed_as(one, own) for one in owners)
        if owners:
            return any(self._is_installed_as(one, own) for one in owners)
        if is_installed(loaded.site):
            top = loaded.inner.parts[0].removesuffix(".py")
            ours = (
                one for one in self._installed_in(loaded.site) if self._is_installed_as(one, own)
            )
            return canonicalize_name(top) in self._names or any(
                top in one.tops for one in (*ours, *built_in(self.root))
            )
        return not self._is_of_others(loaded.site, real)

    def _is_of_others(self, site: Path, file: Path) -> bool:
        """Whether a file is known to be another project's.

        One that nobody knows is none: a copy in front of the project on the path would be measured for ever.
        """
        if (site / HUB).is_file() and not (self.root / HUB).is_file():
            return True
        above = next((folder for folder in (site, *site.parents) if _is_project(folder)), None)
        names = frozenset() if above is None else project_names(above)
        if names:
            return names.isdisjoint(self._names)
        with suppress(
            RepositoryUnreadable
        ):  # of this repository it is not, else it would have a twin
            return not file.is_relative_to(self._top) and git.is_tracked(
                file.parent, file, env=self._env
            )
        return False

    def way_out(self, loaded: Loaded) -> str:
        """What to do about a copy that is stale."""
        if loaded.twin is not None:
            return (
                "Let PYTHONPATH lead to this working tree, and install from it (pip install -e .)."
            )
        if is_installed(loaded.site) or any(
            one.holds(loaded.inner) for one in self._installed_in(loaded.site)
        ):
            return "Install it so that its own files are loaded (pip install -e .), or install it again (pip install .)."
        return (
            "Take its folder off PYTHONPATH, or install the project so that its own files are loaded "
            "(pip install -e .)."
        )

    def _is_installed_as(self, one: Distribution, own: Sequence[Path]) -> bool:
        if one.source is not None and self._holds(one.source):
            return True
        return any(self._is_source(one, file) for file in own)

    def from_root(self, file: Path) -> str:
        """A file of the repository, from the root."""
        return os.path.relpath(file, self.root)

    def ignored(self, paths: Mapping[str, Path] | Sequence[str]) -> set[str]:
        """Those of some paths that git ignores; none where it does not say."""
        try:
            return git.ignored(self.root, list(paths), env=self._env)
        except (
            RepositoryUnreadable
        ):  # of submodules' files git says nothing here, nor then of the others
            return set() if len(paths) == 1 else {path for path in paths if self.ignored([path])}

    def _holds(self, folder: Path) -> bool:
        return folder.is_relative_to(self._top) and not folder.is_relative_to(
            self.root / ".perfgate"
        )

    @cached_property
    def _top(self) -> Path:
        """The top of the repository, the root itself outside one."""
        try:
            within = git.prefix(self.root, env=self._env)
        except RepositoryUnreadable:
            return self.root
        return self.root.parents[len(within.parts) - 1] if within.parts else self.root

    @cached_property
    def _vendored(self) -> frozenset[PurePath]:
        try:
            return git.vendored(self._top, env=self._env)
        except RepositoryUnreadable:
            return frozenset()

    @cached_property
    def listed(self) -> tuple[Path, ...]:
        """The Python files that git tracks in the repository; none where it does not say."""
        with suppress(RepositoryUnreadable):
            return tuple(
                self._top / name for name in git.tracked_files(self._top, "*.py", env=self._env)
            )
        return ()

    @cached_property
    def _names(self) -> frozenset[str]:
        """What the project is installed as; nothing where it is not for that, or does not tell."""
        return project_names(self.root)

    @cached_property
    def _homes(self) -> Mapping[str, frozenset[Path]]:
        """The folders of the projects at and below the root, by the names that they are installed as."""
        folders = {self.root}
        with suppress(RepositoryUnreadable):
            folders |= set(git.project_folders(self.root, env=self._env))
        named = {
            folder: self._names if folder == self.root else project_names(folder)
            for folder in folders
        }
        names = {name for told in named.values() for name in told}
        return {
            name: frozenset(folder for folder in folders if name in named[folder]) for name in names
        }

    def _installed_in(self, site: Path) -> tuple[Distribution, ...]:
        if site not in self._all:
            infos = sorted(
                (*site.glob("*.dist-info"), *site.glob("*.egg-info"), *site.glob("EGG-INFO"))
            )
            self._all[site] = tuple(one for info in infos for one in distribution_at(info))
        return self._all[site]


_NEVER: Final = frozenset({"conftest", "sitecustomize", "usercustomize"})
"""Names that each folder may have files of."""


def _site(name: str, file: Path) -> Path | None:
    """The folder of the path in which a file was found as the module of that name; None where it has another."""
    if name == "__main__":
        return next(
            (above for above in file.parents if above.name in INSTALLED), _outside_its_package(file)
        )
    for parts in (
        (*name.split("."), "__init__.py"),
        (*name.split(".")[:-1], f"{name.rpartition('.')[2]}.py"),
    ):
        if file.parts[-len(parts) :] == parts:
            return Path(*file.parts[: -len(parts)])
    return next((above for above in file.parents if above.name in INSTALLED), None)


def _outside_its_package(file: Path) -> Path | None:
    """The folder around the package that a module is in, as `python -m` finds it; None of one that is in none."""
    above = next(
        (folder for folder in file.parents if not (folder / "__init__.py").is_file()), None
    )
    return None if above == file.parent else above


def _forms(file: AnyPath) -> list[AnyPath]:
    """A file, and what it is where the module has become a package since, or the other way round."""
    if file.name != "__init__.py":
        return [file, file.with_suffix("") / "__init__.py"]
    return [file, file.parent.with_suffix(".py")] if file.parent.name else [file]


def _is_same(copy: Path, own: Path) -> bool:
    theirs, ours = _read(copy), _read(own)
    if theirs is None or ours is None:
        return False
    return theirs == ours or is_version_file(own) or _plain(theirs) == _plain(ours)


def is_version_file(file: Path) -> bool:
    """Whether a file is, by its name, one that tools write a version into."""
    return _VERSION_FILE.fullmatch(file.stem) is not None


def _on_disk(file: Path) -> Path | None:
    """A file, the archive that it is in, or None."""
    return next((one for one in (file, *file.parents) if one.is_file()), None)


def _read(file: Path) -> bytes | None:
    """What a file holds; None where it cannot be read: in an archive, deleted since, of another user."""
    try:
        return file.read_bytes()
    except OSError:
        return None


def _plain(text: bytes) -> bytes:
    """Python code without what a build or a checkout may write in another way."""
    return _VERSION_LINE.sub(b"", text.replace(b"\r\n", b"\n"))


def _is_project(folder: Path) -> bool:
    return any((folder / name).is_file() for name in git.PROJECT_FILES)
