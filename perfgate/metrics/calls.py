"""CUDA API calls of one process: which launch, copy or wait, in which segment each began, and which
of them a GPU operation is of; it must not know what the operations are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntFlag
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfgate.metrics.attribution import Segments
from perfgate.metrics.intervals import FOREVER
from perfgate.model.arrays import distinct, parts, taken
from perfgate.model.timeline import (
    NO_CORRELATION,
    SHARE_AN_ID,
    Flags,
    Ints,
    SmallInts,
    Timeline,
)

_Whole = TypeVar("_Whole", bound=np.signedinteger[Any])
_SPARSE: Final = 4
"""A table by correlation id may be this many times longer than its rows; beyond that ids are
renumbered."""
_KEYS: Final = 1_000_000
"""Name keys may exceed the number of rows by this much before they are renumbered."""


_GRAPH_SHIFT = 32
"""CUPTI numbers the nodes of a graph from its own number on, shifted so far."""


class CallKind(IntFlag):
    """What a CUDA API call does, as far as it counts."""

    LAUNCH = 1
    GRAPH_LAUNCH = 2
    SYNC = 4
    COPY = 8
    """Makes one copy."""
    RECORDING = 16
    """Begins to record a CUDA graph."""
    DRIVER = 32
    """Is of the driver API, and may lie within a call of the runtime."""


_SUFFIX: Final = re.compile(r"(?:_v\d+|_ptsz|_ptds)+$")
_KINDS: Final = {
    # Of toolkits to come as well: `<<<>>>` compiles to `__cudaLaunchKernel` since CUDA 13.
    CallKind.LAUNCH: re.compile(r"_*cu(?:da)?Launch(?!HostFunc)"),
    CallKind.GRAPH_LAUNCH: re.compile(r"cu(?:da)?GraphLaunch$"),
    # A copy that is not asynchronous waits for what came before it, and for its own end. Not here
    # on purpose: cudaStreamWaitEvent, cudaStreamQuery, cudaEventQuery. Triton, cuBLAS and others
    # call the driver directly.
    CallKind.SYNC: re.compile(
        r"(?:cuda(?:Device|Thread|Stream|Event)Synchronize"
        r"|cudaMemcpy(?:[23]D|(?:2D)?(?:To|From)Array|(?:To|From)Symbol)?"
        r"|cu(?:Ctx|Stream|Event)Synchronize"
        r"|cuMemcpy(?:HtoD|DtoH|HtoA|AtoH|2D(?:Unaligned)?|3D)?)$"
    ),
    CallKind.COPY: re.compile(r"cu(?:da)?Memcpy(?!.*Batch)"),
    CallKind.RECORDING: re.compile(r"cu(?:da)?StreamBeginCapture"),
    CallKind.DRIVER: re.compile(r"(?!_*cuda)"),
}
"""How the names of calls that do something begin, or are."""


def base_name(name: str) -> str:
    """A call's name without version and stream suffixes: `cudaLaunchKernel` of
    `cudaLaunchKernel_ptsz_v7000`."""
    return _SUFFIX.sub("", name)


def kind_of(name: str) -> CallKind:
    """What a call of this name, suffixes and all, does."""
    base = base_name(name)
    return CallKind(sum(kind for kind, named in _KINDS.items() if named.match(base)))


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


class ProcessCalls:
    """The calls of one process in order of time, shape (n,) each, and which of them an operation is
    of: the first of those that bear its correlation id (a runtime call and the driver call in it).
    """

    def __init__(self, timeline: Timeline, process: int, segments: Segments) -> None:
        calls = timeline.calls
        rows = rows_of(calls.process, process)
        begun = calls.start[rows]
        if not bool((begun[1:] >= begun[:-1]).all()):
            rows = np.arange(len(calls.start))[rows][np.argsort(begun, kind="stable")]
        self.start, self.end, self.thread = calls.start[rows], calls.end[rows], calls.thread[rows]
        self.correlation = calls.correlation[rows]
        self.segment = segments.at(self.start)
        self.by_segment = np.bincount(self.segment, minlength=len(segments))
        """How many."""
        self.turn = taken(segments.turn, self.segment)
        self.key, self.texts = texts_of(calls.name[rows], timeline.names)
        self._kind = taken(np.array([kind_of(text) for text in self.texts], np.uint8), self.key)
        self.in_turn: Flags = self.turn >= 0
        recording = self.are(CallKind.RECORDING)
        # What is launched while a CUDA graph is being recorded runs later, with the graph.
        self.at_once: Flags = self.in_turn & ~np.isin(self.turn, self.turn[recording])
        """Which are in turns, and start what runs then: turns that record a graph are left out."""
        self._number()

    def _number(self) -> None:
        """Make the table in which `place` looks."""
        ids, place = self.correlation, np.arange(len(self.start), dtype=np.int32)
        named = ids != NO_CORRELATION
        if np.count_nonzero(ids == 0) > SHARE_AN_ID:
            named &= ids != 0
        if not named.all():
            ids, place = ids[named], place[named]
        self.lowest = int(ids.min(initial=FOREVER))
        """The lowest id of any call."""
        self._ids: Ints | None = None
        """All ids in order, where they are too sparse to be places in the table."""
        least = self.lowest
        if int(ids.max(initial=0)) - least > _SPARSE * len(ids) + 1_000_000:
            self._ids, ids = np.unique(ids, return_inverse=True)
            least = 0
        size = max(int(ids.max(initial=least - 1)) - least + 1, 0)
        self._table = np.full(size, -1, np.int32)
        """By id, from the lowest on: the place of its call; -1 where there is none."""
        for part in reversed([*parts(len(place))]):  # of equal ids the first is written last
            self._table[ids[part][::-1] - least] = place[part][::-1]

    def are(self, kind: CallKind) -> Flags:
        """Which do this."""
        return np.asarray(self._kind & kind != 0)

    def counted_as(self, kind: CallKind) -> Flags:
        """Which count as this; of a runtime call and the driver call in it the outer one."""
        chosen = self.are(kind)
        by_driver = chosen & self.are(CallKind.DRIVER)
        if by_driver.any():
            inner, outer = (
                (self.start[its], self.end[its], self.thread[its])
                for its in (by_driver, chosen & ~by_driver)
            )
            chosen[np.flatnonzero(by_driver)[nested_in(inner, outer)]] = False
        return chosen

    def place(self, correlation: Ints) -> SmallInts:
        """The place of each operation's call among the calls, -1 where no call has its id."""
        if self._ids is not None:
            rows = np.searchsorted(self._ids, correlation)
            known = self._ids.take(rows, mode="clip") == correlation
        else:
            rows = correlation - self.lowest
            known = (rows >= 0) & (rows < len(self._table))
        if len(self._table) and known.all():
            return self._table.take(rows)
        found = np.full(len(correlation), -1, np.int32)
        found[known] = self._table[rows[known]]
        return found

    def begun(self, place: SmallInts) -> Ints:
        """When the calls in these places began, `FOREVER` where there is none."""
        return _taken(self.start, place, FOREVER)

    def segment_at(self, place: SmallInts) -> SmallInts:
        """The segments of the calls in these places, -1 where there is none."""
        return _taken(self.segment, place, -1)

    def lost_copies(self, left_by: Flags) -> tuple[int, int]:
        """How many calls copy, and how many copies the last turns lack; `left_by` says which calls
        left one.

        Some calls never leave a copy (of no bytes, by a kernel): those of a name that has none are
        not asked after, unless the capture holds no copy of the process at all. Others leave one in
        some turns and none in others. A profiler that stopped too early lacks the last copies: from
        some turn on fewer are held than usual, and more calls lack theirs. A lost buffer of
        records, in between, lacks kernels as well.

        ```
        held     2 2 1 2 2 2 0 0
        lacking  1 0 1 1 1 1 3 3      4 are lost: two a turn of the last two
        ```
        """
        copying = np.flatnonzero(self.are(CallKind.COPY) & self.at_once & (self.correlation > 0))
        if not left_by.any():
            return len(copying), len(copying)
        key, turn = self.key[copying], self.turn[copying]
        found = left_by[self.place(self.correlation[copying])]
        asked = np.isin(key, distinct(key[found]))
        if not asked.any():
            return 0, 0
        turns = int(self.turn.max()) + 1
        holds, lacks = (
            np.bincount(turn[some], minlength=turns) for some in (found, asked & ~found)
        )
        until = int(np.flatnonzero(holds)[-1]) + 1
        usual_held, usual_lacking = np.median(holds[:until]), np.median(lacks[:until])
        after = int(np.flatnonzero(holds >= usual_held)[-1]) + 1
        lost = np.minimum(usual_held - holds[after:], lacks[after:] - usual_lacking)
        return int(asked.sum()), int(np.maximum(lost, 0).sum())


