"""What the CPU waits for in a call, by the call's name and the copies under its range; knows no
metric's change."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from perfgate.model.metric import Metric
from perfgate.model.sample import Breakdown, SyncSample

_READ: Final = (
    "What is only logged can stay on the GPU and be fetched every so many steps: .item(), .cpu(), print() and a "
    "condition on a tensor each wait for all that was launched."
)
_SENT: Final = (
    "A copy to the GPU is not waited for if it is made from pinned memory (DataLoader(pin_memory=True)) with "
    ".to(device, non_blocking=True); zeros, masks and indices can be made on the GPU at once (device=...)."
)
_WORK: Final = "Only what the CPU reads has to be waited for: a synchronize() that was left from taking a time can go."


class Wait(Enum):
    """What a call waits for: the words that say so, and what usually helps."""

    READ = "", _READ
    """Copies from the GPU, or what is not known: mostly these."""
    SENT = ", for copies to the GPU", _SENT
    PAGEABLE = ", for copies to the GPU from pageable memory", _SENT
    BOTH = ", for copies to the GPU and from it", f"{_SENT} {_READ}"
    WORK = "", _WORK

    def __init__(self, words: str, usually: str) -> None:
        """Take an end for a sentence that tells the wait, and a sentence or two on what helps."""
        self.words, self.usually = words, usually


_TO_GPU: Final = re.compile(r"Hto[DA]|To(?:Symbol|Array)")
_FROM_GPU: Final = re.compile(r"[DA]toH|From(?:Symbol|Array)")
_FOR_WORK: Final = re.compile(r"cu(?:da)?(?:Device|Thread|Ctx|Event)Synchronize")
"""Calls that say what they wait for. cudaStreamSynchronize does not: torch copies by
cudaMemcpyAsync, then waits."""


def wait_for(row: SyncSample, breakdown: Breakdown) -> Wait:
    """Say what a call waits for: what its name says, else the copies that are launched under the
    same range."""
    if _FOR_WORK.match(row.call):
        return Wait.WORK
    if _FROM_GPU.search(row.call):
        return Wait.READ
    values = next((one.values for one in breakdown.ranges if one.name == row.range), {})
    sent, read, pageable = (
        values.get(metric, 0.0)
        for metric in (Metric.H2D_COPIES, Metric.D2H_COPIES, Metric.PAGEABLE_COPIES)
    )
    to_gpu = Wait.PAGEABLE if sent and pageable >= sent + read else Wait.SENT
    if _TO_GPU.search(row.call):
        return to_gpu
    if not (sent or read):
        return Wait.WORK if Metric.D2H_COPIES in values else Wait.READ
    # One wait a copy: as many as are read leave none for what is sent.
    if row.count <= read:
        return Wait.READ
    return Wait.BOTH if read else to_gpu
