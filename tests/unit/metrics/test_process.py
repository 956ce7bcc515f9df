"""Which devices a process uses."""

from __future__ import annotations

import pytest
from support.measuring import only
from support.timelines import Call, Op, Range, build

from perfgate.model.metric import Metric
from perfgate.model.sample import ProcessSample


def on_two(every: int) -> ProcessSample:
    """Forty steps of 100 ns with 20 ns of work on a GPU, and as much on another in each so many of them."""
    second = range(0, 40, every)
    return only(
        build(
            ranges=[Range(start=t * 100, end=t * 100 + 90) for t in range(40)],
            calls=[Call(start=t * 100 + 5, end=t * 100 + 6, correlation=t + 1) for t in range(40)]
            + [Call(start=t * 100 + 7, end=t * 100 + 8, correlation=t + 101) for t in second],
            kernels=[Op(start=t * 100 + 10, end=t * 100 + 30, correlation=t + 1) for t in range(40)]
            + [
                Op(start=t * 100 + 10, end=t * 100 + 30, correlation=t + 101, device=1)
                for t in second
            ],
        )
    )


def test_a_device_that_next_to_no_step_uses_has_no_idle_time_that_counts() -> None:
    stray, used = on_two(20), on_two(10)
    assert stray.values[Metric.GAP_MS] * 1e6 == pytest.approx(80)
    assert [one.device for one in stray.devices if Metric.GAP_MS in one.values] == [0]
    assert stray.values[Metric.KERNEL_MS] * 1e6 == pytest.approx(21)
    assert (
        "GPU 1 ran something in next to none of the steps: no idle time is counted there"
        in stray.remarks
    )
    assert used.values[Metric.GAP_MS] * 1e6 == pytest.approx((80 + 98) / 2, rel=0.01)
    assert not any("no idle time" in told for told in used.remarks)
