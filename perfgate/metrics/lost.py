"""What a capture lacks of what the calls of a process launched; it must not know what that means
for a metric."""

from __future__ import annotations

import numpy as np

from perfgate.metrics.calls import CallKind, Launches, ProcessCalls
from perfgate.model.arrays import distinct
from perfgate.model.timeline import Flags, Ints

_GRAPH_SHIFT = 32
"""CUPTI numbers the nodes of a graph from its own number on, shifted so far."""


def lost_copies(calls: ProcessCalls, launches: Launches, left_by: Flags) -> tuple[int, int]:
    """How many calls copy, and how many copies the last turns lack; `left_by` says which calls left
    one.

    Some calls never leave a copy (of no bytes, by a kernel): those of a name that has none are not
    asked after, unless the capture holds no copy of the process at all. Others leave one in some
    turns and none in others. A profiler that stopped too early lacks the last copies: from some
    turn on fewer are held than usual, and more calls lack theirs. A lost buffer of records, in
    between, lacks kernels as well.

    ```
    held     2 2 1 2 2 2 0 0
    lacking  1 0 1 1 1 1 3 3      4 are lost: two a turn of the last two
    ```
    """
    copying = np.flatnonzero(calls.are(CallKind.COPY) & calls.at_once & (calls.correlation > 0))
    if not left_by.any():
        return len(copying), len(copying)
    key, turn = calls.key[copying], calls.turn[copying]
    found = left_by[launches.place(calls.correlation[copying])]
    asked = np.isin(key, distinct(key[found]))
    if not asked.any():
        return 0, 0
    turns = int(calls.turn.max()) + 1
    holds, lacks = (np.bincount(turn[some], minlength=turns) for some in (found, asked & ~found))
    until = int(np.flatnonzero(holds)[-1]) + 1
    usual_held, usual_lacking = np.median(holds[:until]), np.median(lacks[:until])
    after = int(np.flatnonzero(holds >= usual_held)[-1]) + 1
    lost = np.minimum(usual_held - holds[after:], lacks[after:] - usual_lacking)
    return int(asked.sum()), int(np.maximum(lost, 0).sum())


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
