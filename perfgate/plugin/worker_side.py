"""The pytest of a worker, inside `nsys profile`: runs one workload with real steps and writes its
report."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perfgate.execute import worker
from perfgate.model.note import note
from perfgate.model.order import Ending, Order
from perfgate.plugin.collect import WorkloadModule, spared_by_timeouts
from perfgate.workload import holds_workloads

ORDER = pytest.StashKey[Order]()
STEPS = pytest.StashKey[worker.MeasuredSteps]()
SUBTESTS = pytest.StashKey[list[str]]()
"""What failed subtests raised, which the workload itself never sees."""


def pytest_configure(config: pytest.Config) -> None:
    """Read the order, and stay near the core it names before anything of the workload is imported."""
    order = Order.model_validate_json(
        Path(config.getoption("perfgate_worker")).read_text(encoding="utf-8")
    )
    del config.args[:-1]  # a word of `addopts` that is no option's value
    steps = worker.MeasuredSteps(
        steps=order.steps,
        warmup=order.warmup,
        profiled=worker.profiled(os.environ),
        blocks=order.blocks,
    )
    config.stash[ORDER], config.stash[STEPS] = order, steps
    config.stash[SUBTESTS] = []
    if order.blocks is not None and order.blocks.core is not None:
        worker.stay_near(order.blocks.core)


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
    """Run the workload and report how it ended."""
    order, steps = pyfuncitem.config.stash[ORDER], pyfuncitem.config.stash[STEPS]
    subtests = pyfuncitem.config.stash[SUBTESTS]
    threads: list[str] = []
    try:
        with _noting_threads(threads):
            result = yield
        _refuse_other_steps(pyfuncitem, steps)
        steps.check()
    except worker.StepsEnded as ended:
        asides = (
            *(note("thread-raised", what=_first_line(raised)) for raised in threads[:1]),
            *(note("subtest-raised", what=_first_line(raised)) for raised in subtests[:1]),
        )
        worker.report(order, steps, ended.ending, why=ended.why, asides=asides)
        raise
    except pytest.skip.Exception as skipped:
        worker.report(order, steps, Ending.SKIPPED, why=note("skipped", what=_said(skipped)))
        raise
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else int(left.code is not None)
        argument = "" if left.code is None else repr(left.code)
        why = note("called-exit", argument=_writable(argument))
        worker.report(order, steps, Ending.EXITED, why=why, exit_status=status)
        raise
    except BaseException as raised:
        worker.report(order, steps, Ending.RAISED, why=note("raised", what=_named(raised)))
        raise
    worker.report(order, steps, Ending.FINISHED)
    if subtests:
        what = _first_line(subtests[0])
        worker.report_failed(order, steps, note("raised-after-loop", where="a subtest", what=what))
    return result


@contextmanager
def _noting_threads(raised: list[str]) -> Iterator[None]:
    """Note what threads raise, as text: an exception that is held would hold the loop that it left
    open."""
    before = threading.excepthook

    def note(seen: threading.ExceptHookArgs) -> None:
        raised.append(
            _named(seen.exc_value) if seen.exc_value is not None else seen.exc_type.__name__
        )
        if before is not threading.__excepthook__:
            # pytest's own says it in a summary, which is off.
            threading.__excepthook__(seen)
        before(seen)

    threading.excepthook = note
    try:
        yield
    finally:
        if threading.excepthook is note:
            threading.excepthook = before


def _refuse_other_steps(item: pytest.Function, steps: worker.MeasuredSteps) -> None:
    """Refuse a workload that was given steps of the project's own, unless they take perfgate's.

    Raises:
        StepsMisused: says so.
    """
    given = item.funcargs.get("steps", steps)
    if given is not steps and not steps.turns:
        raise worker.StepsMisused("steps-not-perfgates")


def _first_line(text: str) -> str:
    """What fits into a sentence of an exception's message; its traceback is in the log."""
    return next((line for line in text.splitlines() if line.strip()), "").strip().rstrip(".: ")


def _named(raised: BaseException) -> str:
    return _first_line(f"{type(raised).__name__}: {_said(raised)}")


def _said(raised: BaseException) -> str:
    try:
        return _writable(str(raised))
    except Exception:  # noqa: BLE001 - the workload's own code
        return "(no text: its __str__ raises)"


def _writable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


@pytest.hookimpl(wrapper=True)
def pytest_report_teststatus() -> Generator[None, object, tuple[str, str, str]]:
    """Print no letter, nor a subtest's: what a workload printed is to be the last that its log
    shows."""
    yield
    return "", "", ""


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Say why a file cannot be collected; pytest's own summary is off."""
    if report.failed:
        sys.stderr.write(f"{report.longreprtext}\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell of what fails or skips besides the workload's own function."""
    report = yield
    if call.excinfo is not None:
        raised = call.excinfo.value
        if report.failed and not isinstance(raised, worker.StepsEnded):
            sys.stderr.write(f"{report.longreprtext}\n")
        _report(item, call.when, raised, failed=report.failed)
    return report


def _report(item: pytest.Item, when: str, raised: BaseException, *, failed: bool) -> None:
    """Report fixtures before the workload, which then never ran, subtests, and what fails after it."""
    order, steps = item.config.stash[ORDER], item.config.stash[STEPS]
    has_ended = Path(order.worker_report).exists()
    match when:
        case "setup" if not has_ended:
            if isinstance(raised, pytest.skip.Exception):
                ending, why = Ending.SKIPPED, note("skipped", what=_said(raised))
            else:
                ending, why = Ending.RAISED, note("raised", what=_of_fixture(raised))
            worker.report(order, steps, ending, why=why)
        case "call" if failed and not has_ended:
            # A subtest's: the workload's own comes after its report.
            item.config.stash[SUBTESTS].append(_named(raised))
        case "call" if failed:
            _after_loop(order, steps, "it", raised)
        case "teardown" if failed:
            _after_loop(order, steps, "a fixture's teardown", raised)
        case _:
            return


def _after_loop(
    order: Order, steps: worker.MeasuredSteps, where: str, raised: BaseException
) -> None:
    why = note("raised-after-loop", where=where, what=_named(raised))
    worker.report_failed(order, steps, why)


def _of_fixture(raised: BaseException) -> str:
    if isinstance(raised, pytest.FixtureLookupError):
        missing, *known = [
            line.strip() for line in raised.formatrepr().errorstring.splitlines()[:2]
        ]
        return f"FixtureLookupError: {missing}{''.join(f' ({line})' for line in known)}"
    return f"in a fixture: {_named(raised)}"
