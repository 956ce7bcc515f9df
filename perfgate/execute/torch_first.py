"""The program of a worker that is started before anyone knows which workload it runs: it imports
torch, waits for the words of its pytest, and becomes that.

What the import has loaded is out of sight until the workload's own code imports it, as it would
have without. If that would find another torch now, or other variables of the environment, which
torch reads while it is imported, the process ends, and its run is made again by one of its own.

A copy stands next to that of `import_log`, under a name of its own: pytest would warn of a perfgate
that is loaded before its plugin is.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from types import ModuleType

NAME = "perfgate_standby"
"""What it is called there."""
FIFO = "words"
"""In its folder: one line, a JSON list."""


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


def changed(began: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The variables that differ, but for pytest's own and git's."""
    names = (name for name in {*began, *now} if not name.startswith(("PYTEST_", "GIT_")))
    return sorted(name for name in names if began.get(name) != now.get(name))


class Early:
    """Takes modules that were loaded since `before` out of sight, by their top-level packages, and
    gives each back to the first import of it."""

    def __init__(self, before: Collection[str]) -> None:
        self._began = dict(os.environ)
        known = {*sys.stdlib_module_names, *(name.partition(".")[0] for name in before)}
        self._hidden: dict[str, dict[str, ModuleType]] = {}
        for name in list(sys.modules):
            top = name.partition(".")[0]
            if top not in known:
                self._hidden.setdefault(top, {})[name] = sys.modules.pop(name)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Be asked for each import, and find what is hidden."""
        module = self._hidden.get(name, {}).get(name)
        if module is None:
            return None
        others = (one.find_spec(name, path, target) for one in sys.meta_path if one is not self)
        found = next((spec for spec in others if spec is not None), None)
        then = module.__spec__
        variables = changed(self._began, os.environ)
        if variables or found is None or then is None or found.origin != then.origin:
            os.write(2, f"perfgate: {name} was imported before {variables or found}\n".encode())
            os._exit(1)
        return ModuleSpec(name, self, origin=then.origin)  # type: ignore[arg-type]

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
        sys.modules.update(self._hidden.pop(spec.name))


if __name__ == "__main__":
    main(sys.argv[1])
