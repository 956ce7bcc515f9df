"""What a call waits for: its own name says it, or the copies beside it under the same range do."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from perfgate.explain.waits import Wait, wait_for
from perfgate.model.metric import Metric
from perfgate.model.sample import Breakdown, RangeSample, SyncSample

M = Metric
NO_COPIES = {M.H2D_COPIES: 0.0, M.D2H_COPIES: 0.0, M.PAGEABLE_COPIES: 0.0}


def waits(call: str, values: Mapping[Metric, float], *, count: float = 1) -> Wait:
    row = RangeSample(name="train", count=1, cpu_ms=5.0, values=values)
    other = RangeSample(name="log", count=1, cpu_ms=5.0, values={**NO_COPIES, M.D2H_COPIES: 9.0})
    sync = SyncSample(call=call, range="train", count=count, cpu_ms=4.0)
    return wait_for(sync, Breakdown(ranges=(other, row)))


@pytest.mark.parametrize("call", ["cudaStreamSynchronize", "cudaMemcpy"])
@pytest.mark.parametrize(
    ("sent", "read", "pageable", "count", "told"),
    [
        pytest.param(0, 1, 1, 1, Wait.READ, id="an item()"),
        pytest.param(2, 0, 2, 2, Wait.PAGEABLE, id="batches from pageable memory"),
        pytest.param(2, 0, 0, 2, Wait.SENT, id="batches from pinned memory, waited for"),
        pytest.param(2, 1, 0, 1, Wait.READ, id="batches that nothing waits for, and an item()"),
        pytest.param(2, 1, 3, 3, Wait.BOTH, id="batches and an item()"),
        pytest.param(0, 0, 0, 1, Wait.WORK, id="no copies"),
    ],
)
def test_a_wait_is_for_the_copies_beside_it(
    call: str, sent: float, read: float, pageable: float, count: float, told: Wait
) -> None:
    values = {M.H2D_COPIES: sent, M.D2H_COPIES: read, M.PAGEABLE_COPIES: pageable}
    assert waits(call, values, count=count) is told


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("cuMemcpyHtoD", Wait.SENT),
        ("cudaMemcpyToSymbol", Wait.SENT),
        ("cudaMemcpy2DToArray", Wait.SENT),
        ("cuMemcpyDtoH", Wait.READ),
        ("cudaMemcpyFromSymbol", Wait.READ),
        ("cudaDeviceSynchronize", Wait.WORK),
        ("cuCtxSynchronize", Wait.WORK),
        ("cudaEventSynchronize", Wait.WORK),
    ],
)
def test_a_call_that_says_what_it_waits_for_is_believed(call: str, told: Wait) -> None:
    assert waits(call, {M.H2D_COPIES: 1.0, M.D2H_COPIES: 1.0, M.PAGEABLE_COPIES: 0.0}) is told


def test_what_is_not_known_is_taken_for_a_read() -> None:
    assert waits("cudaStreamSynchronize", {}) is Wait.READ
    sync = SyncSample(call="cudaStreamSynchronize", range="elsewhere", count=1, cpu_ms=4.0)
    assert wait_for(sync, Breakdown()) is Wait.READ


def test_each_says_what_helps_in_whole_sentences() -> None:
    assert all(one.usually.endswith(".") for one in Wait)
    assert ".item()" in Wait.READ.usually
    assert "non_blocking=True" in Wait.SENT.usually == Wait.PAGEABLE.usually
    assert Wait.BOTH.usually == f"{Wait.SENT.usually} {Wait.READ.usually}"
