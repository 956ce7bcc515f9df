"""The first import of torch, in the pytest of a gate and in a worker that has done it before.

That worker's program is this: it imports torch, waits for the words of its pytest, and becomes
that. What the import has loaded is out of sight until the workload's own code imports torch, as it
would have without. If that would find another torch now, or other surroundings, the process ends,
and its run is made again by one of its own.

A copy stands next to that of `import_log`, under a name of its own: pytest would warn of a perfgate
that is loaded before its plugin is.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from types import ModuleType

NAME = "perfgate_standby"
"""What it is called there."""
FIFO = "words"
"""In its folder: one line, a JSON list."""
ENDS = """\
perfgate: {} was imported while pytest collected, and would not be the same now: {}.
This process ends, and its run is made again by one of its own. If this comes in each gate, set
ahead = 1: runs are then made one after another, and none is started before.
"""


def main(fifo: str) -> None:
    """Become the pytest that is asked for; end where the gate is gone."""
    # Opened so, it waits for nobody: a gate that is gone is the end of the file.
    reads = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reads, True)
    before = frozenset(sys.modules)
    with suppress(Exception):  # the workload's own import says what is wrong
        import torch  # noqa: F401, PLC0415
    sys.meta_path.insert(0, Early(before))
    with os.fdopen(reads, encoding="utf-8") as words:
        line = words.readline()
    if not line:
        sys.exit(1)
    sys.argv[1:] = json.loads(line)
    runpy.run_module("pytest", run_name="__main__", alter_sys=True)


def surroundings(environment: Mapping[str, str], cores: Collection[int]) -> dict[str, str]:
    """What torch sees when it is imported: the variables of the environment, but for pytest's own
    and git's, and the CPU cores that the process may use, which libgomp counts."""
    own = ("PYTEST_", "GIT_")
    seen = {name: text for name, text in environment.items() if not name.startswith(own)}
    return {**seen, "the CPU affinity": str(sorted(cores))}


def seen_now() -> dict[str, str]:
    """The surroundings of this process."""
    return surroundings(os.environ, os.sched_getaffinity(0))


class FirstImport:
    """Does something as this process first imports torch, or at once if it has, where that sees the
    surroundings that it would have seen before any conftest, and no import hook but those of then.
    """

    def __init__(
        self,
        began: Mapping[str, str],
        finders: Collection[object],
        act: Callable[[FirstImport], None],
    ) -> None:
        self._began = began
        self._finders = {*map(id, finders), id(self)}
        self._act = act
        self._files: Collection[str] | None = None
        """Those that were being executed then; None before."""
        sys.meta_path.insert(0, self)
        if "torch" in sys.modules:
            self._imported((), getattr(sys.modules["torch"], "__spec__", None))

    def serves(self, file: str) -> bool:
        """Whether a workload's file finds nothing else where torch was imported in the surroundings
        of before: it was the one to do so, or nothing has changed."""
        return os.path.realpath(file) in (self._files or ()) or self._is_as_begun()

    def find_spec(self, name: str, *_of: object) -> None:
        """Be asked for each import, and find nothing."""
        if name == "torch" and self._files is None:
            self._files = ()  # not asked again by what follows
            frames = traceback.walk_stack(None)
            files = {os.path.realpath(frame.f_code.co_filename) for frame, _ in frames}
            self._imported(files, find_spec(name))

    def _imported(self, files: Collection[str], spec: ModuleSpec | None) -> None:
        self._files = files
        # pytest rewrites torch where `python_files` names each file.
        is_plain = spec is not None and type(spec.loader) is SourceFileLoader
        if is_plain and self._is_as_begun():
            self._act(self)

    def _is_as_begun(self) -> bool:
        # Hooks in front find what they will, whether that is out of sight or not.
        in_front = takewhile(lambda finder: finder is not PathFinder, sys.meta_path)
        return seen_now() == self._began and self._finders.issuperset(map(id, in_front))


class Early:
    """Takes modules that were loaded since `before` out of sight, by their top-level packages.

    The first import of torch gives all of them back, that of another package this one alone.
    """

    def __init__(self, before: Collection[str]) -> None:
        self._began = seen_now()
        known = {*sys.stdlib_module_names, *(name.partition(".")[0] for name in before)}
        known.add("__mp_main__")  # multiprocessing's name for what runs
        self._hidden: dict[str, dict[str, ModuleType]] = {
            top: {} for top in sys.modules if "." not in top and top not in known
        }
        for name in list(sys.modules):
            top = name.partition(".")[0]
            if top in self._hidden:
                self._hidden[top][name] = sys.modules.pop(name)

    def find_spec(self, name: str, *_of: object) -> ModuleSpec | None:
        """Be asked for each import, and find what is hidden."""
        then = self._hidden[name][name].__spec__ if name in self._hidden else None
        if then is None:
            return None
        now = seen_now()
        names = sorted({*self._began, *now})
        why = [f"{name} has changed" for name in names if self._began.get(name) != now.get(name)]
        why += [f"{top} would be another one" for top in self._brings(name) if self._is_other(top)]
        if why:
            os.write(2, ENDS.format(name, "; ".join(why)).encode())
            os._exit(1)
        spec = ModuleSpec(name, self, origin=then.origin)  # type: ignore[arg-type]
        spec.submodule_search_locations = then.submodule_search_locations
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module that is there already."""
        module = self._hidden[spec.name][spec.name]
        spec.loader_state = module.__spec__  # the import puts another in its place
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Bring back its package as it was; nothing is executed again."""
        spec = module.__spec__
        assert spec is not None
        module.__spec__ = spec.loader_state
        for top in self._brings(spec.name):
            sys.modules.update(self._hidden.pop(top))
        if not self._hidden:
            sys.meta_path.remove(self)

    def _brings(self, name: str) -> list[str]:
        """What comes back with it."""
        return list(self._hidden) if name == "torch" else [name]

    def _is_other(self, top: str) -> bool:
        """Whether an import would find another one now."""
        others = (one.find_spec(top, None, None) for one in sys.meta_path if one is not self)
        found = next((spec for spec in others if spec is not None), None)
        then = self._hidden[top][top].__spec__
        return getattr(found, "origin", None) != getattr(then, "origin", None)


if __name__ == "__main__":
    main(sys.argv[1])
