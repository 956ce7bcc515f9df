"""Which CUDA API calls launch kernels, launch graphs or wait: names as data; it must not know steps
or ranges."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from perfgate.model.timeline import Flags, Ints


class CallClass(IntEnum):
    """What a CUDA API call is counted as."""

    OTHER = 0
    LAUNCH = 1
    GRAPH_LAUNCH = 2
    SYNC = 3


RUNTIME_CALLS: Mapping[str, CallClass] = {
    "cudaGraphLaunch": CallClass.GRAPH_LAUNCH,
    "cudaDeviceSynchronize": CallClass.SYNC,
    "cudaThreadSynchronize": CallClass.SYNC,
    "cudaStreamSynchronize": CallClass.SYNC,
    "cudaEventSynchronize": CallClass.SYNC,
    "cudaMemcpy": CallClass.SYNC,
    "cudaMemcpy2D": CallClass.SYNC,
    "cudaMemcpy3D": CallClass.SYNC,
    "cudaMemcpyToSymbol": CallClass.SYNC,
    "cudaMemcpyFromSymbol": CallClass.SYNC,
    "cudaMemcpyToArray": CallClass.SYNC,
    "cudaMemcpyFromArray": CallClass.SYNC,
    "cudaMemcpy2DToArray": CallClass.SYNC,
    "cudaMemcpy2DFromArray": CallClass.SYNC,
}
"""The runtime API, but for what launches a kernel. A copy that is not asynchronous waits for what
came before it, and for its own end.

Not here on purpose: cudaStreamWaitEvent, cudaStreamQuery, cudaEventQuery.
"""

DRIVER_CALLS: Mapping[str, CallClass] = {
    "cuGraphLaunch": CallClass.GRAPH_LAUNCH,
    "cuCtxSynchronize": CallClass.SYNC,
    "cuStreamSynchronize": CallClass.SYNC,
    "cuEventSynchronize": CallClass.SYNC,
    "cuMemcpyHtoD": CallClass.SYNC,
    "cuMemcpyDtoH": CallClass.SYNC,
    "cuMemcpy": CallClass.SYNC,
    "cuMemcpyHtoA": CallClass.SYNC,
    "cuMemcpyAtoH": CallClass.SYNC,
    "cuMemcpy2D": CallClass.SYNC,
    "cuMemcpy2DUnaligned": CallClass.SYNC,
    "cuMemcpy3D": CallClass.SYNC,
}
"""The driver API, likewise: Triton, cuBLAS and others launch through it directly."""

_SUFFIX = re.compile(r"(?:_v\d+|_ptsz|_ptds)+$")
_LAUNCH = re.compile(r"_*cu(?P<runtime>da)?Launch(?!HostFunc)")
"""Calls that launch a kernel, of toolkits to come as well: `<<<>>>` compiles to
`__cudaLaunchKernel` since CUDA 13."""


def base_name(name: str) -> str:
    """A call's name without version and stream suffixes: `cudaLaunchKernel` of
    `cudaLaunchKernel_ptsz_v7000`."""
    return _SUFFIX.sub("", name)


def classify(name: str) -> CallClass:
    """What a call of this name, suffixes and all, counts as."""
    base = base_name(name)
    if _LAUNCH.match(base):
        return CallClass.LAUNCH
    return RUNTIME_CALLS.get(base, DRIVER_CALLS.get(base, CallClass.OTHER))


def of_driver(name: str) -> bool:
    """Whether this is one of the classified calls of the driver API."""
    launch = _LAUNCH.match(name)
    return base_name(name) in DRIVER_CALLS or (launch is not None and launch["runtime"] is None)


def nested_in(inner: tuple[Ints, Ints, Ints], outer: tuple[Ints, Ints, Ints]) -> Flags:
    """Which of the inner calls lie within one of the outer calls of the same thread; each a (start,
    end, thread).

    A runtime call that is traced together with the driver call it makes is one launch, not two:
    ```
    |------cudaLaunchKernel------|
        |----cuLaunchKernel----|
    ```
    Outer calls of one thread do not overlap one another.
    """
    start, end, thread = inner
    found = np.zeros(len(start), np.bool_)
    for one in np.intersect1d(thread, outer[2]).tolist():
        rows, around = np.flatnonzero(thread == one), np.flatnonzero(outer[2] == one)
        around = around[np.argsort(outer[0][around], kind="stable")]
        last_begun = np.searchsorted(outer[0][around], start[rows], side="right") - 1
        ends = outer[1][around][np.maximum(last_begun, 0)]
        found[rows] = (last_begun >= 0) & (end[rows] <= ends)
    return found