def _taken(values: NDArray[_Whole], place: SmallInts, none: int) -> NDArray[_Whole]:
    if not len(values):
        return np.full(len(place), none, values.dtype)
    found = values.take(place)
    found[place < 0] = none
    return found


def lost_nodes(launch: Ints, node: Ints) -> tuple[int, int]:
    """How many kernels the launches of CUDA graphs traced node by node should hold together, and
    how many of them lack.

    Args:
        launch: the correlation id of each kernel in a graph.
        node: the node that it was.

    What a graph runs may differ from launch to launch (branches, nodes switched off), but not all
    of it: what decides on a branch runs each time. So only graphs none of whose nodes is in all of
    their launches count, and count whole.

    ```
    launch    1      2      3            1      2      3
    nodes     a b    b c    a   c        a b    a c    a
              a third is lost            branches: nothing is known to be lost
    ```
    """
    launch, node = launch[launch > 0], node[launch > 0]
    launches, nodes = distinct(launch), distinct(node)
    graphs, of_node = np.unique(nodes >> _GRAPH_SHIFT, return_inverse=True)
    # A node may run several times in a launch, in a loop.
    ran = distinct(np.searchsorted(launches, launch) * len(nodes) + np.searchsorted(nodes, node))
    of_launch, of_ran = np.divmod(ran, max(len(nodes), 1))
    pairs = distinct(of_launch * len(graphs) + of_node[of_ran])
    launched = np.bincount(pairs % max(len(graphs), 1), minlength=len(graphs))[of_node]
    lacking = launched - np.bincount(of_ran, minlength=len(nodes))
    is_whole = np.isin(of_node, of_node[lacking == 0])
    return int(launched[~is_whole].sum()), int(lacking[~is_whole].sum())


def texts_of(key: SmallInts, names: Mapping[int, str]) -> tuple[SmallInts, list[str]]:
    """Keys into a list of the names in use ("" where a key is not): the keys themselves, renumbered
    where sparse."""
    used = distinct(key)
    named = {one: names.get(one, f"(name {one})") for one in used.tolist()}
    if len(used) and (used[0] < 0 or used[-1] > len(key) + _KEYS):
        return np.searchsorted(used, key).astype(np.int32), list(named.values())
    return key, [named.get(one, "") for one in range(int(used.max(initial=-1)) + 1)]


def rows_of(process_of: SmallInts, process: int) -> slice | Ints:
    """Those of one process."""
    mine = process_of == process
    return slice(None) if mine.all() else np.flatnonzero(mine)
