"""The tables of a sample: what is folded away, and what never is."""

from __future__ import annotations

from perfgate.metrics.rows import TOP_KERNELS, kernel_samples
from perfgate.metrics.tally import Work
from perfgate.model.sample import OTHER_KERNELS, WHOLE_GRAPHS


def test_graphs_traced_whole_have_their_row_among_however_many_larger_kernels() -> None:
    kernels = {f"kernel{k}": Work(count=1, gpu_ns=2_000_000 + k) for k in range(TOP_KERNELS + 5)}
    graphs = Work(count=2, gpu_ns=1_000_000)
    rows = {row.name: row for row in kernel_samples({**kernels, WHOLE_GRAPHS: graphs}, {}, steps=1)}
    assert rows[WHOLE_GRAPHS].gpu_ms == 1.0
    assert rows[OTHER_KERNELS].count == 5
    assert len(rows) == TOP_KERNELS + 2
