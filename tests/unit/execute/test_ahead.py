"""Which of several runs that are alive at once is to blame where they end."""

from __future__ import annotations

from concurrent.futures import Future
from typing import cast

import pytest
from support.cases import named

from perfgate.execute.ahead import RunFailed, _Held, _refuse_failed
from perfgate.execute.failures import OtherSideEnded, RunEnd
from perfgate.model.errors import WorkloadFailed


def ended(*errors: Exception | str | None) -> list[list[_Held]]:
    """Runs that have ended with an error, or well (None), or still run."""
    runs: list[_Held] = []
    for error in errors:
        run, ran = object.__new__(_Held), Future[RunEnd]()
        if isinstance(error, Exception):
            ran.set_exception(error)
        elif error is None:
            ran.set_result(cast("RunEnd", None))
        run.ran = ran
        runs.append(run)
    for number, run in enumerate(runs):
        run.number = number
    return [runs[:2], runs[2:]]


def failed(name: str) -> WorkloadFailed:
    return WorkloadFailed("quoted", text=f"{name}: it broke")


GONE = OtherSideEnded("quoted", text="gone: it broke")


@pytest.mark.parametrize(
    ("errors", "blamed"),
    named(
        {
            "nothing failed": ((None, "runs"), None),
            "one failed, and the other side ended for it": ((failed("a"), GONE), 0),
            "its other side may still say why": ((GONE, "runs"), None),
            "nobody says more": ((GONE, GONE), 1),
            "the other side ended well": ((GONE, None), 0),
            "another pair is still held": ((GONE, GONE, "runs", "runs"), 1),
            "the second pair": (("runs", "runs", GONE, failed("d")), 3),
        }
    ),
)
def test_a_failed_run_is_named_as_soon_as_its_pair_can_say_no_more(
    errors: tuple[Exception | str | None, ...], blamed: int | None
) -> None:
    runs = ended(*errors)
    if blamed is None:
        _refuse_failed(runs)
        return
    with pytest.raises(RunFailed) as caught:
        _refuse_failed(runs)
    assert caught.value.number == blamed
