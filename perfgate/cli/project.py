"""The project that a command stands in, and what is kept and blessed there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from perfgate.execute.provenance import code_now
from perfgate.machine import read_machine
from perfgate.model.baseline import Commit
from perfgate.model.errors import ConfigInvalid, ResultMissing
from perfgate.model.machine import Machine
from perfgate.model.pagedata import PageData
from perfgate.model.pyproject import find_root, load_settings
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import Settings
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.command import trace_options
from perfgate.profilers.nsys.export.file import REPORTS
from perfgate.profilers.nsys.tool import NsysTool, find_nsys
from perfgate.store import KeptResult, Store, near_names
from perfgate.system import git
from perfgate.views.pages import document_of, page_of

CAPTURES: Final = (".sqlite", *REPORTS)
"""How files of captures end."""


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project with its settings and its store."""

    root: Path
    store: Store
    settings: Settings

    @classmethod
    def here(cls) -> Self:
        """The project around the working directory."""
        root = find_root(Path.cwd())
        settings = load_settings(root, {})
        return cls(root=root, store=Store(root, settings.baselines), settings=settings)

    def commit(self) -> Commit | None:
        """The commit that is checked out; a change of baselines does not make it dirty."""
        return git.read_commit(self.root, baselines=self.settings.baselines)

    def code_now(self, code: Mapping[str, str]) -> dict[str, str]:
        """The digests of the files of a run's code, as they are now."""
        return code_now(code, self.root, baselines=self.settings.baselines)

    def machine(self, *, nsys: str | None) -> Machine:
        """This machine as a gate under that version of nsys finds it."""
        options = trace_options(graph_trace=self.settings.cuda_graph_trace)
        return read_machine(os.environ, nsys=nsys, nsys_options=options)

    def latest(self, workload: str) -> KeptResult:
        """Return the newest kept result of a workload.

        Raises:
            ResultMissing: none is kept.
        """
        latest = self.store.results.latest(workload)
        if latest is not None:
            return latest
        kept = self.store.results.workloads()
        if not kept:
            raise ResultMissing("results-none")
        known = tuple(near_names(workload, kept) or kept)
        raise ResultMissing("result-unknown", subject=workload, known=known)

    def page(self, workloads: Sequence[str]) -> PageData:
        """What a page shows of the newest kept results of some workloads, or of all.

        Raises:
            ResultMissing: none is kept.
        """
        names = tuple(dict.fromkeys(workloads)) or self.store.results.workloads()
        if not names:
            raise ResultMissing("results-none")
        kept = [self.latest(name) for name in names]
        document = document_of(kept, self.settings, self.store)
        return page_of(document, self.store, Cleaner(os.environ))


def workload_of(name: str, workloads: Sequence[Workload]) -> Workload:
    """Return the workload of a name.

    Raises:
        ConfigInvalid: there is none.
    """
    by_id = {workload.id: workload for workload in workloads}
    if name not in by_id:
        known = tuple(sorted(by_id)) or ("none",)
        raise ConfigInvalid("workload-unknown", subject=name, known=known)
    return by_id[name]


def find_tool(nsys: str | None = None) -> NsysTool:
    """Find the nsys of this project, or the one that was named."""
    return find_nsys(nsys, os.environ, setting=Project.here().settings.nsys)
