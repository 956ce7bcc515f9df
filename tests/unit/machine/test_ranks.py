"""Ranks are read from the environments of a run's living processes, and of no others."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from perfgate.machine import RankWatch, processes
from perfgate.model.order import RUN_COOKIE

RUN_ID = uuid.uuid4().hex


@contextmanager
def sleeping(env: Mapping[str, str]) -> Iterator[int]:
    """A process with these variables next to this one's."""
    kept = {
        name: value for name, value in os.environ.items() if name not in processes.RANK_VARIABLES
    }
    waiting = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(
        waiting, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**kept, **env}
    ) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdout.readline()  # it has become another program by now
        yield started.pid
        started.stdin.close()


def looked(watch: RankWatch) -> RankWatch:
    watch.look()
    return watch


@pytest.mark.parametrize(
    ("env", "rank"),
    [
        ({"RANK": "3", "LOCAL_RANK": "1"}, 3),
        ({"OMPI_COMM_WORLD_RANK": "12"}, 12),
        ({"SLURM_PROCID": "0", "RANK": "1"}, 1),
        ({"RANK": "first"}, None),
        ({"RANK": "-1", "PMI_RANK": "2"}, 2),
        ({}, None),
    ],
)
def test_a_process_of_the_run_has_the_rank_that_its_launcher_gave_it(
    env: Mapping[str, str], rank: int | None
) -> None:
    with sleeping({RUN_COOKIE: RUN_ID, **env}) as pid:
        assert looked(RankWatch(RUN_ID)).ranks.get(pid) == rank


def test_a_process_of_another_run_has_none() -> None:
    with sleeping({RUN_COOKIE: "another", "RANK": "1"}) as pid:
        assert pid not in looked(RankWatch(RUN_ID)).ranks


def test_a_rank_stays_known_after_the_process_has_ended() -> None:
    watch = RankWatch(RUN_ID)
    with sleeping({RUN_COOKIE: RUN_ID, "RANK": "1"}) as pid:
        watch.look()
    watch.look()
    assert watch.ranks == {pid: 1}
