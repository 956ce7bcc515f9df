"""The pytest of a worker, inside `nsys profile`: runs one workload with real steps and writes its account."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from perfgate import worker
from perfgate.model.order import Ending, Order
from perfgate.plugin.collect import WorkloadModule, spared_by_timeouts
from perfgate.workload import holds_workloads

ORDER = pytest.StashKey[Order]()
STEPS = pytest.StashKey[worker.MeasuredSteps]()
CODE = pytest.StashKey[Mapping[str, str]]()
"""Digests of the project's files as they were loaded, by path."""


def pytest_configure(config: pytest.Config) -> None:
    """Read the order, and stay near the core it names before anything of the workload is imported."""
    order = Order.model_validate_json(Path(config.getoption("perfgate_worker")).read_text(encoding="utf-8"))
    del config.args[:-1]  # a word of `addopts` that is no option's value
    steps = worker.MeasuredSteps(
        steps=order.steps, warmup=order.warmup, profiled=worker.profiled(os.environ), bouts=order.bouts
    )
    config.stash[ORDER], config.stash[STEPS] = order, steps
    config.stash[CODE] = _before_it_is_loaded(config, Path(order.root))
    if order.bouts is not None and order.bouts.core is not None:
        worker.stay_near(order.bouts.core)


def _before_it_is_loaded(config: pytest.Config, root: Path) -> dict[str, str]:
    """The workload's own file: what it imports takes seconds, in which somebody may edit it."""
    files = [(config.invocation_params.dir / str(name).partition("::")[0]).resolve() for name in config.args]
    within = [file for file in files if file.is_file() and file.is_relative_to(root.resolve())]
    return {file.relative_to(root.resolve()).as_posix(): worker.digest_of(file) for file in within}


@pytest.fixture
def steps(pytestconfig: pytest.Config) -> worker.MeasuredSteps:
    """The measured loop of a workload."""
    return pytestconfig.stash[STEPS]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Collect workloads, and nothing else."""
    yield
    return [WorkloadModule.from_parent(parent, path=file_path)] if holds_workloads(file_path) else []


def pytest_itemcollected(item: pytest.Item) -> None:
    """The gate keeps the time of its workers."""
    spared_by_timeouts(item)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run the workload and tell how it ended."""
    order, steps = pyfuncitem.config.stash[ORDER], pyfuncitem.config.stash[STEPS]
    own = pyfuncitem.config.stash[CODE]
    before = {**worker.loaded_code(Path(order.root)), **own}
    try:
        result = yield
        _refuse_other_steps(pyfuncitem, steps)
        steps.check()
    except worker.ToldWhole as told:
        worker.tell(order, steps, told.ending, message=str(told), before=before)
        raise
    except pytest.skip.Exception as skipped:
        worker.tell(order, steps, Ending.SKIPPED, message=_said(skipped), before=before)
        raise
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else int(left.code is not None)
        said = "" if left.code is None else repr(left.code)
        worker.tell(
            order, steps, Ending.EXITED, message=f"it called sys.exit({said})", exit_status=status, before=before
        )
        raise
    except BaseException as raised:
        worker.tell(order, steps, Ending.RAISED, message=f"{type(raised).__name__}: {_said(raised)}", before=before)
        raise
    worker.tell(order, steps, Ending.FINISHED, before=before)
    return result


def _refuse_other_steps(item: pytest.Function, steps: worker.MeasuredSteps) -> None:
    """Refuse a workload that was given steps of the project's own, unless they take perfgate's.

    Raises:
        StepsMisused: says so.
    """
    given = item.funcargs.get("steps", steps)
    if given is not steps and not steps.turns:
        raise worker.StepsMisused(
            "its steps are not perfgate's: a fixture or parameter of the project's own is called steps. "
            "Give that another name."
        )


def _said(raised: BaseException) -> str:
    try:
        return str(raised)
    except Exception:  # noqa: BLE001 - the workload's own code
        return "(its text cannot be told: its __str__ raises)"


def pytest_report_teststatus() -> tuple[str, str, str]:
    """Print no letter: what a workload printed is to be the last that its log shows."""
    return "", "", ""


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Say why a file cannot be collected; pytest's own summary is off."""
    if report.failed:
        sys.stderr.write(f"{report.longreprtext}\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell of fixtures that fail or skip: then the workload itself never ran."""
    report = yield
    order, steps = item.config.stash[ORDER], item.config.stash[STEPS]
    if report.failed and call.excinfo is not None and not isinstance(call.excinfo.value, worker.ToldWhole):
        sys.stderr.write(f"{report.longreprtext}\n")
    if call.when == "setup" and call.excinfo is not None and not Path(order.account).exists():
        skipped = call.excinfo.errisinstance(pytest.skip.Exception)
        worker.tell(
            order,
            steps,
            Ending.SKIPPED if skipped else Ending.RAISED,
            message=str(call.excinfo.value) if skipped else f"in a fixture: {call.excinfo.exconly()}",
        )
    return report
