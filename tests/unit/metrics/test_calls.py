"""API names: what launches, what waits, and what only sounds like it."""

from __future__ import annotations

import numpy as np
import pytest

from perfgate.metrics.calls import (
    DRIVER_CALLS,
    RUNTIME_CALLS,
    CallClass,
    base_name,
    classify,
    nested_in,
    of_driver,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cudaLaunchKernel_v7000", CallClass.LAUNCH),
        ("cudaLaunchKernel_ptsz_v7000", CallClass.LAUNCH),
        ("__cudaLaunchKernel_v13000", CallClass.LAUNCH),
        ("__cudaLaunchKernel_ptsz_v13000", CallClass.LAUNCH),
        ("cudaLaunchKernelExC_v11060", CallClass.LAUNCH),
        ("cudaLaunchCooperativeKernel_v9000", CallClass.LAUNCH),
        ("cuLaunchKernel", CallClass.LAUNCH),
        ("cuLaunchKernel_ptsz", CallClass.LAUNCH),
        ("cuLaunchKernelEx", CallClass.LAUNCH),
        ("cuLaunchGrid", CallClass.LAUNCH),
        ("cudaGraphLaunch_v10000", CallClass.GRAPH_LAUNCH),
        ("cuGraphLaunch_ptsz", CallClass.GRAPH_LAUNCH),
        ("cudaDeviceSynchronize_v3020", CallClass.SYNC),
        ("cudaStreamSynchronize_ptsz_v7000", CallClass.SYNC),
        ("cuCtxSynchronize_v2", CallClass.SYNC),
        ("cuEventSynchronize", CallClass.SYNC),
        ("cudaMemcpy_v3020", CallClass.SYNC),
        ("cuMemcpyDtoH_v2", CallClass.SYNC),
        ("cuMemcpy", CallClass.SYNC),
        ("cuMemcpyHtoA_v2", CallClass.SYNC),
        ("cuMemcpyAtoH_v2", CallClass.SYNC),
        ("cuMemcpy2DUnaligned_v2", CallClass.SYNC),
        ("cudaMemcpy2DToArray_v3020", CallClass.SYNC),
        ("cudaMemcpyFromArray_v3020", CallClass.SYNC),
        ("cudaLaunchKernelEx_v14000", CallClass.LAUNCH),  # of no toolkit yet
        ("cuLaunchKernelBatch_ptsz", CallClass.LAUNCH),
        ("__cudaLaunchKernelEx_v14000", CallClass.LAUNCH),
        ("cudaMemcpyAsync_v3020", CallClass.OTHER),
        ("cudaLaunchHostFunc_v10000", CallClass.OTHER),
        ("cuLaunchHostFunc", CallClass.OTHER),
        ("cudaStreamWaitEvent_v3020", CallClass.OTHER),
        ("cudaStreamQuery_v3020", CallClass.OTHER),
        ("cudaGraphInstantiate_v10000", CallClass.OTHER),
        ("cuKernelGetName", CallClass.OTHER),
    ],
)
def test_calls_are_classified_by_their_name_without_version(name: str, expected: CallClass) -> None:
    assert classify(name) is expected


def test_suffixes_go_in_any_order() -> None:
    assert (
        base_name("cudaLaunchKernel_ptsz_v7000")
        == base_name("cudaLaunchKernel_v7000_ptsz")
        == "cudaLaunchKernel"
    )


def test_driver_and_runtime_share_no_name() -> None:
    assert not set(RUNTIME_CALLS) & set(DRIVER_CALLS)
    assert of_driver("cuLaunchKernel_ptsz")
    assert not of_driver("cudaLaunchKernel_v7000")
    assert of_driver("cuLaunchKernelBatch_ptsz")
    assert not of_driver("__cudaLaunchKernelEx_v14000")


def test_a_call_is_nested_only_within_one_of_its_own_thread() -> None:
    # outer, thread 1   |----0----|     |---1---|
    # inner, thread 1      |-a-|   |-b-|     |--c--|
    # inner, thread 2      |-d-|
    outer = (np.array([30, 0]), np.array([40, 20]), np.array([1, 1]))
    inner = (np.array([5, 21, 35, 5]), np.array([15, 29, 45, 15]), np.array([1, 1, 1, 2]))
    assert nested_in(inner, outer).tolist() == [True, False, False, False]
