"""Which step stands for the others, what its lanes show, and that merging bars loses nothing."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.timelines import Call, Op, Range, build, draw, permuted, shifted

from perfgate.metrics.stepview import (
    FEWEST_BARS,
    PIXELS,
    StepPlace,
    _depths,
    _spread,
    step_view,
    typical_step,
)
from perfgate.model.errors import ConfigInvalid, StepsNotFound
from perfgate.model.stepview import Bar, Lane, StepView
from perfgate.model.timeline import (
    NO_STREAM,
    Copies,
    CopyKind,
    Kernels,
    MemoryKind,
    Spans,
    Timeline,
)
from perfgate.model.window import (
    StreamCopies,
    StreamKernels,
    StreamMemsets,
    StreamSpans,
    WindowOps,
)
from perfgate.model.workload import WAIT_RANGE

Told = tuple[str, str, list[tuple[float, float, str]]]
MS = 1_000_000
FOREVER = 2**61


def ops_of(
    timeline: Timeline,
    *,
    streams: Mapping[str, int] | None = None,
    copies: int = 7,
    memset_bytes: int = 64,
) -> WindowOps:
    """The whole capture as a window; kernels on the streams of their names, else on stream 7."""

    def spans(table: Kernels | Copies | Spans, stream: Sequence[int]) -> dict[str, Any]:
        columns = ("start", "end", "device", "process", "correlation")
        return {name: getattr(table, name) for name in columns} | {
            "stream": np.array(stream, np.int32)
        }

    t = timeline
    of_kernels = [(streams or {}).get(t.names[name], 7) for name in t.kernels.name.tolist()]
    return WindowOps(
        source=t.source,
        start_ns=-FOREVER,
        end_ns=FOREVER,
        processes=t.processes,
        kernels=StreamKernels(
            **spans(t.kernels, of_kernels),
            name=t.kernels.name,
            graph_node=t.kernels.graph_node >= 0,
        ),
        copies=StreamCopies(
            **spans(t.copies, [copies] * len(t.copies.start)),
            bytes=t.copies.bytes,
            kind=t.copies.kind,
            source=t.copies.source,
            target=t.copies.target,
        ),
        memsets=StreamMemsets(
            **spans(t.memsets, [7] * len(t.memsets.start)),
            bytes=np.full(len(t.memsets.start), memset_bytes, np.int64),
        ),
        graphs=StreamSpans(**spans(t.graphs, [7] * len(t.graphs.start))),
        names=t.names,
    )


def place_of(timeline: Timeline, index: int, *, step: str = "step") -> StepPlace:
    """The place of one step, whichever is the typical one: the first ones are taken for warm-up or cut off."""
    found = typical_step(timeline, step=step, warmup=index, steps=1)
    whole = typical_step(timeline, step=step)
    return dataclasses.replace(
        whole, index=index, start=found.start, end=found.end, name=found.name
    )


def view_of(
    timeline: Timeline, index: int = 0, *, streams: Mapping[str, int] | None = None
) -> StepView:
    return step_view(
        place_of(timeline, index), timeline, ops_of(timeline, streams=streams), label="it"
    )


def told(view: StepView, *kinds: str) -> list[Told]:
    """Title, kind and bars of each lane (begin and end in ms, name), of these kinds if any are named."""
    return [
        (
            lane.title,
            lane.kind,
            [
                (bar.start_us / 1e3, (bar.start_us + bar.length_us) / 1e3, bar.name)
                for bar in lane.bars
            ],
        )
        for lane in view.lanes
        if not kinds or lane.kind in kinds
    ]


# --- the typical step --------------------------------------------------------------------------------------------


def loop(*periods: int, pid: int = 100, waits: Sequence[int] = ()) -> list[Range]:
    """Steps of 10 ns that end these periods apart, the first at 10; before those of `waits` lies a wait."""
    ends = list(itertools.accumulate(periods, initial=10))
    steps = [Range(start=end - 10, end=end, pid=pid) for end in ends]
    return steps + [
        Range(start=ends[number - 1] + 1, end=ends[number] - 11, name=WAIT_RANGE, pid=pid)
        for number in waits
    ]


@pytest.mark.parametrize(
    ("periods", "index", "period"),
    [
        (
            (999, 50, 70, 61, 52),
            4,
            61,
        ),  # of 50, 70, 61 and 52 the median is 56.5: 52 and 61 are equally far, see below
        ((999, 50, 70, 60), 4, 60),
        ((20, 21, 40, 40, 40), 3, 40),
        ((20, 30), 2, 30),
    ],
)
def test_the_step_nearest_the_median_period(
    periods: tuple[int, ...], index: int, period: int
) -> None:
    place = typical_step(build(ranges=loop(*periods)), step="step")
    assert (place.index, place.period_ns, place.process, place.name) == (index, period, 0, "step")
    assert (place.start, place.end) == (
        sum(periods[:index]) + 10 - period,
        sum(periods[:index]) + 10,
    )


def test_of_equally_near_ones_the_earliest() -> None:
    assert typical_step(build(ranges=loop(999, 30, 50, 30, 50)), step="step").index == 2


def test_periods_across_a_wait_count_for_nothing() -> None:
    # 500 would be nearest the median of all.
    place = typical_step(
        build(ranges=loop(999, 100, 500, 900, 120, 110, waits=(3, 4))), step="step"
    )
    assert (place.index, place.period_ns) == (6, 110)


def test_two_steps_have_no_period_but_lengths() -> None:
    steps = [Range(start=0, end=10), Range(start=20, end=50)]
    place = typical_step(build(ranges=steps), step="step")
    assert (place.index, place.period_ns, place.start, place.end) == (0, None, 0, 10)


def test_a_step_ends_with_what_was_launched_in_it() -> None:
    timeline = draw("""
        range    |-step-|  |-step-|     |-step-|      |-step-|
        launch     ^a        ^b           ^c            ^d
        kernel      |-a-|     |----b---|   |---c----|    |--d--|
    """)
    place = typical_step(timeline, step="step")
    assert (place.index, place.start, place.end, place.period_ns) == (2, 39 * MS, 52 * MS, 13 * MS)
    assert (place.devices, place.has_idle) == ((0,), True)


def test_warm_up_and_the_number_of_steps_are_those_of_measuring() -> None:
    timeline = build(ranges=loop(10, 10, 30, 30, 30, 90, 91, 90))
    place = typical_step(timeline, step="step", warmup=1, steps=5)
    assert (place.index, place.period_ns, len(place.steps)) == (2, 30, 5)


def test_a_step_may_be_found_by_a_pattern() -> None:
    steps = [Range(start=100 * n, end=100 * n + 50, name=f"Batch {n}") for n in range(4)]
    around = [Range(start=100 * n, end=100 * n + 50, name="A same span") for n in range(4)]
    place = typical_step(build(ranges=[*around, *steps]), step=r"Batch \d+", is_pattern=True)
    assert (place.index, place.name) == (2, "Batch 2")


def test_of_several_processes_the_slowest() -> None:
    timeline = build(
        ranges=[*loop(20, 30, 30), *loop(20, 40, 40, pid=101), *loop(20, 30, 30, pid=102)]
    )
    assert typical_step(timeline, step="step").process == 1
    assert typical_step(timeline, step="step", pid=102).process == 2


def test_a_process_with_a_period_before_one_without() -> None:
    timeline = build(ranges=[*loop(20, 30, 30), Range(start=0, end=999, pid=101)])
    assert typical_step(timeline, step="step").process == 0


def test_a_process_without_steps() -> None:
    with pytest.raises(StepsNotFound) as caught:
        typical_step(build(ranges=[*loop(20), *loop(20, pid=101)]), step="step", pid=5)
    assert str(caught.value) == (
        "drawn.sqlite: process 5 has no steps. There are steps of 100, 101.\nAsk for a process that has steps."
    )


def test_no_steps_at_all_is_said_as_in_measuring() -> None:
    with pytest.raises(StepsNotFound, match="no NVTX range is named 'Step'"):
        typical_step(build(ranges=loop(20)), step="Step")
    with pytest.raises(ConfigInvalid, match="not a regular expression"):
        typical_step(build(ranges=loop(20)), step="(", is_pattern=True)


# --- lanes -------------------------------------------------------------------------------------------------------


def test_one_step_as_it_ran() -> None:
    timeline = draw("""
        range    |-----------step----------|
        range     |-load-| |--forward--|
        range                 |-inner-|
        launch        ^in      ^a  ^b  ^out
        h2d              |--in--|
        kernel                   |--a--||b|
        d2h                                   |--out--|
    """)
    view = view_of(timeline)
    assert told(view) == [
        ("CPU", "range", [(0, 26, "step")]),
        ("CPU 2", "range", [(1, 8, "load"), (10, 22, "forward")]),
        ("CPU 3", "range", [(13, 21, "inner")]),
        ("GPU 0 stream 7", "kernel", [(16, 22, "a"), (23, 25, "b")]),
        (
            "GPU 0 stream 7 copies",
            "copy",
            [
                (8, 15, "CUDA memcpy Host-to-Device, pinned, 7000 bytes"),
                (29, 37, "CUDA memcpy Device-to-Host, pinned, 8000 bytes"),
            ],
        ),
        (
            "GPU 0 idle",
            "idle",
            [(0, 8, "idle"), (15, 16, "idle"), (22, 23, "idle"), (25, 29, "idle")],
        ),
    ]
    assert (view.label, view.length_us, view.operations, view.drawn, view.pixel_us) == (
        "it",
        37_000,
        12,
        12,
        0,
    )


def test_what_is_of_other_steps_is_cut_off_and_says_so() -> None:
    steps = [Range(start=at, end=at + 10) for at in range(0, 120, 20)]
    inner = [Range(start=at + 2, end=at + 4, name="load") for at in range(0, 120, 20)]
    between = Range(start=71, end=79, name="log")
    launched = [  # when the call was, when it ran
        ("old", 5, 6, 60),
        ("earlier", 5, 6, 65),
        ("before", 45, 50, 61),
        ("between", 35, 36, 62),
        ("own", 62, 75, 120),
        ("after", 82, 85, 95),
        ("later", 105, 106, 108),
        ("at last", 115, 116, 120),
        ("too late", 105, 120, 130),
    ]
    calls = [
        Call(start=at, end=at + 1, correlation=number)
        for number, (_, at, _, _) in enumerate(launched)
    ]
    kernels = [
        *(
            Op(start=start, end=end, name=name, correlation=n)
            for n, (name, _, start, end) in enumerate(launched)
        ),
        Op(start=64, end=66, name="ran in it"),
        Op(start=82, end=84, name="ran after it"),
    ]
    streams = {name: number for number, name in enumerate(kernel.name for kernel in kernels)}
    timeline = build(ranges=[*steps, *inner, between], calls=calls, kernels=kernels)
    view = view_of(timeline, 3, streams=streams)
    assert view.length_us == 0.06
    assert [
        (title, [(round(a * MS), round(b * MS), name) for a, b, name in bars])
        for title, _, bars in told(view)
    ] == [
        (
            "CPU",
            [
                (0, 10, "step"),
                (11, 19, "log (outside the steps)"),
                (20, 30, "step (of the step after)"),
                (40, 50, "step (of a later step)"),
            ],
        ),
        (
            "CPU 2",
            [
                (2, 4, "load"),
                (22, 24, "load (of the step after)"),
                (42, 44, "load (of a later step)"),
            ],
        ),
        ("GPU 0 stream 1", [(0, 5, "earlier (of an earlier step)")]),
        ("GPU 0 stream 2", [(0, 1, "before (of the step before)")]),
        ("GPU 0 stream 3", [(0, 2, "between (outside the steps)")]),
        ("GPU 0 stream 4", [(15, 60, "own")]),
        ("GPU 0 stream 5", [(25, 35, "after (of the step after)")]),
        ("GPU 0 stream 6", [(46, 48, "later (of a later step)")]),
        ("GPU 0 stream 7", [(56, 60, "at last (outside the steps)")]),
        ("GPU 0 stream 9", [(4, 6, "ran in it")]),
        ("GPU 0 stream 10", [(22, 24, "ran after it (of the step after)")]),
        ("GPU 0 idle", [(6, 15, "idle")]),
    ]


def test_ranges_that_enclose_the_step_are_left_out() -> None:
    timeline = draw("""
        range    |-------------------epoch-----------------|
        range    |---half-----------------|
        range      |------step------|         |--step--|
        startend |---timer---|
        range        |-load-|
    """)
    view = view_of(timeline)
    assert [(title, [name for _, _, name in bars]) for title, _, bars in told(view)] == [
        ("CPU", ["step"]),
        ("CPU 2", ["timer (outside the steps)"]),
        ("CPU 3", ["load"]),
    ]


def test_ranges_that_overlap_without_nesting_lie_below_what_holds_them() -> None:
    timeline = draw("""
        range    |--------------step---------------|
        startend   |----a----|
        startend       |----b-----|
        startend                |----c----|
        range            |x|
    """)
    assert [
        (title, [name for _, _, name in bars]) for title, _, bars in told(view_of(timeline))
    ] == [
        ("CPU", ["step"]),
        ("CPU 2", ["a", "c"]),
        ("CPU 3", ["b"]),
        ("CPU 4", ["x"]),
    ]


def test_a_range_with_the_step_s_own_span_is_in_it() -> None:
    timeline = build(ranges=[Range(start=0, end=10, name="Inner"), Range(start=0, end=10)])
    assert told(view_of(timeline)) == [
        ("CPU", "range", [(0, 1e-5, "step")]),
        ("CPU 2", "range", [(0, 1e-5, "Inner")]),
    ]


def test_a_range_never_closed_reaches_as_far_as_the_capture_says() -> None:
    timeline = build(
        ranges=[Range(start=0, end=10), Range(start=4, end=50, name="open", closed=False)]
    )
    assert told(view_of(timeline)) == [
        ("CPU", "range", [(0, 1e-5, "step")]),
        ("CPU 2", "range", [(4e-6, 1e-5, "open")]),
    ]


def test_a_step_without_length() -> None:
    view = view_of(build(ranges=[Range(start=5, end=5), Range(start=9, end=9)]))
    assert told(view) == [("CPU", "range", [(0, 0, "step")])]
    assert (view.length_us, view.operations, view.drawn) == (0, 1, 1)


def test_other_threads_ranges_only_if_they_launched_in_the_step() -> None:
    timeline = draw("""
        range            |-------step-------|   |-------step-------|
        range            |load|
        range  thread7     |--backward--|         |-backward-|
        range  thread7       |-mm-|
        range  thread8    |--io--|
        range  thread9    |--next--|
        range  thread10   |--wait--|
        call   thread10     |cudaStreamSynchronize_v3020|
        launch thread7         ^a
        launch thread8     ^b
        launch thread9                            ^c
        kernel                   |-----a------------|
        kernel              |-b-|
        kernel                                     |--c--|
    """)
    assert told(view_of(timeline), "range") == [
        ("CPU", "range", [(0, 19, "step"), (23, 27, "step (of the step after)")]),
        ("CPU 2", "range", [(0, 5, "load")]),
        ("CPU thread 7", "range", [(2, 15, "backward"), (25, 27, "backward (of the step after)")]),
        ("CPU thread 7 (2)", "range", [(4, 9, "mm")]),
        ("CPU thread 8", "range", [(1, 8, "io")]),
    ]


def test_ranges_of_one_span_are_in_the_order_of_their_names() -> None:
    alike = [Range(start=2, end=8, name=name) for name in "bac"]
    for rows in itertools.permutations(alike):
        bars = told(view_of(build(ranges=[Range(start=0, end=10), *rows])))
        assert [name for _, _, lane in bars for _, _, name in lane] == ["step", "a", "b", "c"]


# --- operations --------------------------------------------------------------------------------------------------


def test_each_kind_of_each_stream_has_a_lane_of_its_own() -> None:
    timeline = draw("""
        range    |----------------------step----------------------|
        launch     ^a ^b ^c ^d ^e ^f
        kernel        |-a-|
        node               |-b-|
        nccl          |----c----|
        graph                     |--d--|
        h2d      pageable           |-----e----|
        memset                                   |-f-|
        uvm                                            |g|
    """)
    view = view_of(timeline, streams={"a": 20, "b": 13, "ncclDevKernel_c": 13})
    assert told(view, "kernel", "nccl", "graph", "copy", "memset") == [
        ("GPU 0 stream 7 graphs", "graph", [(17, 23, "CUDA graph")]),
        (
            "GPU 0 stream 7 copies",
            "copy",
            [
                (19, 30, "CUDA memcpy Host-to-Device, pageable, 11000 bytes"),
                (38, 40, "CUDA memcpy Unified Host-to-Device, 2000 bytes"),
            ],
        ),
        ("GPU 0 stream 7 memsets", "memset", [(32, 36, "CUDA memset, 64 bytes")]),
        ("GPU 0 stream 13", "kernel", [(10, 14, "b")]),
        ("GPU 0 stream 13 NCCL", "nccl", [(5, 15, "ncclDevKernel_c")]),
        ("GPU 0 stream 20", "kernel", [(5, 9, "a")]),
    ]


def test_copies_say_their_direction_host_memory_and_size_as_far_as_known() -> None:
    def copy(at: int, **its: object) -> Op:
        return Op(**{"start": at, "end": at + 1, "bytes": 8, **its})  # type: ignore[arg-type]

    copies = [
        copy(10, kind=CopyKind.H2D, source=MemoryKind.PAGEABLE),
        copy(20, kind=CopyKind.H2D, source=MemoryKind.UNKNOWN),
        copy(30, kind=CopyKind.D2H, source=MemoryKind.DEVICE, target=MemoryKind.PINNED),
        copy(40, kind=CopyKind.D2D, source=MemoryKind.DEVICE),
        copy(50, kind=CopyKind.A2H),
    ]
    timeline = build(ranges=[Range(start=0, end=100)], copies=copies)
    ops = dataclasses.replace(
        ops_of(timeline),
        copies=dataclasses.replace(
            ops_of(timeline).copies, kind=np.array([1, 1, 2, 8, 77], np.int8)
        ),
    )
    (lane,) = (
        lane
        for lane in step_view(place_of(timeline, 0), timeline, ops, label="").lanes
        if lane.kind == "copy"
    )
    assert [bar.name for bar in lane.bars] == [
        "CUDA memcpy Host-to-Device, pageable, 8 bytes",
        "CUDA memcpy Host-to-Device, 8 bytes",
        "CUDA memcpy Device-to-Host, pinned, 8 bytes",
        "CUDA memcpy Device-to-Device, 8 bytes",
        "CUDA memcpy kind 77, 8 bytes",
    ]


def test_what_is_not_said_of_streams_and_sizes_is_left_out() -> None:
    timeline = build(ranges=[Range(start=0, end=100)], memsets=[Op(start=1, end=2)])
    ops = ops_of(timeline, memset_bytes=0)
    ops = dataclasses.replace(
        ops, memsets=dataclasses.replace(ops.memsets, stream=np.array([NO_STREAM], np.int32))
    )
    view = step_view(place_of(timeline, 0), timeline, ops, label="")
    assert told(view, "memset") == [("GPU 0 memsets", "memset", [(1e-6, 2e-6, "CUDA memset")])]


def test_kernels_that_overlap_on_a_stream_take_the_first_free_lane() -> None:
    timeline = draw("""
        range    |------------------step------------------|
        kernel    |-a-|   |-----c-----|    |--f--|
        kernel      |--b-----|   |-d---|
        kernel                 |-e-|
    """)
    view = view_of(timeline)
    assert [(title, [name for _, _, name in bars]) for title, _, bars in told(view, "kernel")] == [
        ("GPU 0 stream 7", ["a", "c", "f"]),
        ("GPU 0 stream 7 (2)", ["b", "e"]),
        ("GPU 0 stream 7 (3)", ["d"]),
    ]


def test_kernels_of_one_span_are_in_the_order_of_their_launches() -> None:
    alike = [Op(start=2, end=8, name=f"k{n}", correlation=n) for n in (1, 2, 3)]
    for rows in itertools.permutations(alike):
        view = view_of(build(ranges=[Range(start=0, end=10)], kernels=rows))
        assert [name for _, _, lane in told(view, "kernel") for _, _, name in lane] == [
            "k1",
            "k2",
            "k3",
        ]


def test_managed_memory_is_of_the_step_in_which_it_moved() -> None:
    timeline = build(
        ranges=[Range(start=0, end=10), Range(start=20, end=30)],
        calls=[Call(start=5, end=6, correlation=1)],
        copies=[
            Op(
                start=22,
                end=24,
                correlation=1,
                kind=CopyKind.UVM_H2D,
                source=MemoryKind.MANAGED,
                bytes=5,
            )
        ],
    )
    assert (
        told(view_of(timeline, 1), "copy")[0][2][0][2]
        == "CUDA memcpy Unified Host-to-Device, 5 bytes"
    )


def test_another_process_on_the_same_gpu_is_shown_as_what_it_is() -> None:
    timeline = draw("""
        range           |-----------step----------|
        launch            ^a
        kernel            |--a--|
        launch pid200     ^b
        kernel pid200             |---b---|
        kernel pid200 gpu1    |---c---|
    """)
    view = view_of(timeline)
    assert told(view)[1:] == [
        ("GPU 0 stream 7", "kernel", [(2, 8, "a")]),
        ("GPU 0 stream 7 of process 200", "kernel", [(10, 18, "b")]),
        ("GPU 0 idle", "idle", [(0, 2, "idle"), (8, 10, "idle"), (18, 26, "idle")]),
    ]


def test_a_gpu_of_other_steps_is_idle_in_this_one() -> None:
    timeline = draw("""
        range           |----step---|   |----step---|
        launch           ^a ^b            ^c
        kernel gpu0       |-a-|             |-c-|
        kernel gpu1           |-b-|
    """)
    assert told(view_of(timeline, 1))[1:] == [
        ("GPU 0 stream 7", "kernel", [(4, 8, "c")]),
        ("GPU 0 idle", "idle", [(0, 4, "idle"), (8, 12, "idle")]),
        ("GPU 1 idle", "idle", [(0, 12, "idle")]),
    ]


def test_a_gpu_that_is_never_idle_has_an_empty_lane() -> None:
    timeline = draw("""
        range    |---step---|
        kernel   |----a-----|
    """)
    assert told(view_of(timeline), "idle") == [("GPU 0 idle", "idle", [])]


def test_without_kernels_that_were_launched_nothing_is_said_to_be_idle() -> None:
    launches = build(
        ranges=[Range(start=0, end=100)],
        calls=[Call(start=5, end=6, correlation=1)],
        copies=[Op(start=10, end=20)],
    )
    assert "idle" not in {lane.kind for lane in view_of(launches).lanes}
    assert "copy" in {lane.kind for lane in view_of(launches).lanes}


def test_on_a_machine_without_a_gpu_there_are_ranges_only() -> None:
    assert {lane.kind for lane in view_of(build(ranges=loop(30, 30, 30))).lanes} == {"range"}


def test_operations_without_times_are_in_no_lane() -> None:
    timeline = build(
        ranges=[Range(start=500, end=600)],
        calls=[Call(start=510, end=520, correlation=1), Call(start=530, end=540, correlation=2)],
        kernels=[Op(start=0, end=0, correlation=1), Op(start=550, end=560, correlation=2)],
    )
    assert [len(lane.bars) for lane in view_of(timeline).lanes if lane.kind == "kernel"] == [1]


def test_an_operation_without_length_is_a_bar_without_length() -> None:
    timeline = build(ranges=[Range(start=0, end=100)], kernels=[Op(start=50, end=50, name="k")])
    assert told(view_of(timeline), "kernel") == [("GPU 0 stream 7", "kernel", [(5e-5, 5e-5, "k")])]


def test_the_operations_must_be_of_the_whole_step() -> None:
    timeline = build(ranges=[Range(start=0, end=100)])
    for start, end in ((1, 200), (-5, 99)):
        ops = dataclasses.replace(ops_of(timeline), start_ns=start, end_ns=end)
        message = f"the step is from 0 to 100 ns, the operations are of {start} to {end} ns"
        with pytest.raises(ValueError, match=message):
            step_view(place_of(timeline, 0), timeline, ops, label="")


# --- merging -----------------------------------------------------------------------------------------------------


def crowd(kernels: Sequence[tuple[int, int]], length: int) -> tuple[StepPlace, Timeline, WindowOps]:
    """One step with these kernels, named k0, k1, ... and launched in it."""
    timeline = build(
        ranges=[Range(start=0, end=length)],
        kernels=[Op(start=start, end=end, name=f"k{n}") for n, (start, end) in enumerate(kernels)],
    )
    return place_of(timeline, 0), timeline, ops_of(timeline)


def lane_of(view: StepView, kind: str) -> Lane:
    (lane,) = (lane for lane in view.lanes if lane.kind == kind)
    return lane


def test_as_many_bars_as_allowed_are_left_as_they_are() -> None:
    place, timeline, ops = crowd([(10 * n, 10 * n + 5) for n in range(5)], 50)
    view = step_view(place, timeline, ops, label="", most_bars=11)
    assert (view.operations, view.drawn, view.pixel_us) == (11, 11, 0)
    view = step_view(place, timeline, ops, label="", most_bars=10)
    assert view.operations == 11
    assert view.drawn <= 10
    assert view.pixel_us > 0


def test_small_neighbours_that_begin_in_one_pixel_become_one_bar() -> None:
    # 4 000 000 ns: a pixel is 1000 ns at first.
    small = [(10_000 + 100 * n, 10_000 + 100 * n + 30 + n) for n in range(8)]
    long = [(12_000, 13_000), (13_100, 14_200)]
    apart = [(15_900, 15_950), (16_010, 16_050)]
    place, timeline, ops = crowd([*small, *long, *apart], PIXELS * 1000)
    kernels = 12
    gaps = 13
    view = step_view(place, timeline, ops, label="", most_bars=kernels + gaps)
    assert view.pixel_us == 1
    assert lane_of(view, "kernel").bars == (
        Bar(start_us=10, length_us=0.737, name="k7", count=8, busy_us=0.268),
        Bar(start_us=12, length_us=1, name="k8"),
        Bar(start_us=13.1, length_us=1.1, name="k9"),
        Bar(start_us=15.9, length_us=0.05, name="k10"),
        Bar(start_us=16.01, length_us=0.04, name="k11"),
    )
    idle = lane_of(view, "idle").bars
    assert idle[0] == Bar(start_us=0, length_us=10, name="idle")
    assert idle[1] == Bar(start_us=10.03, length_us=0.67, name="idle", count=7, busy_us=0.469)
    assert [bar.count for bar in idle] == [1, 7, 1, 1, 1, 1, 1]
    assert view.operations == 1 + kernels + gaps
    assert view.drawn == 1 + 5 + 7


def test_the_pixel_grows_until_all_fits() -> None:
    place, timeline, ops = crowd([(100 * n, 100 * n + 50) for n in range(20_000)], 2_000_000)
    drawn, pixels = [], []
    for most in (5000, 2000, 200, 20, FEWEST_BARS):
        view = step_view(place, timeline, ops, label="", most_bars=most)
        assert view.operations == 40_001
        assert most / 3 <= view.drawn <= most
        drawn.append(view.drawn)
        pixels.append(view.pixel_us)
    assert drawn == sorted(drawn, reverse=True)
    assert pixels == sorted(pixels)


def test_long_bars_keep_their_names_beside_crowds() -> None:
    long = [(1_000_000 * n, 1_000_000 * n + 400_000) for n in range(10)]
    small = [
        (1_000_000 * n + 400_000 + 10 * k, 1_000_000 * n + 400_000 + 10 * k + 5)
        for n in range(10)
        for k in range(999)
    ]
    view = step_view(*crowd([*long, *small], 10_000_000), label="", most_bars=100)
    names = [bar.name for bar in lane_of(view, "kernel").bars if bar.count == 1]
    assert names == [f"k{n}" for n in range(10)]


def test_more_lanes_than_bars_leave_the_busiest() -> None:
    kernels = [Op(start=n, end=100 + n, name=f"k{n}", correlation=n) for n in range(30)]
    deep = [Range(start=n, end=400 - n, name=f"depth {n}") for n in range(1, 20)]
    timeline = build(ranges=[Range(start=0, end=400), *deep], kernels=kernels)
    ops = ops_of(timeline, streams={f"k{n}": n for n in range(30)})
    view = step_view(place_of(timeline, 0), timeline, ops, label="", most_bars=15)
    assert [(lane.title, lane.bars[0].count) for lane in view.lanes] == [
        ("CPU", 1),
        *((f"CPU {n}", 1) for n in range(2, 8)),
        ("GPU 0 idle", 1),
        ("other ranges", 13),
        ("other kernels", 30),
    ]
    (others,) = lane_of(view, "kernel").bars
    assert others == Bar(start_us=0, length_us=0.129, name="k0", count=30, busy_us=3.0)
    (ranges,) = view.lanes[-2].bars
    assert ranges.name == "depth 7"
    assert view.operations == 51
    assert view.drawn == 10


def test_too_few_bars_are_refused() -> None:
    with pytest.raises(ValueError, match="a view takes at least 8 bars, not 7"):
        step_view(*crowd([], 10), label="", most_bars=FEWEST_BARS - 1)


@pytest.mark.parametrize("overlapping", [1, 2, 64])
def test_a_million_operations_take_at_most_two_seconds(overlapping: int) -> None:
    count = 1_000_000
    start = 1000 * np.arange(count, dtype=np.int64)
    end = start + 1000 * overlapping - 300
    length = int(end[-1]) + 1
    small = build(
        ranges=[Range(start=0, end=length), Range(start=length + 5, end=length + 9)],
        kernels=[Op(start=5, end=6, name=f"k{n}") for n in range(9)],
        calls=[Call(start=0, end=1)],
    )
    kernels = dataclasses.replace(
        small.kernels,
        start=start,
        end=end,
        device=np.zeros(count, np.int32),
        process=np.zeros(count, np.int32),
        correlation=np.arange(count, dtype=np.int64),
        name=(
            np.arange(count) % 9 + min(k for k, name in small.names.items() if name == "k0")
        ).astype(np.int32),
        graph_node=np.full(count, -1, np.int64),
    )
    calls = dataclasses.replace(
        small.calls,
        start=start,
        end=start + 5,
        process=np.zeros(count, np.int32),
        thread=np.ones(count, np.int64),
        correlation=np.arange(count, dtype=np.int64),
        name=np.full(count, small.calls.name[0]),
    )
    timeline = dataclasses.replace(small, kernels=kernels, calls=calls)
    ops = ops_of(timeline)
    place = place_of(timeline, 0)
    begun = time.process_time()
    view = step_view(place, timeline, ops, label="")
    assert time.process_time() - begun < 10
    assert 1000 < view.drawn <= 2000
    gaps = count if overlapping == 1 else 1
    assert view.operations == 1 + count + gaps


# --- whatever the capture ----------------------------------------------------------------------------------------


@st.composite
def captures(draw: st.DrawFn) -> Timeline:
    count = draw(st.integers(1, 4))
    steps = [Range(start=40 * n, end=40 * n + draw(st.integers(1, 40))) for n in range(count)]
    spans = st.tuples(st.integers(0, 170), st.integers(0, 40))
    ranges = [
        Range(
            start=at,
            end=at + lasts,
            name=draw(st.sampled_from("abc")),
            thread=draw(st.integers(1, 2)),
        )
        for at, lasts in draw(st.lists(spans, max_size=12))
    ]
    tables: dict[str, list[Op]] = {"kernels": [], "copies": [], "memsets": [], "graphs": []}
    calls: list[Call] = []
    for number in range(draw(st.integers(0, 25))):
        at, waits, lasts = (
            draw(st.integers(0, 40 * count)),
            draw(st.integers(0, 40)),
            draw(st.integers(0, 25)),
        )
        pid = draw(st.sampled_from([100, 100, 100, 200]))
        tables[draw(st.sampled_from(["kernels", "kernels", "copies", "memsets", "graphs"]))].append(
            Op(
                start=at + waits,
                end=at + waits + lasts,
                name=draw(st.sampled_from(["gemm", "relu", "ncclDevKernel_Sum"])),
                device=draw(st.integers(0, 1)),
                pid=pid,
                correlation=number + 1,
            )
        )
        if draw(st.integers(0, 3)):
            calls.append(
                Call(
                    start=at,
                    end=at + 1,
                    correlation=number + 1,
                    pid=pid,
                    thread=draw(st.integers(1, 2)),
                )
            )
    return build(
        ranges=[*steps, *ranges],
        calls=calls,
        kernels=tables["kernels"],
        copies=tables["copies"],
        memsets=tables["memsets"],
        graphs=tables["graphs"],
    )


STREAMS = {"relu": 13}


def busy_ns(lanes: Sequence[Lane]) -> int:
    return sum(
        round((bar.length_us if bar.busy_us is None else bar.busy_us) * 1e3)
        for lane in lanes
        for bar in lane.bars
    )


def by(lanes: Sequence[Lane], what: str) -> dict[str, list[Lane]]:
    found: dict[str, list[Lane]] = defaultdict(list)
    for lane in lanes:
        found[getattr(lane, what)].append(lane)
    return found


def edges(bar: Bar) -> tuple[int, int]:
    return round(bar.start_us * 1e3), round((bar.start_us + bar.length_us) * 1e3)


def check(view: StepView, most_bars: int) -> None:
    length = round(view.length_us * 1e3)
    assert view.drawn == sum(len(lane.bars) for lane in view.lanes) <= most_bars
    assert view.operations == sum(bar.count for lane in view.lanes for bar in lane.bars)
    assert len({(lane.title, lane.kind) for lane in view.lanes}) == len(view.lanes)
    for lane in view.lanes:
        spans = [edges(bar) for bar in lane.bars]
        assert all(0 <= start <= end <= length for start, end in spans)
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
        for bar in lane.bars:
            assert (bar.count > 1) == (bar.busy_us is not None)
            if bar.busy_us is not None and not lane.title.startswith("other "):
                assert bar.busy_us <= bar.length_us + 1e-6


@settings(max_examples=300)
@given(captures(), st.integers(FEWEST_BARS, 40))
def test_merging_loses_no_time_and_no_operation(timeline: Timeline, most_bars: int) -> None:
    ops = ops_of(timeline, streams=STREAMS)
    place = typical_step(timeline, step="step")
    whole = step_view(place, timeline, ops, label="", most_bars=10**6)
    view = step_view(place, timeline, ops, label="", most_bars=most_bars)
    check(whole, 10**6)
    check(view, most_bars)
    assert (view.operations, view.length_us) == (whole.operations, whole.length_us)
    assert all(bar.count == 1 for lane in whole.lanes for bar in lane.bars)
    for kind, lanes in by(whole.lanes, "kind").items():
        assert busy_ns(by(view.lanes, "kind")[kind]) == busy_ns(lanes)
    now = by(view.lanes, "title")
    for title, lanes in by(whole.lanes, "title").items():
        if title in now:
            assert busy_ns(now[title]) == busy_ns(lanes)
            assert sum(len(lane.bars) for lane in lanes) == sum(
                bar.count for lane in now[title] for bar in lane.bars
            )
        else:
            assert any(not lane.bars for lane in lanes) or any(
                one.startswith("other ") for one in now
            )
    if not any(one.startswith("other ") for one in now):
        for lane in whole.lanes:
            (merged,) = now[lane.title]
            visible = [bar for bar in lane.bars if bar.length_us >= max(view.pixel_us, 0.001)]
            assert [bar for bar in merged.bars if bar.count == 1 and bar in visible] == visible
            # Nor does a bar that stands for several cover a gap of a pixel between two of them.
            for bar in merged.bars:
                if bar.count > 1:
                    start, end = edges(bar)
                    its = [
                        edges(one)
                        for one in lane.bars
                        if start <= edges(one)[0] and edges(one)[1] <= end
                    ]
                    assert all(
                        (b[0] - a[1]) < round(view.pixel_us * 1e3)
                        for a, b in itertools.pairwise(its)
                    )


@settings(max_examples=300)
@given(captures())
def test_lanes_hold_what_runs_between_begin_and_completion_tick_by_tick(timeline: Timeline) -> None:
    place = typical_step(timeline, step="step")
    view = step_view(place, timeline, ops_of(timeline, streams=STREAMS), label="", most_bars=10**6)
    for device in place.devices:
        running: set[int] = set()
        expected: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for kind, table in (
            ("kernel", timeline.kernels),
            ("graph", timeline.graphs),
            ("copy", timeline.copies),
            ("memset", timeline.memsets),
        ):
            for row in np.flatnonzero(table.device == device).tolist():
                start, end = int(table.start[row]), int(table.end[row])
                running |= set(range(start, end))
                overlaps = start < place.end and end > place.start
                if overlaps or (start == end and place.start <= start < place.end):
                    name = (
                        timeline.names[int(timeline.kernels.name[row])] if kind == "kernel" else ""
                    )
                    key = "nccl" if name.startswith("nccl") else kind
                    expected[key].append(
                        (max(start, place.start) - place.start, min(end, place.end) - place.start)
                    )
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        idle: set[int] = set()
        for lane in view.lanes:
            if lane.title.startswith(f"GPU {device} ") and lane.kind == "idle":
                idle |= {tick for bar in lane.bars for tick in range(*edges(bar))}
            elif lane.title.startswith(f"GPU {device} "):
                found[lane.kind] += [edges(bar) for bar in lane.bars]
        assert {kind: sorted(spans) for kind, spans in found.items()} == {
            kind: sorted(spans) for kind, spans in expected.items()
        }
        if place.has_idle:
            assert idle == {
                tick - place.start for tick in range(place.start, place.end) if tick not in running
            }


@settings(max_examples=100)
@given(
    captures(),
    st.integers(0, 2**32 - 1),
    st.integers(-(10**12), 10**12),
    st.integers(FEWEST_BARS, 60),
)
def test_order_of_rows_and_the_clock_change_nothing(
    timeline: Timeline, seed: int, by_ns: int, most: int
) -> None:
    def view(of: Timeline) -> StepView:
        ops = ops_of(of, streams=STREAMS)
        return step_view(typical_step(of, step="step"), of, ops, label="", most_bars=most)

    assert view(permuted(timeline, seed)) == view(timeline) == view(shifted(timeline, by_ns))


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 15)), max_size=20))
def test_no_two_of_one_level_overlap(spans: list[tuple[int, int]]) -> None:
    nested = sorted(
        ((start, start + lasts) for start, lasts in spans), key=lambda one: (one[0], -one[1])
    )
    plain = sorted((start, start + lasts) for start, lasts in spans)
    for ordered, level in ((nested, _depths), (plain, _spread)):
        start, end = (np.array([one[side] for one in ordered], np.int64) for side in (0, 1))
        levels = level(start, end).tolist()
        for lane in set(levels):
            its = [one for one, where in zip(ordered, levels, strict=True) if where == lane]
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(its))
        assert sorted(set(levels)) == list(range(len(set(levels))))
    depths = _depths(
        *(np.array([one[side] for one in nested], np.int64) for side in (0, 1))
    ).tolist()
    for (inner, deep), (outer, high) in itertools.permutations(zip(nested, depths, strict=True), 2):
        if outer[0] <= inner[0] and inner[1] <= outer[1] and inner != outer and inner[0] < outer[1]:
            assert deep > high
