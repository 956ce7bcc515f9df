"""The pytest of a worker, inside `nsys profile`: runs one workload with real steps and writes its
report."""

from __future__ import annotations

import atexit
import io
import os
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from perfgate.execute import worker
from perfgate.model.note import note
from perfgate.model.order import Ending, Order
from perfgate.plugin import WorkloadModule, spared_by_timeouts
from perfgate.workload import holds_workloads

ORDER = pytest.StashKey[Order]()
STEPS = pytest.StashKey[worker.MeasuredSteps]()


def pytest_configure(config: pytest.Config) -> None:
    """Read the order, and stay near its core before anything of the workload is imported."""
    file = Path(config.getoption("perfgate_worker"))
    order = Order.model_validate_json(file.read_text(encoding="utf-8"))
    del config.args[:-1]  # a word of `addopts` that is no option's value
    config.stash[ORDER] = order
    config.stash[STEPS] = worker.MeasuredSteps(
        steps=order.steps,
        warmup=order.warmup,
        profiled=worker.profiled(os.environ),
        blocks=order.blocks,
        hold=order.hold,
    )
    config.add_cleanup(lambda: _leave(config))
    if order.blocks is not None and order.blocks.core is not None:
        worker.stay_near(order.blocks.core)


def pytest_plugin_registered(plugin: object) -> None:
    """Have the import log name each conftest: pytest forgets the module of one when it imports
    another."""
    file = getattr(plugin, "__file__", None)
    if file is not None and Path(file).name == "conftest.py":
        io.open_code(str(file)).close()


def _leave(config: pytest.Config) -> None:
    """End the process, once all of pytest is done, as its interpreter would: threads and children
    joined, what was registered for the end done. But do not take the interpreter apart, which nsys
    waits for.

    nsys has all of a capture that the workload closed itself; of another it gets the rest then.
    """
    steps, session = config.stash[STEPS], config.pluginmanager.get_plugin("session")
    if not steps.is_here or not steps.finished or steps.captured_by is None or session is None:
        return
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(session.exitstatus))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Wait for the turn, where that comes before the workload's fixtures."""
    item.config.stash[STEPS].hold()


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
    return (
        [WorkloadModule.from_parent(parent, path=file_path)] if holds_workloads(file_path) else []
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """The gate keeps the time of its workers."""
    spared_by_timeouts(item)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run the workload and report how it ended.

    What fails after that, such as a fixture's teardown, is in the log, and in pytest's exit status.
    """
    order, steps = pyfuncitem.config.stash[ORDER], pyfuncitem.config.stash[STEPS]
    try:
        result = yield
        given = pyfuncitem.funcargs.get("steps", steps)
        if given is not steps and not steps.turns:
            raise worker.StepsMisused("steps-not-perfgates")
        steps.check()
    except BaseException as raised:
        _report(order, steps, raised)
        raise
    worker.report(order, steps, Ending.FINISHED)
    return result


def _report(
    order: Order, steps: worker.MeasuredSteps, raised: BaseException, *, where: str = ""
) -> None:
    """Report a workload that something has ended."""
    ending = Ending.RAISED
    match raised:
        case worker.StepsEnded():
            ending, why = raised.ending, raised.why
        case pytest.skip.Exception():
            ending, why = Ending.SKIPPED, note("skipped", what=_said(raised))
        case SystemExit():
            ending, why = Ending.EXITED, note("called-exit", argument=_said(raised))
        case _:
            # In a line that fits into a sentence; the traceback is in the log.
            lines = f"{type(raised).__name__}: {_said(raised)}".splitlines()
            first = next(line for line in lines if line.strip()).strip()
            if not first.endswith("..."):  # by which a secret is known that was cut
                first = first.rstrip(".: ")
            why = note("raised", what=f"{where}{first}")
    worker.report(order, steps, ending, why=why)


def _said(raised: BaseException) -> str:
    if isinstance(raised, pytest.FixtureLookupError):
        return f"there is no fixture {raised.argname!r}"
    return str(raised).encode(errors="backslashreplace").decode()


@pytest.hookimpl(wrapper=True)
def pytest_report_teststatus() -> Generator[None, object, tuple[str, str, str]]:
    """Print no letter, nor a subtest's: what a workload printed is to be the last that its log
    shows."""
    yield
    return "", "", ""


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Show why a file cannot be collected; pytest's own summary is off."""
    if report.failed:
        sys.stderr.write(f"{report.longreprtext}\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what fails, and report a workload that never ran because of its fixtures."""
    report, raised = (yield), call.excinfo.value if call.excinfo is not None else None
    if report.failed and not isinstance(raised, worker.StepsEnded):
        sys.stderr.write(f"{report.longreprtext}\n")
    if call.when == "setup" and raised is not None:
        stash = item.config.stash
        _report(stash[ORDER], stash[STEPS], raised, where="in a fixture: ")
    return report
