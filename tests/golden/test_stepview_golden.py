"""The typical step of recorded captures: place, lanes, counts and sums are those that plain SQL
finds in the export.

Nothing of perfgate is asked for the expected numbers: times are clipped and added up by SQLite.
"""

from __future__ import annotations

import lzma
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from perfgate.metrics.stepview import StepPlace, step_view, typical_step
from perfgate.model.note import quoted
from perfgate.model.pagedata import StepView
from perfgate.profilers.nsys.export.timeline import read_timeline

CAPTURES = {
    "mlp-h200-nsys2024.2.3": ("step", "step", 20),
    "graph-by-graph-h200-nsys2025.3": (r"Batch \d+", "Batch %", 30),
    "graph-by-node-h200-nsys2025.3": (r"Batch \d+", "Batch %", 30),
    "driver-only-h200-nsys2025.3": (r"step \d+", "step %", 12),
    "two-gpus-h200-nsys2025.3": (r"Step \d+ Start", "Step % Start", 20),
    "two-ranks-h200-nsys2025.3": (r"step \d+", "step %", 20),
}
"""By capture: its steps as a regular expression and for SQL's LIKE, and how many each process has.
"""

OPERATIONS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "CASE WHEN s.value LIKE 'nccl%Kernel%' THEN 'nccl' ELSE 'kernel' END",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "'graph'",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "'copy'",
    "CUPTI_ACTIVITY_KIND_MEMSET": "'memset'",
}
OF_ANOTHER = re.compile(r" \((of another step|outside the steps)\)$")
TITLES = {
    "kernel": "",
    "nccl": " NCCL",
    "graph": " graphs",
    "copy": " copies",
    "memset": " memsets",
}
PID = "{} >> 24 & 16777215"


