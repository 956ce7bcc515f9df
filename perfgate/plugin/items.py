"""The pytest items of a gate: one a workload, which runs its processes, is judged, and passes or
fails."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from perfgate.model.errors import ConfigInvalid, PerfgateError
from perfgate.model.metric import Metric
from perfgate.model.settings import check_budgets, first_of
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload
from perfgate.model.workload_file import read_workload_file
from perfgate.plugin.collect import WorkloadModule, without_watch
from perfgate.plugin.handed_on import compared_options
from perfgate.plugin.parameters import parameters_of
from perfgate.plugin.reports import Lines
from perfgate.plugin.shown import table
from perfgate.plugin.state import STATE, WORKLOAD
from perfgate.render.verdict import properties
from perfgate.words import escape
from perfgate.workload import MARK, declaration_of

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr, TracebackStyle


class GateShut(Exception):
    """A workload's outcome keeps the gate shut."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(f"{verdict.workload}: {verdict.outcome}: {verdict.reason}")


class _Gated(pytest.Item):
    """What both forms of a workload do as a pytest item."""

    def runtest(self) -> None:
        """Measure, judge, and fail if the outcome keeps the gate shut."""
        state = self.config.stash[STATE]
        without_watch(self.config)
        verdict = state.gate.check(self.stash[WORKLOAD])
        self.user_properties += properties(verdict)
        if not state.gate.opens(verdict):
            raise GateShut(verdict)

    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: TracebackStyle | None = None,  # noqa: ARG002 - the signature is pytest's
    ) -> str | TerminalRepr:
        """Show a shut gate as its table, and nothing of how it came about."""
        if isinstance(excinfo.value, GateShut):
            return Lines(table(self.config.stash[STATE], excinfo.value.verdict))
        # Without the style: pytest.Function chooses its own, and takes none.
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the workload is declared."""
        workload = self.stash[WORKLOAD]
        return self.path, workload.line, workload.id


class WorkloadItem(_Gated, pytest.Function):
    """A decorated workload: its fixtures are set up in the worker, not here."""

    def setup(self) -> None:
        """Set nothing up: the worker does, in every run anew."""


class CommandItem(_Gated):
    """A workload from a YAML file."""


class GatedModule(WorkloadModule):
    """A Python file of workloads, collected for a gate."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Turn each workload of the module into an item that is measured."""
        try:
            refuse_uncollectable(self.obj, source=self._source)
            functions = [one for one in super().collect() if isinstance(one, pytest.Function)]
            return [self._gated(function) for function in functions]
        except SystemExit as left:
            status = "" if left.code is None else repr(left.code)
            error = ConfigInvalid("workload-left", source=self._source, status=status)
        except ValidationError as invalid:
            error = first_of(invalid, place=f"{self._source}: @workload: ")
        except ConfigInvalid as invalid:
            error = invalid
        raise self.CollectError(escape.message(str(error)))

    def _gated(self, function: pytest.Function) -> WorkloadItem:
        item: WorkloadItem = WorkloadItem.from_parent(
            self,
            name=function.name,
            callspec=getattr(function, "callspec", None),
            callobj=function.obj,
            fixtureinfo=function._fixtureinfo,
            originalname=function.originalname,
        )
        item.stash[WORKLOAD] = self._workload(function)
        return item

    @property
    def _source(self) -> str:
        root = self.config.rootpath
        is_within = self.path.is_relative_to(root)
        return self.path.relative_to(root).as_posix() if is_within else str(self.path)

    def _workload(self, function: pytest.Function) -> Workload:
        declared = declaration_of(function.obj)
        assert declared is not None
        gate, source = self.config.stash[STATE].gate, self._source
        cleaner = gate.cleaner.knowing({}, declared.pass_env)
        parameters = parameters_of(function, cleaner, source=source)
        if (cleaned := cleaner.clean(function.name)) != function.name:
            name = function.originalname  # that of its baseline has the secret of a parameter in it
            raise ConfigInvalid("workload-id-secret", source=source, workload=name, name=cleaned)
        path, line, _ = function.reportinfo()
        place = f"{source}: @workload of {function.name}: budgets"
        check_budgets(declared.budgets, place=place)
        return Workload(
            id=function.name,
            source=source,
            line=line if Path(path) == self.path else None,
            nodeid=function.nodeid,
            steps=declared.steps,
            warmup=declared.warmup,
            parameters=parameters.texts,
            by_id=parameters.by_id,
            options=compared_options(self.config),
            timeout_s=declared.timeout_s or gate.settings.timeout_s,
            budgets={Metric(name): budget for name, budget in declared.budgets.items()},
            pass_env=declared.pass_env,
            ahead=declared.ahead,
        )


class ScriptFile(pytest.File):
    """A Python file that a YAML workload runs: collected, so that it may be named, and never
    imported."""

    def collect(self) -> Iterable[pytest.Item]:
        """Return nothing: its workload is that of the YAML file."""
        return ()


class CommandCollector(pytest.File):
    """A YAML file: one workload."""

    def collect(self) -> Iterable[pytest.Item]:
        """Read the file."""
        settings = self.config.stash[STATE].gate.settings
        try:
            workload = read_workload_file(self.path, root=self.config.rootpath, settings=settings)
        except PerfgateError as invalid:
            raise self.CollectError(escape.message(str(invalid))) from None
        item: CommandItem = CommandItem.from_parent(self, name=workload.id)
        item.stash[WORKLOAD] = workload
        return [item]


def refuse_uncollectable(module: ModuleType, *, source: str) -> None:
    """Refuse a module that marks as `@workload` what no item can be made of.

    Raises:
        ConfigInvalid: names the first of them.
    """
    for name, held in vars(module).items():
        if not inspect.isclass(held) and not inspect.isfunction(held) and _bears_mark(held):
            kind = type(held).__name__
            raise ConfigInvalid("workload-decorated", source=source, workload=name, type=kind)


def _bears_mark(held: object) -> bool:
    """Whether an object took over a workload's attributes; asked past its own attribute access."""
    try:
        return MARK in object.__getattribute__(held, "__dict__")
    except (AttributeError, TypeError):
        return False
