"""Which step stands for the others, what its lanes show, and that merging bars loses nothing."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import pytest
from support.refused import refused
from support.timelines import Call, Op, Range, build, draw
from syrupy.assertion import SnapshotAssertion

from perfgate.metrics.stepview import (
    PIXELS,
    StepPlace,
    step_view,
    typical_step,
)
from perfgate.model.errors import StepsNotFound
from perfgate.model.note import quoted
from perfgate.model.pagedata import Lane, StepView
from perfgate.model.timeline import Timeline

Shown = tuple[str, str, list[tuple[float, float, str]]]
MS = 1_000_000


def view_of(timeline: Timeline, index: int = 0) -> StepView:
    """A step, whichever is the typical one."""
    found = typical_step(timeline, step="step", warmup=index, steps=1)
    place = typical_step(timeline, step="step")
    chosen = dataclasses.replace(place, index=index, start=found.start, end=found.end)
    return step_view(chosen, label=quoted("it"))


def shown(view: StepView, *kinds: str) -> list[Shown]:
    """Title, kind and bars of each lane (begin and end in ms, name), of these kinds if any are
    named."""
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


def loop(*periods: int, pid: int = 100) -> list[Range]:
    """Steps of 10 ns that end these periods apart, the first at 10."""
    ends = itertools.accumulate(periods, initial=10)
    return [Range(start=end - 10, end=end, pid=pid) for end in ends]


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
    assert place.index == index
    assert (place.start, place.end) == (
        sum(periods[:index]) + 10 - period,
        sum(periods[:index]) + 10,
    )


def test_two_steps_have_no_period_but_lengths() -> None:
    steps = [Range(start=0, end=10), Range(start=20, end=50)]
    place = typical_step(build(ranges=steps), step="step")
    assert (place.index, place.start, place.end) == (0, 0, 10)


def test_of_several_processes_the_slowest() -> None:
    timeline = build(
        ranges=[*loop(20, 30, 30), *loop(20, 40, 40, pid=101), *loop(20, 30, 30, pid=102)]
    )
    assert typical_step(timeline, step="step").process.pid == 101
    assert typical_step(timeline, step="step", pid=102).process.pid == 102
    with refused(StepsNotFound, "process-without-steps"):
        typical_step(timeline, step="step", pid=5)


def test_one_step_as_it_ran(snapshot: SnapshotAssertion) -> None:
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
    assert shown(view) == snapshot
    assert (view.label, view.length_us, view.operations, view.drawn, view.pixel_us) == (
        quoted("it"),
        37_000,
        12,
        12,
        0,
    )


def test_what_is_of_other_steps_is_cut_off_and_says_so(snapshot: SnapshotAssertion) -> None:
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
    kernels = [dataclasses.replace(one, stream=number) for number, one in enumerate(kernels)]
    view = view_of(build(ranges=[*steps, *inner, between], calls=calls, kernels=kernels), 3)
    assert view.length_us == 0.06
    assert [
        (title, [(round(a * MS), round(b * MS), name) for a, b, name in bars])
        for title, _, bars in shown(view)
    ] == snapshot


def test_other_threads_ranges_only_if_they_made_calls_in_the_step(
    snapshot: SnapshotAssertion,
) -> None:
    timeline = draw("""
        range            |-------step-------|   |-------step-------|
        range            |load|
        range  thread7     |--backward--|         |-backward-|
        range  thread7       |-mm-|
        range  thread8    |--io--|
        range  thread9    |--next--|
        launch thread7         ^a
        launch thread8     ^b
        launch thread9                            ^c
        kernel                   |-----a------------|
        kernel              |-b-|
        kernel                                     |--c--|
    """)
    assert shown(view_of(timeline), "range") == snapshot


def test_kernels_that_overlap_on_a_stream_take_the_first_free_lane() -> None:
    timeline = draw("""
        range    |------------------step------------------|
        kernel    |-a-|   |-----c-----|    |--f--|
        kernel      |--b-----|   |-d---|
        kernel                 |-e-|
    """)
    view = view_of(timeline)
    assert [(title, [name for _, _, name in bars]) for title, _, bars in shown(view, "kernel")] == [
        ("GPU 0 stream 7", ["a", "c", "f"]),
        ("GPU 0 stream 7 (2)", ["b", "e"]),
        ("GPU 0 stream 7 (3)", ["d"]),
    ]


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
    assert shown(view)[1:] == [
        ("GPU 0 stream 7", "kernel", [(2, 8, "a")]),
        ("GPU 0 stream 7 of process 200", "kernel", [(10, 18, "b")]),
        ("GPU 0 idle", "idle", [(0, 2, "idle"), (8, 10, "idle"), (18, 26, "idle")]),
    ]


def test_without_kernels_that_were_launched_nothing_is_said_to_be_idle() -> None:
    launches = build(
        ranges=[Range(start=0, end=100)],
        calls=[Call(start=5, end=6, correlation=1)],
        copies=[Op(start=10, end=20)],
    )
    assert "idle" not in {lane.kind for lane in view_of(launches).lanes}
    assert "copy" in {lane.kind for lane in view_of(launches).lanes}


def crowd(kernels: Sequence[tuple[int, int]], length: int) -> StepPlace:
    """One step with these kernels, named k0, k1, ... and launched in it."""
    ops = [Op(start=start, end=end, name=f"k{n}") for n, (start, end) in enumerate(kernels)]
    return typical_step(build(ranges=[Range(start=0, end=length)], kernels=ops), step="step")


def lane_of(view: StepView, kind: str) -> Lane:
    (lane,) = (lane for lane in view.lanes if lane.kind == kind)
    return lane


def test_small_neighbours_that_begin_in_one_pixel_become_one_bar(
    snapshot: SnapshotAssertion,
) -> None:
    # 4 000 000 ns: a pixel is 1000 ns at first.
    small = [(10_000 + 100 * n, 10_000 + 100 * n + 30 + n) for n in range(8)]
    long = [(12_000, 13_000), (13_100, 14_200)]
    apart = [(15_900, 15_950), (16_010, 16_050)]
    place = crowd([*small, *long, *apart], PIXELS * 1000)
    kernels = 12
    gaps = 13
    view = step_view(place, label=quoted(""), most_bars=kernels + gaps)
    assert view.pixel_us == 1
    assert [lane_of(view, kind).bars for kind in ("kernel", "idle")] == snapshot
    assert view.operations == 1 + kernels + gaps
    assert view.drawn == 1 + 5 + 7


def test_the_pixel_grows_until_all_fits() -> None:
    place = crowd([(100 * n, 100 * n + 50) for n in range(20_000)], 2_000_000)
    drawn, pixels = [], []
    for most in (5000, 2000, 200, 20):
        view = step_view(place, label=quoted(""), most_bars=most)
        assert view.operations == 40_001
        assert most / 3 <= view.drawn <= most
        drawn.append(view.drawn)
        pixels.append(view.pixel_us)
    assert drawn == sorted(drawn, reverse=True)
    assert pixels == sorted(pixels)
