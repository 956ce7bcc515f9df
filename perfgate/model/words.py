"""What a GPU is called."""

from __future__ import annotations


def gpu_title(device: int, ordinal: int | None, uuid: str | None, bus: str | None) -> str:
    """A GPU by CUDA's number in its process; where that is not known by what tells it apart, last
    by nsys's number."""
    if ordinal is not None:
        return f"GPU {ordinal}"
    if uuid or bus:
        return f"GPU {uuid or bus}"
    return f"GPU {device} of the capture"
