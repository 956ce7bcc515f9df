"""The pytest items of a gate: one a workload, which runs its processes, is judged, and passes or
fails."""

from __future__ import annotations

import enum
import inspect
import numbers
import os.path
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import pytest
from pydantic import ValidationError

from perfgate.model.errors import ConfigInvalid, PerfgateError
from perfgate.model.given import refused
from perfgate.model.secrets import Cleaner, looks_secret
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload
from perfgate.model.workload_file import read_workload_file
from perfgate.plugin import WorkloadModule
from perfgate.plugin.guards import Lines, why_marked_skipped
from perfgate.plugin.state import STATE, WORKLOAD, table
from perfgate.plugin.typed import compared_options, digest
from perfgate.render.verdict import properties
from perfgate.words import escape
from perfgate.workload import declaration_of

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr, TracebackStyle

PLAIN: Final = (str, bytes, bool, int, float, complex)
"""Types whose `repr` says all; that of those derived from them may not."""
NAMED: Final = ("dtype", "device", "memory_format", "layout")
"""Likewise types of torch."""
LONGEST: Final = 2000
"""Characters; of a longer text its digest is kept."""


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
        verdict = state.gate.check(self.stash[WORKLOAD], following=self._following)
        self.user_properties += properties(verdict)
        if not state.gate.settings.opens(verdict):
            raise GateShut(verdict)

    def _following(self) -> Workload | None:
        """The workload that comes next."""
        items = self.session.items
        later = items[items.index(self) + 1 :]
        is_next = (one for one in later if WORKLOAD in one.stash and not why_marked_skipped(one))
        return next((one.stash[WORKLOAD] for one in is_next), None)

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


class WorkloadItem(_Gated, pytest.Function):
    """A decorated workload: its fixtures are set up in the worker, not here."""

    def setup(self) -> None:
        """Set nothing up: the worker does, in every run anew."""


class CommandItem(_Gated):
    """A workload from a YAML file."""

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the workload is declared, and what heads its failure."""
        return self.path, None, self.name


class GatedModule(WorkloadModule):
    """A Python file of workloads, collected for a gate."""

    def collect(self) -> list[pytest.Item]:
        """Turn each workload of the module into an item that is measured."""
        root, source = self.config.rootpath, str(self.path)
        if self.path.is_relative_to(root):
            source = self.path.relative_to(root).as_posix()
        items: list[pytest.Item] = []
        if self._is_script():
            return items
        try:
            for function in super().collect():
                assert isinstance(function, pytest.Function)
                item: WorkloadItem = WorkloadItem.from_parent(
                    self,
                    name=function.name,
                    callspec=getattr(function, "callspec", None),
                    callobj=function.obj,
                    fixtureinfo=function._fixtureinfo,
                    originalname=function.originalname,
                )
                item.stash[WORKLOAD] = self._workload(function, source)
                items.append(item)
        except SystemExit as left:
            error = ConfigInvalid("workload-left", source=source, status=repr(left.code))
        except ValidationError as invalid:
            error = refused(invalid, Workload, place=f"{source}: @workload: ")
        except ConfigInvalid as invalid:
            error = invalid
        else:
            return items
        raise self.CollectError(escape.message(str(error)))

    def _is_script(self) -> bool:
        """Whether a YAML workload runs it, so that it is not imported here: it may be named, but
        declares no workloads as far as can be read."""
        if self.path.name not in self.config.stash[STATE].scripts:
            return False
        with suppress(OSError):
            text = self.path.read_text(encoding="utf-8", errors="replace")
            return "perfgate" not in text or "workload" not in text
        return False

    def _workload(self, function: pytest.Function, source: str) -> Workload:
        declared = declaration_of(function.obj)
        assert declared is not None
        gate = self.config.stash[STATE].gate
        cleaner = gate.cleaner.knowing({}, declared.pass_env)
        parameters, by_id = parameters_of(function, cleaner, source=source)
        if (cleaned := cleaner.clean(function.name)) != function.name:
            name = function.originalname  # that of its baseline has the secret of a parameter in it
            raise ConfigInvalid("workload-id-secret", source=source, workload=name, name=cleaned)
        path, line, _ = function.reportinfo()
        return Workload(
            id=function.name,
            source=source,
            line=line if Path(path) == self.path else None,
            nodeid=function.nodeid,
            parameters=parameters,
            by_id=by_id,
            options=compared_options(self.config),
            **{**vars(declared), "timeout_s": declared.timeout_s or gate.settings.timeout_s},
        )


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


# The arguments of a parametrised function, which two measurements must agree on


def parameters_of(
    function: pytest.Function, cleaner: Cleaner, *, source: str
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return a parametrised function's arguments as text, and the names of those of which only the
    type and the id are compared: those that are no scalars.

    What looks like a secret is its digest. A path below the project's root is relative to it, and
    of any other its last part is kept: where files lie on this machine is not measured.

    Raises:
        ConfigInvalid: one that is no scalar has no id.
    """
    callspec: Any = getattr(function, "callspec", None)
    root = function.config.rootpath
    texts: dict[str, str] = {}
    by_id: list[str] = []
    for name, value in () if callspec is None else sorted(callspec.params.items()):
        text = _scalar(value, root)
        if text is not None:
            texts[name] = _safe(name, text, root, cleaner)
            continue
        made_by_pytest = {f"{name}{callspec.indices.get(name)}", getattr(value, "__name__", "")}
        if made_by_pytest & {*callspec.id.split("-")}:
            raise ConfigInvalid(
                "parameter-without-id",
                source=source,
                workload=function.originalname,
                parameter=name,
                type=type(value).__name__,
            )
        by_id.append(name)
        texts[name] = f"{type(value).__name__} in {callspec.id}"
    return texts, tuple(by_id)


def _scalar(value: object, root: Path) -> str | None:
    """Return a value's text, the same in every process; None of what is no scalar."""
    if isinstance(value, enum.Enum):
        inner = _scalar(value.value, root)
        name = f"{type(value).__qualname__}.{value.name}"
        return name if inner is None else f"{name} = {inner}"
    if isinstance(value, PurePath):
        if not value.is_absolute():
            return repr(value.as_posix())
        real, root = Path(os.path.realpath(value)), root.resolve()
        is_within = real.is_relative_to(root)
        return repr(real.relative_to(root).as_posix() if is_within else value.name)
    if value is None or type(value).__name__ in NAMED:
        return repr(value)
    if isinstance(value, type) or inspect.isroutine(value):
        return None if "<" in value.__qualname__ else value.__qualname__
    if isinstance(value, PLAIN):
        return next(one for one in PLAIN if isinstance(value, one)).__repr__(value)
    return f"{type(value).__name__}({value})" if isinstance(value, numbers.Number) else None


def _safe(name: str, text: str, root: Path, cleaner: Cleaner) -> str:
    """Return a text as it may be shown and kept."""
    for folder in {str(root), str(root.resolve())} - {os.path.sep}:
        text = text.replace(f"{folder}{os.path.sep}", "")
    if looks_secret(name, text[:LONGEST].strip("'\"")):
        return digest(text)
    text = cleaner.clean(text)
    return text if len(text) <= LONGEST else digest(text)
