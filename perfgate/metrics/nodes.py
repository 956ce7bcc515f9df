"""Which kernels of CUDA graphs, traced node by node, a capture lost; it must not know what the
graphs are for."""

from __future__ import annotations

import numpy as np

from perfgate.metrics.intervals import sum_by
from perfgate.model.arrays import distinct
from perfgate.model.timeline import Flags, Ints


def lost_nodes(launch: Ints, node: Ints) -> tuple[int, int]:
    """How many kernels the launches of one graph should hold together, and how many of them lack.

    Args:
        launch: the correlation id of each kernel in a graph.
        node: the node that it was.

    Launches that have a node in common are of one graph. What a graph runs may differ from launch
    to launch (branches, nodes switched off), but not all of it: what decides on a branch runs each
    time. So only graphs none of whose nodes is in all of their launches count, and count whole.

    ```
    launch    1      2      3            1      2      3
    nodes     a b    b c    a   c        a b    a c    a
              a third is lost            branches: nothing is known to be lost
    ```
    """
    known = launch > 0
    launch, node = launch[known], node[known]
    if not len(launch):
        return 0, 0
    rows, of_launch, times = _unlike(launch, node)
    _, of_node = np.unique(node[rows], return_inverse=True)
    launches, nodes = len(times), int(of_node.max()) + 1
    # A node may run several times in a launch, in a loop.
    of_launch, of_node = np.divmod(distinct(of_launch * nodes + of_node), nodes)
    graph_of_launch, graph = _graphs(of_launch, of_node, launches, nodes)
    launched, ran = sum_by(graph_of_launch, times, nodes), sum_by(of_node, times[of_launch], nodes)
    whole = launched * np.bincount(graph, minlength=nodes)
    is_throughout: Flags = ran == launched[graph]
    whole[graph[is_throughout]] = 0
    held = sum_by(graph, ran, nodes)
    return int(whole.sum()), int((whole - held)[whole > 0].sum())


def _unlike(launch: Ints, node: Ints) -> tuple[Ints, Ints, Ints]:
    """Of launches that ran the same nodes one alone: its rows, which launch each is of, and how
    many there were of it.

    A graph is launched in every step, and sorting all that it ran takes longer than all else that
    is measured.
    """
    begins = np.concatenate(([0], np.flatnonzero(launch[1:] != launch[:-1]) + 1))
    # A sum of well mixed numbers (splitmix64) tells sets of them apart, in any order.
    mixed = node.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    launches, of_begin = np.unique(launch[begins], return_inverse=True)
    sums = np.zeros(len(launches), np.uint64)
    np.add.at(sums, of_begin, np.add.reduceat(mixed, begins))
    _, first, times = np.unique(sums, return_index=True, return_counts=True)
    number = np.full(len(launches), -1)
    number[first] = np.arange(len(first))
    of_row = np.repeat(number[of_begin], np.diff(begins, append=len(launch)))
    rows = np.flatnonzero(of_row >= 0)
    return rows, of_row[rows], times


def _graphs(of_launch: Ints, of_node: Ints, launches: int, nodes: int) -> tuple[Ints, Ints]:
    """The graph of each launch and of each node: the lowest of the nodes that are linked by common
    launches."""
    graph = np.arange(nodes)
    while True:
        lowest = np.full(launches, nodes)
        np.minimum.at(lowest, of_launch, graph[of_node])
        linked = graph.copy()
        np.minimum.at(linked, of_node, lowest[of_launch])
        if np.array_equal(linked, graph):
            return lowest, graph
        graph = linked
