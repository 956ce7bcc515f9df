"""The pytest of a worker, inside `nsys profile`: runs one workload with real steps and writes its account."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from perfgate.execute import worker
from perfgate.model.order import Ending, Order
from perfgate.plugin.collect import WorkloadModule, spared_by_timeouts
from perfgate.workload import holds_workloads

ORDER = pytest.StashKey[Order]()
STEPS = pytest.StashKey[worker.MeasuredSteps]()
CODE = pytest.StashKey[Mapping[str, str]]()
"""Digests of the project's files as they were loaded, by path."""
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
        bouts=order.bouts,
    )
    config.stash[ORDER], config.stash[STEPS] = order, steps
    config.stash[SUBTESTS] = []
    config.stash[CODE] = _before_it_is_loaded(config, Path(order.root))
    if order.bouts is not None and order.bouts.core is not None:
        worker.stay_near(order.bouts.core)


def _before_it_is_loaded(config: pytest.Config, root: Path) -> dict[str, str]:
    """The workload's own file: what it imports takes seconds, in which somebody may edit it."""
    files = [
        (config.invocation_params.dir / str(name).partition("::")[0]).resolve()
        for name in config.args
    ]
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
    return (
        [WorkloadModule.from_parent(parent, path=file_path)] if holds_workloads(file_path) else []
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """The gate keeps the time of its workers."""
    spared_by_timeouts(item)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run the workload and tell how it ended."""
    order, steps = pyfuncitem.config.stash[ORDER], pyfuncitem.config.stash[STEPS]
    own, subtests = pyfuncitem.config.stash[CODE], pyfuncitem.config.stash[SUBTESTS]
    before = {**worker.loaded_code(Path(order.root)), **own}
    try:
        with _noting_threads() as threads:
            result = yield
        _refuse_other_steps(pyfuncitem, steps)
        steps.check()
    except worker.StepsMisused as misused:
        message = f"{misused}{_aside('thread', threads)}{_aside('subtest', subtests)}"
        worker.tell(order, steps, misused.ending, message=message, before=before)
        raise
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
            order,
            steps,
            Ending.EXITED,
            message=f"it called sys.exit({said})",
            exit_status=status,
            before=before,
        )
        raise
    except BaseException as raised:
        worker.tell(order, steps, Ending.RAISED, message=_named(raised), before=before)
        raise
    worker.tell(order, steps, Ending.FINISHED, before=before)
    if subtests:
        failed = (
            "a subtest failed"
            if len(subtests) == 1
            else f"{len(subtests)} subtests failed, the first"
        )
        worker.tell_failed(order, steps, f"{failed} with {subtests[0]}")
    return result


@contextmanager
def _noting_threads() -> Iterator[list[str]]:
    """What threads raise meanwhile, as text: an exception that is held would hold the loop that it left open."""
    raised: list[str] = []
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
        yield raised
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
        raise worker.StepsMisused(
            "its steps are not perfgate's: a fixture or parameter of the project's own is called steps. "
            "Give that another name."
        )


def _aside(what: str, raised: Sequence[str]) -> str:
    """A sentence on the first that one of its threads or subtests raised, which may be why it left the loop."""
    if not raised:
        return ""
    first = next(iter(raised[0].splitlines()), "").rstrip(".: ")
    return f" A {what} of it raised {first}; its traceback is in the log."


def _named(raised: BaseException) -> str:
    return f"{type(raised).__name__}: {_said(raised)}"


def _said(raised: BaseException) -> str:
    try:
        return str(raised)
    except Exception:  # noqa: BLE001 - the workload's own code
        return "(its text cannot be told: its __str__ raises)"


@pytest.hookimpl(wrapper=True)
def pytest_report_teststatus() -> Generator[None, object, tuple[str, str, str]]:
    """Print no letter, nor a subtest's: what a workload printed is to be the last that its log shows."""
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
        if report.failed and not isinstance(raised, worker.ToldWhole):
            sys.stderr.write(f"{report.longreprtext}\n")
        _tell_of(item, call.when, raised, failed=report.failed)
    return report


def _tell_of(item: pytest.Item, when: str, raised: BaseException, *, failed: bool) -> None:
    """Tell of fixtures before the workload, which then never ran, of subtests, and of what fails after it."""
    order, steps = item.config.stash[ORDER], item.config.stash[STEPS]
    is_told = Path(order.account).exists()
    match when:
        case "setup" if not is_told:
            skipped = isinstance(raised, pytest.skip.Exception)
            ending, message = (
                (Ending.SKIPPED, str(raised)) if skipped else (Ending.RAISED, _of_fixture(raised))
            )
            worker.tell(order, steps, ending, message=message)
        case "call" if failed and not is_told:
            # A subtest's: the workload's own comes after its account.
            item.config.stash[SUBTESTS].append(_named(raised))
        case "call" if failed:
            worker.tell_failed(order, steps, f"then it raised {_named(raised)}")
        case "teardown" if failed:
            worker.tell_failed(order, steps, f"a fixture's teardown raised {_named(raised)}")
        case _:
            return


def _of_fixture(raised: BaseException) -> str:
    if isinstance(raised, pytest.FixtureLookupError):
        missing, *known = [
            line.strip() for line in raised.formatrepr().errorstring.splitlines()[:2]
        ]
        return f"FixtureLookupError: {missing}{''.join(f' ({line})' for line in known)}"
    return f"in a fixture: {_named(raised)}"
