"""What is a step: names, patterns, nesting, threads, warm-up, and why there is none."""

from __future__ import annotations

import pytest
from support.cases import named
from support.refused import refused
from support.timelines import Call, Op, Range, build, draw

from perfgate.metrics.kinds import kinds_of
from perfgate.metrics.measure import measure
from perfgate.metrics.steps import StepSpans, find_steps
from perfgate.model.errors import ConfigInvalid, StepsNotFound
from perfgate.model.timeline import Timeline
from perfgate.model.workload import START_RANGE, WARMUP_RANGE
from perfgate.words.say import filled


def found(
    timeline: Timeline,
    step: str = "step",
    *,
    is_pattern: bool = False,
    warmup: int = 0,
    steps: int | None = None,
) -> StepSpans:
    (one,) = find_steps(timeline, step=step, is_pattern=is_pattern, warmup=warmup, steps=steps)
    return one


def codes(steps: StepSpans) -> list[str]:
    return [one.code for one in steps.notes]


def spans(steps: StepSpans) -> list[tuple[int, int]]:
    """Begin and end of each, columns of a picture."""
    return list(zip((steps.starts // 10**6).tolist(), (steps.ends // 10**6).tolist(), strict=True))


def turns(*named: tuple[str, int, int], of: int = 8) -> Timeline:
    """Turns of 100 ns, each of which holds these ranges."""
    return build(
        ranges=[
            Range(start=100 * n + start, end=100 * n + end, name=name.format(n))
            for n in range(of)
            for name, start, end in named
        ]
    )


def test_warm_up_ranges_are_skipped_and_the_declared_number_is_used() -> None:
    one = found(turns(("step", 0, 50), of=10), warmup=3, steps=5)
    assert one.starts.tolist() == [300, 400, 500, 600, 700]
    assert codes(one) == ["steps-ambiguous"]
    fewer = found(turns(("step", 0, 50), of=10), warmup=3, steps=30)
    assert (len(fewer), fewer.notes) == (7, ())
    # A pattern is the user's own, and takes the first.
    pattern = found(turns(("Batch {}", 0, 50)), r"Batch \d+", is_pattern=True, steps=5)
    assert (len(pattern), pattern.notes, pattern.drawn, pattern.names) == (5, (), 8, {"Batch #": 1})


@pytest.mark.parametrize(
    ("step", "starts"),
    [
        (r"Batch \d+", [0, 20]),
        (r"train:Batch \d+", [0, 20]),
        (".*", [0, 20, 40, 80]),
        ("step", [80]),
        (r"Batch", None),
    ],
)
def test_a_pattern_matches_the_whole_name_with_or_without_its_domain(
    step: str, starts: list[int] | None
) -> None:
    names = ["train:Batch 1", "train:Batch 2", "Batch 3 (warm)", WARMUP_RANGE, "my:dom:step"]
    timeline = build(
        ranges=[Range(start=20 * n, end=20 * n + 10, name=name) for n, name in enumerate(names)]
    )
    if starts is None:
        with pytest.raises(StepsNotFound):
            found(timeline, step, is_pattern=True)
    else:
        assert found(timeline, step, is_pattern=True, steps=9).starts.tolist() == starts


@pytest.mark.parametrize("begins", [70, 40])
def test_what_matches_only_behind_a_colon_is_no_step_where_others_match_whole(begins: int) -> None:
    loop = turns(("step", 0, 60), ("scheduler:step", begins, begins + 10))
    assert found(loop, is_pattern=True).starts.tolist() == [100 * n for n in range(8)]


@pytest.mark.parametrize(
    ("picture", "expected", "noted"),
    named(
        {
            "nested: the outermost": (
                """
            range   |------step------|  |------step------|
            range     |-step-|            |-step-|
            """,
                [(20, 37), (40, 57)],
                [],
            ),
            "in flight: until the next begins": (
                """
            startend   |---step---|        |---step---|
            startend         |---step---|
            """,
                [(23, 29), (29, 40), (43, 54)],
                [],
            ),
            "in flight: ends in any order": (
                """
            startend   |-------step--------|       |-step--|
            startend      |-step--|   |--step---|
            """,
                [(23, 26), (26, 34), (38, 48), (51, 59)],
                [],
            ),
            "two threads: that with most": (
                """
            range            |-------step-------|
            range thread2      |-step-| |-step-| |-step-|
            """,
                [(31, 38), (40, 47), (49, 56)],
                ["one-thread-measured"],
            ),
            "two threads: each with a loop": (
                """
            range            |---step---|   |---step---|
            range thread2      |-step-| |-step-| |-step-|
            """,
                [(31, 38), (40, 47), (49, 56)],
                ["loops-at-once"],
            ),
            "never closed": (
                """
            range            |--step--| |--step--|
            range unclosed                         |--step--|
            """,
                [(29, 38), (40, 49)],
                ["ranges-unclosed"],
            ),
            "cut by the end of the capture": (
                """
            range   |---step---|  |---step---|  |---step---|
            range     |-a-|         |-a-|              |-a-|
            """,
                [(20, 31), (34, 45)],
                ["last-step-cut"],
            ),
            "shorter than all others": (
                "range  |---step---|  |---step---|  |-step-|",
                [(7, 18), (21, 32)],
                ["last-step-cut"],
            ),
            "short, and not the end": (
                "range  |---step---|  |---step---|  |-step-|   |later|",
                [(7, 18), (21, 32), (35, 42)],
                [],
            ),
        }
    ),
)
def test_which_ranges_are_steps(
    picture: str, expected: list[tuple[int, int]], noted: list[str]
) -> None:
    one = found(draw(picture))
    assert (spans(one), codes(one)) == (expected, noted)


def test_where_steps_are_missing_it_is_noted_that_others_lie_inside() -> None:
    crossing = draw("""
        range   |-----------------------step---------------------|
        range     |-step-|   |-step-|   |-step-|   |-step-|
        """)
    assert codes(found(crossing, steps=3)) == ["ranges-nested"]


# --- no step -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "is_pattern", "likely"),
    [
        ("step", False, ("train_step", "fwd (x[0]+y)", "epoch", "Batch 1", "Batch 0")),
        ("step", True, (r"Batch \d+", r"fwd \(x\[\d+\]\+y\)", "train_step", "epoch")),
        (r"Batchh \d+", True, (r"Batch \d+", r"fwd \(x\[\d+\]\+y\)", "train_step", "epoch")),
    ],
)
def test_what_may_be_meant_comes_first_what_was_misspelt_then_the_most_frequent(
    step: str, *, is_pattern: bool, likely: tuple[str, ...]
) -> None:
    timeline = build(
        ranges=[
            *(Range(start=100 * n, end=100 * n + 5, name="train_step") for n in range(3)),
            *(Range(start=100 * n, end=100 * n + 9, name="fwd (x[0]+y)") for n in range(4)),
            *(Range(start=9 * n, end=9 * n + n + 4, name=f"Batch {n % 2}") for n in range(5)),
            Range(start=0, end=500, name="epoch"),
            *(Range(start=n, end=n + 1, name=WARMUP_RANGE) for n in range(9)),
        ]
    )
    with pytest.raises(StepsNotFound) as raised:
        measure(timeline, step=step, is_pattern=is_pattern)
    found_likely = raised.value.fields["likely"]
    assert isinstance(found_likely, tuple)
    assert raised.value.code == "steps-misnamed"
    assert set(found_likely) >= set(likely) - {"Batch 0", "epoch"}
    if is_pattern:
        assert found_likely == likely
        (sample,) = measure(timeline, step=likely[0], is_pattern=True, steps=3)
        assert sample.steps == 3


@pytest.mark.parametrize("name", ["two words", "a\ttab", "two\nlines", "\x1b[31mred", "a\\b-#&~"])
def test_what_may_be_meant_is_a_pattern_of_that_name_as_it_is_shown(name: str) -> None:
    timeline = build(ranges=[Range(start=9 * n, end=9 * n + 8, name=name) for n in range(5)])
    with pytest.raises(StepsNotFound) as raised:
        measure(timeline, step="other", is_pattern=True)
    (shown,) = filled("{likely:list,}", raised.value.fields).splitlines()
    assert measure(timeline, step=shown, is_pattern=True)[0].steps == 5


def open_steps() -> Timeline:
    steps = [Range(start=10 * n, end=90, name="step", closed=False) for n in range(3)]
    return build(ranges=[*steps, Range(start=1, end=5, name="forward")])


@pytest.mark.parametrize(
    ("timeline", "warmup", "code"),
    [
        (draw("range |other|"), 0, "steps-misnamed"),
        (open_steps(), 0, "steps-left-open"),
        (draw("kernel |k|"), 0, "no-ranges"),
        (build(ranges=[Range(start=0, end=5, name=WARMUP_RANGE)]), 0, "no-ranges"),
        (turns(("step", 0, 50)), 8, "steps-all-warmup"),
    ],
)
def test_why_there_is_no_step(timeline: Timeline, warmup: int, code: str) -> None:
    with refused(StepsNotFound, code):
        measure(timeline, step="step", warmup=warmup)


def test_ranges_that_were_pushed_and_never_popped_are_no_warm_up_alone() -> None:
    """nsys closes them all where the process ends: each lies inside the one before."""
    pushed = build(ranges=[Range(start=10 * n, end=900, name=f"Batch {n}") for n in range(20)])
    with pytest.raises(StepsNotFound) as raised:
        measure(pushed, step=r"Batch \d+", is_pattern=True, warmup=5)
    processes = raised.value.fields["processes"]
    assert isinstance(processes, tuple)
    (one,) = processes
    assert (one.code, one.fields["ranges"], one.fields["matching"]) == ("all-warmup", 1, 20)


def test_a_broken_pattern_is_a_mistake_of_configuration() -> None:
    with refused(ConfigInvalid, "step-not-a-pattern"):
        measure(turns(("step", 0, 50)), step="Batch (", is_pattern=True)


# --- the whole window --------------------------------------------------------


def test_the_window_reaches_from_the_first_call_or_operation_to_the_last_operation() -> None:
    (one,) = find_steps(
        build(
            calls=[Call(start=5, end=6), Call(start=90, end=99)],
            kernels=[Op(start=20, end=80)],
            ranges=[Range(start=0, end=200)],
        ),
        step=None,
    )
    assert (one.starts.tolist(), one.ends.tolist(), one.whole) == ([5], [80], True)
    cpu = build(ranges=[Range(start=3, end=200), Range(start=10, end=20, thread=9)])
    (one,) = find_steps(cpu, step=None)
    assert (one.starts.tolist(), one.ends.tolist(), one.thread) == ([3], [200], 1)
    with refused(StepsNotFound, "nothing-captured"):
        measure(build(), step=None)


# --- steps of a decorated workload ---------------------------------------------

START = Range(start=3_000_000, end=3_010_000, name=START_RANGE)


def test_of_a_marked_loop_only_its_own_steps_are_measured() -> None:
    own = [Range(start=3_100_000 + 1_000_000 * n, end=3_900_000 + 1_000_000 * n) for n in range(4)]
    foreign = [
        *(Range(start=10_000 * n, end=10_000 * n + 5_000) for n in range(20)),  # before
        *(
            Range(start=3_100_000 + 200_000 * n, end=3_250_000 + 200_000 * n, thread=2)
            for n in range(20)
        ),
        *(Range(start=at + 200_000, end=at + 300_000) for at in [one.start for one in own]),
        Range(start=3_800_000, end=4_300_000, push_pop=False),
        *(Range(start=8_000_000 + 10_000 * n, end=8_005_000 + 10_000 * n) for n in range(3)),
        *(Range(start=3_100_000 + 9_000 * n, end=3_105_000 + 9_000 * n, pid=7) for n in range(4)),
    ]
    (sample,) = measure(build(ranges=[START, *own, *foreign]), step="step", steps=4)
    assert (sample.pid, sample.steps, sample.nvtx_step_ms) == (100, 4, 0.8)
    assert sample.periods_ms == (1.0, 1.0)
    assert [one.code for one in sample.notes] == ["steps-of-others", "cpu-only"]


def test_steps_of_other_processes_stand_in_for_none_of_a_marked_loop() -> None:
    foreign = [Range(start=10 * n, end=10 * n + 5, pid=7) for n in range(4)]
    with refused(StepsNotFound, "steps-all-of-others"):
        measure(build(ranges=[START, *foreign]), step="step", steps=4)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("step 12 seq 16k", "step # seq #k"),
        ("step 10 last 12.5ms", "step # last #ms"),
        ("ep100it25", "ep#it#"),
        ("step 0x6719b458", "step #"),
        ("step a557e9af", "step #"),
        ("loss 1.5e-5, -2", "loss #"),
        ("v1.2.10", "v#.#.#"),
        ("forward, seq = 12, op_id = 7", "forward"),
        ("eval", "eval"),
    ],
)
def test_numbers_of_any_length_leave_one_kinds_of_name(text: str, kind: str) -> None:
    assert kinds_of([text]) == [kind]
    assert kinds_of([text, "", text]) == [kind, "", kind]
