"""Which kernels of CUDA graphs a capture lost: told where it is plain, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.metrics.nodes import lost_nodes
from perfgate.model.timeline import NO_CORRELATION


def found(*launches: str, ids: list[int] | None = None) -> tuple[int, int]:
    """Of launches of graphs, a letter a node."""
    rows = [(launch, ord(node)) for launch, nodes in enumerate(launches) for node in nodes]
    launch = np.array([1 + launch if ids is None else ids[launch] for launch, _ in rows], np.int64)
    return lost_nodes(launch, np.array([node << 32 for _, node in rows], np.int64))


@pytest.mark.parametrize(
    ("launches", "expected"),
    [
        ((), (0, 0)),
        (("ab", "bc", "ac"), (9, 3)),
        (("abcd", "abcd", "abcd"), (0, 0)),
        (("abcd", "ab", "abcd"), (0, 0)),
        (("ab", "a", "ac"), (0, 0)),
        (("ab", "cd", "ef"), (0, 0)),
        (("ab", "bc", "ac", "xyz", "xy", "xyz"), (9, 3)),
        (("ab", "bc", "cd", "da"), (16, 8)),
        (("abbb", "ab"), (0, 0)),
    ],
    ids=[
        "nothing",
        "a third of each launch",
        "all of each",
        "the end of one",
        "branches",
        "three graphs",
        "one of two graphs",
        "launches that are linked by others only",
        "a loop",
    ],
)
def test_kernels_of_a_graph_are_lost_where_none_is_in_all_of_its_launches(
    launches: tuple[str, ...], expected: tuple[int, int]
) -> None:
    assert found(*launches) == expected


def test_kernels_of_which_it_is_not_known_which_launch_ran_them_are_left_out() -> None:
    assert found("ab", "bc", "ac", ids=[NO_CORRELATION, 0, 7]) == (0, 0)
    assert found("ab", "bc", "ac", "b", ids=[5, 9, 7, NO_CORRELATION]) == (9, 3)


@given(
    st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1).map("".join), min_size=1, max_size=12)
)
def test_what_is_lost_is_what_each_launch_lacks_of_all_that_its_graph_ever_ran(
    launches: list[str],
) -> None:
    graphs: list[list[set[str]]] = []
    for nodes in map(set, launches):
        alike = [graph for graph in graphs if any(nodes & other for other in graph)]
        graphs = [graph for graph in graphs if graph not in alike]
        graphs.append([nodes, *(one for graph in alike for one in graph)])
    plain = [graph for graph in graphs if not set.intersection(*graph)]
    whole = sum(len(graph) * len(set.union(*graph)) for graph in plain)
    assert found(*launches) == (
        whole,
        whole - sum(len(nodes) for graph in plain for nodes in graph),
    )
