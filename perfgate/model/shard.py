"""One part of a project's workloads, of several that are measured apart: which it is, and what
falls to it."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import Field, model_validator

from perfgate.model.record import Record


class Shard(Record):
    """The `index`-th part, from 1, `of` so many."""

    index: int = Field(ge=1, le=9999)
    of: int = Field(ge=1, le=9999)

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Shard:
        if self.index > self.of:
            raise ValueError("the index of a shard is beyond their number")
        return self

    def __str__(self) -> str:
        """As it is asked for: `2/3`."""
        return f"{self.index}/{self.of}"

    def part(self, workloads: Collection[str]) -> frozenset[str]:
        """What of these falls to it: by turns in the order of their ids, so that each is of one
        shard only."""
        return frozenset(sorted(workloads)[self.index - 1 :: self.of])