class Plain:
    """An export with what is asked of it here in three tables: `ops`, `spans` and `launches`."""

    def __init__(self, path: Path, like: str) -> None:
        self.db = sqlite3.connect(path)
        tables = {
            name
            for (name,) in self.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        # A process's own number of a GPU is the physical one where only one process is, or the
        # export says otherwise.
        gpu = (
            f"coalesce((SELECT gpuId FROM TARGET_INFO_CUDA_DEVICE WHERE pid = "
            f"{PID.format('o.globalPid')} "
            "AND cudaId = o.deviceId), o.deviceId)"
            if "TARGET_INFO_CUDA_DEVICE" in tables
            else "o.deviceId"
        )
        whole = " UNION ALL ".join(
            f"SELECT {kind} AS kind, o.start, o.end, {gpu} AS gpu, o.streamId AS stream, "
            f"{PID.format('o.globalPid')} AS pid, o.correlationId AS id FROM {table} o "
            + ("JOIN StringIds s ON s.id = o.demangledName" if "s.value" in kind else "")
            for table, kind in OPERATIONS.items()
            if table in tables
        )
        self.db.executescript(f"""
            CREATE TEMP TABLE launches AS
                SELECT correlationId AS id, {PID.format("globalTid")} AS pid, min(start) AS at,
                       globalTid & 16777215 AS tid
                FROM CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY 1, 2;
            CREATE INDEX temp.by_id ON launches (id, pid);
            CREATE TEMP TABLE ops AS
                SELECT o.*, l.at, l.tid FROM ({whole}) o LEFT JOIN launches l ON l.id = o.id AND l.pid = o.pid;
            CREATE TEMP TABLE spans AS
                SELECT n.start, n.end, {PID.format("globalTid")} AS pid, globalTid & 16777215 AS tid,
                       coalesce(n.text, s.value) AS name, coalesce(n.text, s.value) LIKE '{like}' AS is_step
                FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId WHERE n.eventType IN (59, 60);
        """)

    def ask(self, sql: str, **values: object) -> list[tuple[Any, ...]]:
        return self.db.execute(sql, values).fetchall()

    def steps(self, pid: int) -> list[tuple[int, int, int, int]]:
        """Begin, end of the range, thread and completion of each step."""
        found, done = [], 0
        for start, end, tid in self.ask(
            "SELECT start, end, tid FROM spans WHERE is_step AND pid = :pid ORDER BY 1", pid=pid
        ):
            ((last,),) = self.ask(
                "SELECT max(end) FROM ops WHERE pid = :pid AND at >= :start AND at < :end",
                pid=pid,
                start=start,
                end=end,
            )
            done = max(done, end, last)
            found.append((start, end, tid, done))
        return found


@pytest.fixture(params=CAPTURES, scope="module")
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def unpacked(name: str, folder: Path) -> Path:
    path = folder / f"{name}.sqlite"
    path.write_bytes(
        lzma.decompress((Path(__file__).parent / "data" / f"{path.name}.xz").read_bytes())
    )
    return path


@pytest.fixture(scope="module")
def export(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(name, tmp_path_factory.mktemp("step"))


@pytest.fixture(scope="module")
def plain(name: str, export: Path) -> Iterator[Plain]:
    its = Plain(export, CAPTURES[name][1])
    with closing(its.db):
        yield its


@pytest.fixture(scope="module")
def pids(plain: Plain) -> list[int]:
    return [pid for (pid,) in plain.ask("SELECT DISTINCT pid FROM spans WHERE is_step ORDER BY 1")]


def seen(export: Path, name: str, pid: int | None, **options: int) -> tuple[StepPlace, StepView]:
    """The typical step as perfgate finds and shows it."""
    timeline = read_timeline(export)
    pattern, _, steps = CAPTURES[name]
    place = typical_step(timeline, step=pattern, is_pattern=True, steps=steps, pid=pid)
    return place, step_view(place, label=quoted(name), source=f"kept/{name}.sqlite", **options)


def lanes_of(view: StepView) -> dict[tuple[str, str], tuple[int, int]]:
    """Of each lane: how many its bars stand for, and how long these lasted together, ns."""
    return {
        (lane.title, lane.kind): (
            sum(bar.count for bar in lane.bars),
            sum(
                round((bar.length_us if bar.busy_us is None else bar.busy_us) * 1e3)
                for bar in lane.bars
            ),
        )
        for lane in view.lanes
    }


def test_the_step_is_the_one_nearest_the_median_period(
    export: Path, name: str, plain: Plain, pids: list[int]
) -> None:
    medians = {}
    for pid in pids:
        steps = plain.steps(pid)
        assert len(steps) == CAPTURES[name][2]
        periods = {
            number: steps[number][3] - steps[number - 1][3] for number in range(2, len(steps))
        }
        medians[pid] = middle = median(periods.values())
        nearest = min(periods, key=lambda number: (abs(periods[number] - middle), number))
        place, view = seen(export, name, pid)
        assert (place.index, place.end - place.start) == (nearest, periods[nearest])
        assert (place.start, place.end) == (steps[nearest - 1][3], steps[nearest][3])
        assert view.length_us == (place.end - place.start) / 1e3
    slowest, _ = seen(export, name, None)
    assert slowest.process.steps.process == pids.index(max(pids, key=lambda pid: medians[pid]))


def test_streams_and_idle_times_are_those_of_sql(
    export: Path, name: str, plain: Plain, pids: list[int]
) -> None:
    for pid in pids:
        place, view = seen(export, name, pid)
        window = {"begin": place.start, "done": place.end}
        gpus = [
            gpu
            for (gpu,) in plain.ask(
                "SELECT DISTINCT gpu FROM ops JOIN spans s ON s.is_step AND s.pid = ops.pid "
                "AND at >= s.start AND at < s.end WHERE ops.pid = :pid ORDER BY 1",
                pid=pid,
            )
        ]
        expected: dict[tuple[str, str], tuple[int, int]] = {}
        timeline = read_timeline(export)
        for gpu in gpus:
            own = timeline.ordinals[timeline.processes.index(pid), gpu]
            for kind, stream, whose, count, ns in plain.ask(
                "SELECT kind, stream, pid, count(*), sum(min(end, :done) - max(start, :begin)) "
                "FROM ops "
                "WHERE gpu = :gpu AND start < :done AND end > :begin GROUP BY 1, 2, 3",
                gpu=gpu,
                **window,
            ):
                assert whose == pid  # none of these captures shares a GPU
                expected[f"GPU {own} stream {stream}{TITLES[kind]}", kind] = (count, ns)
            ((count, ns),) = plain.ask(
                "SELECT count(*), coalesce(sum(gap), 0) FROM (SELECT start - max(end) OVER "
                "(ORDER BY start, end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS gap "
                "FROM ("
                "SELECT max(start, :begin) AS start, min(end, :done) AS end FROM ops "
                "WHERE gpu = :gpu AND start < :done AND end > :begin "
                "UNION ALL SELECT :begin, :begin UNION ALL SELECT :done, :done)) WHERE gap > 0",
                gpu=gpu,
                **window,
            )
            expected[f"GPU {own} idle", "idle"] = (count, ns)
        found = {key: sums for key, sums in lanes_of(view).items() if key[1] != "range"}
        assert found == expected
        assert sum(count for count, _ in expected.values()) > len(gpus)


def test_ranges_are_those_of_sql_by_how_many_hold_them(
    export: Path, name: str, plain: Plain, pids: list[int]
) -> None:
    for pid in pids:
        place, view = seen(export, name, pid)
        first, ends, own, _ = plain.steps(pid)[place.index]
        window = {"begin": place.start, "done": place.end, "first": first, "ends": ends, "pid": pid}
        # Of those that overlap the view, but do not hold the step, how many others of them hold
        # each.
        rows = plain.ask(
            "WITH near AS (SELECT rowid AS n, * FROM spans WHERE pid = :pid AND start < :done "
            "AND end > :begin "
            "AND (tid != :own OR NOT (start < :first AND end > :ends))), "
            "launching AS (SELECT DISTINCT tid FROM ops WHERE pid = :pid AND at >= :first AND "
            "at < :ends) "
            "SELECT tid, (SELECT count(*) FROM near o WHERE o.tid = i.tid AND o.n != i.n AND "
            "o.start <= i.start "
            "AND o.end >= i.end) AS depth, count(*), sum(min(end, :done) - max(start, :begin)) "
            "FROM near i "
            "WHERE tid = :own OR tid IN launching GROUP BY 1, 2",
            own=own,
            **window,
        )
        expected = {
            "CPU": (0, 0)
        }  # also where the CPU is through with all its ranges before the step begins
        for tid, depth, count, ns in rows:
            deeper = f" ({depth + 1})" if depth else ""
            expected[("CPU" if tid == own else f"CPU thread {tid}") + deeper] = (count, ns)
        assert {
            title: sums for (title, kind), sums in lanes_of(view).items() if kind == "range"
        } == expected
        begins = max(first, place.start)
        of_the_step = [
            (bar.start_us, bar.length_us)
            for bar in view.lanes[0].bars
            if OF_ANOTHER.search(bar.name) is None
        ]
        lies_here = [((begins - place.start) / 1e3, (ends - begins) / 1e3)]
        assert of_the_step == (lies_here if ends > place.start else [])


def test_what_other_steps_launched_says_so(
    export: Path, name: str, plain: Plain, pids: list[int]
) -> None:
    for pid in pids:
        place, view = seen(export, name, pid)
        steps = plain.steps(pid)
        expected: dict[str, int] = defaultdict(int)
        gpus = ", ".join(map(str, place.process.totals.devices))
        for (at,) in plain.ask(
            f"SELECT at FROM ops WHERE gpu IN ({gpus}) AND start < :done AND end > :begin",
            begin=place.start,
            done=place.end,
        ):
            of = [number for number, (start, end, _, _) in enumerate(steps) if start <= at < end]
            other = "of another step" if of else "outside the steps"
            expected["" if of == [place.index] else other] += 1
        found: dict[str, int] = defaultdict(int)
        for lane in view.lanes:
            for bar in lane.bars if lane.kind not in ("range", "idle") else ():
                said = OF_ANOTHER.search(bar.name)
                found[said[1] if said else ""] += bar.count
        assert found == expected
        assert found[""] > 0


def test_few_bars_show_the_same_sums(export: Path, name: str, pids: list[int]) -> None:
    for pid in pids:
        _, whole = seen(export, name, pid)
        assert (
            whole.operations == whole.drawn == sum(count for count, _ in lanes_of(whole).values())
        )
        most = max(len(whole.lanes), whole.operations // 2)
        _, view = seen(export, name, pid, most_bars=most)
        assert lanes_of(view) == lanes_of(whole)
        assert view.operations == whole.operations
        assert view.drawn == sum(len(lane.bars) for lane in view.lanes) <= most


def test_the_whole_view_of_one_small_capture(tmp_path: Path) -> None:
    name = "driver-only-h200-nsys2025.3"
    _, view = seen(unpacked(name, tmp_path), name, None)
    lanes = [
        (lane.title, [(bar.start_us, round(bar.length_us, 3), bar.name) for bar in lane.bars])
        for lane in view.lanes
    ]
    assert lanes == [
        ("CPU", [(11.401, 399.842, "step 9")]),
        ("GPU 0 stream 7", [(304.023, 101.6, "spin")]),
        (
            "GPU 0 stream 7 copies",
            [(80.983, 214.432, "CUDA memcpy Host-to-Device, pageable, 4194304 bytes")],
        ),
        ("GPU 0 idle", [(0, 80.983, "idle"), (295.415, 8.608, "idle"), (405.623, 5.62, "idle")]),
    ]
    assert (view.label, view.source) == (quoted(name), f"kept/{name}.sqlite")
    assert (view.length_us, view.operations, view.drawn, view.pixel_us) == (411.243, 6, 6, 0)
