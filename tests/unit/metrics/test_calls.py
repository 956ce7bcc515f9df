"""API names: what launches, what waits, and what only sounds like it."""

from __future__ import annotations

import pytest

from perfgate.metrics.calls import CallKind, kind_of

COUNTED = CallKind.LAUNCH | CallKind.GRAPH_LAUNCH | CallKind.SYNC


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cudaLaunchKernel_v7000", CallKind.LAUNCH),
        ("cudaLaunchKernel_ptsz_v7000", CallKind.LAUNCH),
        ("cudaLaunchKernel_v7000_ptsz", CallKind.LAUNCH),
        ("__cudaLaunchKernel_v13000", CallKind.LAUNCH),
        ("__cudaLaunchKernel_ptsz_v13000", CallKind.LAUNCH),
        ("cudaLaunchKernelExC_v11060", CallKind.LAUNCH),
        ("cudaLaunchCooperativeKernel_v9000", CallKind.LAUNCH),
        ("cuLaunchKernel", CallKind.LAUNCH),
        ("cuLaunchKernel_ptsz", CallKind.LAUNCH),
        ("cuLaunchKernelEx", CallKind.LAUNCH),
        ("cuLaunchGrid", CallKind.LAUNCH),
        ("cudaGraphLaunch_v10000", CallKind.GRAPH_LAUNCH),
        ("cuGraphLaunch_ptsz", CallKind.GRAPH_LAUNCH),
        ("cudaDeviceSynchronize_v3020", CallKind.SYNC),
        ("cudaStreamSynchronize_ptsz_v7000", CallKind.SYNC),
        ("cuCtxSynchronize_v2", CallKind.SYNC),
        ("cuEventSynchronize", CallKind.SYNC),
        ("cudaMemcpy_v3020", CallKind.SYNC),
        ("cuMemcpyDtoH_v2", CallKind.SYNC),
        ("cuMemcpyDtoH_v2_ptds", CallKind.SYNC),  # suffixes go in any order
        ("cuMemcpy", CallKind.SYNC),
        ("cuMemcpyHtoA_v2", CallKind.SYNC),
        ("cuMemcpyAtoH_v2", CallKind.SYNC),
        ("cuMemcpy2DUnaligned_v2", CallKind.SYNC),
        ("cudaMemcpy2DToArray_v3020", CallKind.SYNC),
        ("cudaMemcpyFromArray_v3020", CallKind.SYNC),
        ("cudaLaunchKernelEx_v14000", CallKind.LAUNCH),  # of no toolkit yet
        ("cuLaunchKernelBatch_ptsz", CallKind.LAUNCH),
        ("__cudaLaunchKernelEx_v14000", CallKind.LAUNCH),
        ("cudaMemcpyAsync_v3020", CallKind(0)),
        ("cudaLaunchHostFunc_v10000", CallKind(0)),
        ("cuLaunchHostFunc", CallKind(0)),
        ("cudaStreamWaitEvent_v3020", CallKind(0)),
        ("cudaStreamQuery_v3020", CallKind(0)),
        ("cudaGraphInstantiate_v10000", CallKind(0)),
        ("cuKernelGetName", CallKind(0)),
    ],
)
def test_calls_are_classified_by_their_name_without_version(name: str, expected: CallKind) -> None:
    assert kind_of(name) & COUNTED == expected


@pytest.mark.parametrize(
    ("name", "is_driver"),
    [
        ("cuLaunchKernel_ptsz", True),
        ("cuLaunchKernelBatch_ptsz", True),
        ("cudaLaunchKernel_v7000", False),
        ("__cudaLaunchKernelEx_v14000", False),
    ],
)
def test_a_call_of_the_driver_is_known_by_its_name(name: str, *, is_driver: bool) -> None:
    assert (CallKind.DRIVER in kind_of(name)) == is_driver
