"""What is a step: names, patterns, nesting, threads, warm-up, and the messages where there is none."""

from __future__ import annotations

import re

import pytest
from support.timelines import Call, Op, Range, build, draw

from perfgate.metrics.kinds import kind_of
from perfgate.metrics.measure import measure
from perfgate.metrics.steps import Steps, find_steps, whole_windows
from perfgate.model.errors import ConfigInvalid, StepsNotFound
from perfgate.model.timeline import Timeline
from perfgate.model.workload import START_RANGE, WARMUP_RANGE


def found(
    timeline: Timeline,
    step: str = "step",
    *,
    is_pattern: bool = False,
    warmup: int = 0,
    steps: int | None = None,
) -> Steps:
    names = timeline.ranges.name
    (one,) = find_steps(
        timeline, names, step=step, is_pattern=is_pattern, warmup=warmup, steps=steps
    )
    return one


def windows(timeline: Timeline) -> tuple[Steps, ...]:
    return whole_windows(timeline, timeline.ranges.name)


def ten(name: str = "step") -> Timeline:
    return build(
        ranges=[Range(start=100 * n, end=100 * n + 50, name=name.format(n)) for n in range(10)]
    )


def too_many(named: int, declared: int) -> str:
    return (
        f"{named} ranges are named 'step' where {declared} were declared, and which are the loop's own cannot be told; "
        "rename those that the project draws itself"
    )


def test_warm_up_ranges_are_skipped_and_the_declared_number_is_used() -> None:
    one = found(ten(), warmup=3, steps=5)
    assert one.starts.tolist() == [300, 400, 500, 600, 700]
    assert one.complaints == (too_many(7, 5),)


def test_fewer_steps_than_declared_are_returned_as_they_are() -> None:
    assert len(found(ten(), warmup=3, steps=30)) == 7


def test_a_pattern_takes_more_ranges_than_declared_without_a_word() -> None:
    one = found(ten("Batch {}"), r"Batch \d+", is_pattern=True, steps=5)
    assert (len(one), one.remarks, one.complaints) == (5, (), ())


def test_a_pattern_must_match_the_whole_name_with_or_without_its_domain() -> None:
    timeline = build(
        ranges=[
            Range(start=0, end=10, name="train:Batch 1"),
            Range(start=20, end=30, name="train:Batch 2"),
            Range(start=40, end=50, name="Batch 3 (warm)"),
            Range(start=60, end=70, name="perfgate warm-up"),
            Range(start=80, end=90, name="train:Batch 4"),
            Range(start=100, end=110, name="the last"),
        ]
    )
    assert found(timeline, r"Batch \d+", is_pattern=True).starts.tolist() == [0, 20, 80]
    assert found(timeline, r"train:Batch \d+", is_pattern=True).starts.tolist() == [0, 20, 80]
    assert 60 not in found(timeline, r".*", is_pattern=True).starts.tolist()


def loop_of(*named: tuple[str, int, int]) -> Timeline:
    """Eight turns of 100 ns, each of which holds these ranges."""
    return build(
        ranges=[
            Range(start=100 * n + start, end=100 * n + end, name=name)
            for n in range(8)
            for name, start, end in named
        ]
    )


def test_a_name_that_matches_whole_is_the_step_and_one_that_does_behind_a_colon_is_told() -> None:
    one = found(loop_of(("step", 0, 60), ("scheduler:step", 70, 80)), "step", is_pattern=True)
    assert one.starts.tolist() == [100 * n for n in range(8)]
    (told,) = one.remarks
    assert told == (
        "ranges match 'step' only after a colon, where others match with less cut off, and are not counted (8): "
        "scheduler:step"
    )


def test_what_matches_behind_a_colon_within_a_step_is_not_worth_telling() -> None:
    one = found(loop_of(("step", 0, 60), ("scheduler:step", 40, 50)), "step", is_pattern=True)
    assert (len(one), one.remarks) == (8, ())


def test_a_whole_name_that_was_never_closed_does_not_stand_in_for_the_steps_of_a_domain() -> None:
    steps = [Range(start=100 * n, end=100 * n + 60, name="train:step") for n in range(8)]
    one = found(
        build(ranges=[*steps, Range(start=5, end=999, closed=False)]), "step", is_pattern=True
    )
    assert (len(one), one.remarks) == (
        8,
        ("step ranges were never closed and are not counted (1)",),
    )


def test_steps_that_differ_before_the_colon_are_told() -> None:
    one = found(
        loop_of(("train:step", 0, 60), ("scheduler:step", 70, 80)),
        "step",
        is_pattern=True,
        steps=16,
    )
    assert len(one) == 16
    assert one.remarks == (
        "ranges that differ before a colon match 'step', and all are counted as steps: scheduler:step, train:step",
    )


def test_names_told_are_few_and_those_that_differ_in_numbers_are_one() -> None:
    layers = [(f"layer {n}:step", 10 * n + 10, 10 * n + 15) for n in range(3)]
    parts = [(f"{part}:step", 40 + 5 * n, 44 + 5 * n) for n, part in enumerate("abcdef")]
    one = found(loop_of(("step", 0, 5), *layers, *parts), "step", is_pattern=True)
    (told,) = one.remarks
    assert told.endswith("not counted (72): a:step, b:step, c:step, d:step, e:step, 2 more")


def test_a_step_is_found_in_a_domain_with_a_colon_in_its_name() -> None:
    timeline = loop_of(("my:dom:step", 0, 60), ("aten::step_", 10, 20), ("aten::step", 70, 80))
    one = found(timeline, "step", is_pattern=True)
    assert (one.starts.tolist(), one.remarks) == ([100 * n for n in range(8)], ())
    assert len(found(timeline, "dom:step", is_pattern=True)) == 8


def test_a_literal_name_is_the_whole_name_and_no_pattern() -> None:
    timeline = build(
        ranges=[Range(start=0, end=10, name="a.c"), Range(start=20, end=30, name="abc")]
    )
    assert found(timeline, "a.c").starts.tolist() == [0]


def test_of_nested_matches_the_outermost_is_the_step() -> None:
    one = found(
        draw("""
        range   |------step------|  |------step------|
        range     |-step-|            |-step-|
        """)
    )
    assert [
        (start // 10**6, end // 10**6) for start, end in zip(one.starts, one.ends, strict=True)
    ] == [
        (16, 33),
        (36, 53),
    ]
    assert one.remarks == ()


CROSSING = """
        range   |-----------------------step---------------------|
        range     |-step-|   |-step-|   |-step-|   |-step-|
        """


def test_where_steps_are_missing_it_is_said_that_others_lie_inside() -> None:
    told = "ranges that match lie inside another one that does, and are not counted (4)"
    assert found(draw(CROSSING), steps=3).remarks == (told,)
    with pytest.raises(StepsNotFound) as caught:
        found(draw(CROSSING), steps=3, warmup=1)
    assert str(caught.value) == (
        f"drawn.sqlite: no step is left after warm-up: process 100 holds step ranges, all of them warm-up (1); {told}. "
        "Measured steps come after the warm-up.\nMatch the outermost of them alone. If tasks take turns on that thread "
        "(asyncio), push and pop of one close the other's ranges: draw the steps with nvtx.start_range and "
        "nvtx.end_range."
    )


def test_a_step_that_begins_inside_the_one_before_ends_it_and_that_is_said() -> None:
    one = found(
        draw("""
        startend   |---step---|        |---step---|
        startend         |---step---|
        """)
    )
    assert [
        (start // 10**6, end // 10**6) for start, end in zip(one.starts, one.ends, strict=True)
    ] == [
        (19, 25),
        (25, 36),
        (39, 50),
    ]
    assert [end // 10**6 for end in one.range_ends] == [30, 36, 50]
    assert one.remarks == (
        "step ranges begin inside the step before them, which is measured until there (1)",
    )


IN_FLIGHT = """
        startend   |-------req 1-------|       |-req 4-|
        startend      |-req 2-|   |--req 3--|
        """


def test_work_in_flight_that_ends_out_of_order_is_measured_from_start_to_start() -> None:
    one = found(draw(IN_FLIGHT), r"req \d+", is_pattern=True)
    assert [
        (start // 10**6, end // 10**6) for start, end in zip(one.starts, one.ends, strict=True)
    ] == [
        (19, 22),
        (22, 30),
        (34, 44),
        (47, 55),
    ]
    assert one.remarks == (
        "step ranges begin inside the step before them, which is measured until there (1)",
    )


INSIDE = "ranges that match lie inside another one that does, and are not counted (2)"


@pytest.mark.parametrize(
    ("outer", "inner", "told"),
    [
        ("startend", "startend", (INSIDE,)),
        ("startend", "range", (INSIDE,)),
        ("range", "startend", (INSIDE,)),
    ],
)
def test_of_nested_matches_of_two_kinds_the_outermost_is_the_step(
    outer: str, inner: str, told: tuple[str, ...]
) -> None:
    one = found(
        draw(f"""
        {outer:9}|------step 1------|  |------step 2------|
        {inner:9}  |-step a-|            |-step a-|
        """),
        "step .*",
        is_pattern=True,
    )
    assert len(one) == 2
    assert one.remarks == told


def test_of_threads_with_steps_at_once_the_one_with_most_is_measured() -> None:
    one = found(
        draw("""
        range            |-------step-------|
        range thread2      |-step-| |-step-| |-step-|
        """)
    )
    assert one.threads.tolist() == [2, 2, 2]
    assert one.remarks == ("2 threads hold steps at the same time: those of thread 2 are measured",)
    assert one.complaints == ()


def test_threads_of_which_each_has_a_loop_of_its_own_are_no_one_loop() -> None:
    one = found(
        draw("""
        range            |---step---|   |---step---|
        range thread2      |-step-| |-step-| |-step-|
        """)
    )
    assert one.threads.tolist() == [2, 2, 2]
    assert one.complaints == (
        (
            "2 threads hold steps at the same time, each of a loop of its own: let `step` match the name of one "
            "thread's alone"
        ),
    )


def test_steps_may_wander_from_thread_to_thread() -> None:
    one = found(
        draw("""
        range            |--step--|             |--step--|
        range thread2                |--step--|
        """)
    )
    assert one.threads.tolist() == [1, 2, 1]


def test_a_step_never_closed_is_no_step() -> None:
    one = found(
        draw("""
        range            |--step--| |--step--|
        range unclosed                         |--step--|
        """)
    )
    assert len(one) == 2
    assert one.remarks == ("step ranges were never closed and are not counted (1)",)


CUT = """
        range   |---step---|  |---step---|  |---step---|
        range     |-a-|         |-a-|              |-a-|
        """
SHORT = "range  |---step---|  |---step---|  |-step-|"


@pytest.mark.parametrize("picture", [CUT, SHORT])
def test_a_last_step_cut_by_the_end_of_the_capture_is_dropped(picture: str) -> None:
    one = found(draw(picture))
    assert len(one) == 2
    assert one.remarks == (
        "the last step ends with the capture, may have been cut off by it and is not counted",
    )


@pytest.mark.parametrize("picture", [CUT, SHORT])
def test_with_a_declared_number_of_steps_the_last_is_taken_as_it_is(picture: str) -> None:
    assert len(found(draw(picture), steps=3)) == 3


@pytest.mark.parametrize(
    "picture",
    [
        "range  |---step---|  |---step---|  |--step---|",
        "range  |---step---|  |---step---|  |-step-|   |later|",
        "range  |-step-|",
    ],
)
def test_a_last_step_without_signs_of_a_cut_stays(picture: str) -> None:
    assert len(found(draw(picture))) == picture.count("step")


def test_a_name_not_found_is_answered_with_the_most_frequent_ones() -> None:
    timeline = build(
        ranges=[
            *(Range(start=10 * n, end=10 * n + 5, name="train_step") for n in range(3)),
            *(Range(start=10 * n, end=10 * n + 5, name=f"Batch {n}", thread=2) for n in range(5)),
            Range(start=0, end=50, name="epoch"),
        ]
    )
    with pytest.raises(StepsNotFound) as raised:
        measure(timeline, step="step")
    assert str(raised.value) == (
        "drawn.sqlite: no NVTX range is named 'step'. "
        r"Perhaps you meant 'Batch \d+' (5 times), 'train_step' (3 times), 'epoch' (once)."
        "\nGive the name of the step's range, or a regular expression that matches all of it."
    )


def test_what_was_misspelt_is_suggested_before_what_is_frequent() -> None:
    ranges = [
        Range(start=10 * n, end=10 * n + 5, name=name) for name in "abcdef" for n in range(20)
    ]
    steps = [Range(start=10 * n, end=10 * n + 9, name=f"step {n}", thread=2) for n in range(8)]
    with pytest.raises(StepsNotFound) as raised:
        measure(build(ranges=[*ranges, *steps]), step=r"stepp \d+")
    assert r"Perhaps you meant 'step \d+' (8 times), 'a' (20 times), 'b' (20 times), " in str(
        raised.value
    )


def test_ranges_of_perfgates_own_are_not_suggested() -> None:
    own = [Range(start=10 * n, end=10 * n + 5, name=WARMUP_RANGE) for n in range(9)]
    with pytest.raises(StepsNotFound) as raised:
        measure(build(ranges=own), step="step")
    assert str(raised.value) == (
        "drawn.sqlite: no NVTX range is named 'step', and none but those that perfgate draws before the steps. "
        "Each step is one NVTX range.\n"
        "A process that ends by os._exit is gone before nsys has its last ranges: let it end by itself. "
        f"{FORKED}"
    )
    with pytest.raises(StepsNotFound, match=r"Perhaps you meant 'turn' \(once\)\.\n"):
        measure(build(ranges=[*own, Range(start=100, end=105, name="turn")]), step="step")


@pytest.mark.parametrize(("unclosed", "told"), [(1, "1 was opened"), (3, "3 were opened")])
def test_steps_that_were_all_left_open_are_told_as_that(unclosed: int, told: str) -> None:
    ranges = [Range(start=10 * n, end=90, name="step", closed=False) for n in range(unclosed)]
    with pytest.raises(StepsNotFound) as raised:
        measure(build(ranges=[*ranges, Range(start=1, end=5, name="forward")]), step="step")
    assert str(raised.value) == (
        f"drawn.sqlite: no closed NVTX range is named 'step': {told} and not closed. "
        "Each push needs its pop: a range pushed in a step and not popped takes the step's own."
        "\nUse `with nvtx.annotate(...)` (of torch: torch.cuda.nvtx.range), which pops by itself."
    )


def test_steps_that_all_lie_in_an_open_warm_up_turn_are_told_as_open() -> None:
    # A loop that pushes and never pops: nsys ends the turns with the capture.
    turns = [Range(start=10 * n, end=90, name=WARMUP_RANGE if n < 2 else "step") for n in range(6)]
    work = [Range(start=10 * n + 1, end=10 * n + 9, name="work") for n in range(6)]
    with pytest.raises(
        StepsNotFound, match="no closed NVTX range is named 'step': 4 were opened and not closed"
    ):
        measure(build(ranges=[*turns, *work]), step="step")


def test_names_suggested_for_a_pattern_are_patterns_that_match_them() -> None:
    # Of equally frequent ones the longest is first; what each thread or rank marks once is one pattern.
    timeline = build(
        ranges=[
            *(Range(start=100 * n, end=100 * n + 9, name="fwd (x[0]+y)") for n in range(4)),
            *(
                Range(start=100 * n, end=100 * n + 90, name=f"Step {n} Start", thread=t)
                for n in range(2)
                for t in (1, 2)
            ),
        ]
    )
    with pytest.raises(StepsNotFound) as raised:
        measure(timeline, step="step", is_pattern=True)
    told = r"Perhaps you meant 'Step \d+ Start' (4 times), 'fwd \(x\[0\]\+y\)' (4 times)."
    assert told in str(raised.value)
    (sample,) = measure(timeline, step=r"fwd \(x\[0\]\+y\)", is_pattern=True, steps=4)
    assert sample.steps == 4


def test_steps_that_each_epoch_numbers_anew_are_suggested_as_one_pattern() -> None:
    ranges = [
        *(Range(start=1000 * e, end=1000 * e + 900, name=f"epoch {e}") for e in range(2)),
        *(
            Range(start=1000 * e + 100 * n, end=1000 * e + 100 * n + 90, name=f"step {n}")
            for e in (0, 1)
            for n in range(6)
        ),
    ]
    assert suggested(build(ranges=ranges))[:2] == [r"step \d+", r"epoch \d+"]


def test_numbers_that_recur_in_each_step_are_not_taken_for_the_steps() -> None:
    ranges = [
        *(Range(start=1000 * n, end=1000 * n + 900, name="train") for n in range(6)),
        *(
            Range(start=1000 * n + 100 * k, end=1000 * n + 100 * k + 90, name=f"fwd {k}")
            for n in range(6)
            for k in range(3)
        ),
    ]
    assert suggested(build(ranges=ranges)) == ["train", "fwd 0", "fwd 1", "fwd 2"]
    many = [
        Range(start=1000 * n + 50 * k, end=1000 * n + 50 * k + 40, name=f"fwd {k}")
        for n in range(6)
        for k in range(9)
    ]
    assert suggested(build(ranges=[*ranges[:6], *many]))[:3] == [r"fwd \d+", "train", "fwd 0"]


def suggested(timeline: Timeline) -> list[str]:
    """What is suggested where no pattern matches, in the order told."""
    with pytest.raises(StepsNotFound) as raised:
        measure(timeline, step="nothing", is_pattern=True)
    return re.findall(r"'(.*?)' \((?:once|\d+ times)\)", raised.value.expectation)


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["a\nb"], r"a\nb"),
        (["\x1b[31m\N{RIGHT-TO-LEFT OVERRIDE} \N{NO-BREAK SPACE}"], r"\x1b\[31m\u202e \xa0"),
        (["one\n 1", "one\n 2"], r"one\n \d+"),
        (["at 0xff", "at 12"], r"at (?:0x[0-9a-fA-F]+|\d+)"),
        (["back\\slash"], r"back\\slash"),
        (["x" * 50_000 + "\n" + "y" * 50_000], "x" * 64 + "(?s:.*)" + "y" * 32),
        (["x" * 50_000 + "1", "x" * 50_000 + "2"], "x" * 64 + "(?s:.*)"),
    ],
)
def test_what_is_suggested_for_a_pattern_matches_when_it_is_pasted(
    names: list[str], pattern: str
) -> None:
    timeline = build(
        ranges=[Range(start=100 * n, end=100 * n + 90, name=name) for n, name in enumerate(names)]
    )
    assert suggested(timeline) == [pattern]
    assert found(timeline, pattern, is_pattern=True, steps=9).starts.tolist() == [
        100 * n for n in range(len(names))
    ]


def test_a_name_that_has_the_mark_of_a_number_is_suggested_by_itself() -> None:
    timeline = build(
        ranges=[Range(start=100 * n, end=100 * n + 90, name=f"Batch {n or '#'}") for n in range(2)]
    )
    assert suggested(timeline) == ["Batch 1", r"Batch \#"]


def test_long_names_with_the_same_ends_are_suggested_together() -> None:
    alike = [f"{'x' * 100}{middle}{'y' * 100}" for middle in ("a", "b")]
    timeline = build(
        ranges=[
            Range(start=100 * n, end=100 * n + 90, name=name) for n, name in enumerate(alike * 2)
        ]
    )
    with pytest.raises(StepsNotFound) as raised:
        measure(timeline, step="nothing", is_pattern=True)
    assert raised.value.expectation == f"Perhaps you meant '{'x' * 64}(?s:.*){'y' * 32}' (4 times)"


def test_long_names_are_suggested_without_their_middle() -> None:
    timeline = build(
        ranges=[Range(start=0, end=9, name="x" * 100_000), Range(start=0, end=8, name="y" * 100)]
    )
    with pytest.raises(StepsNotFound) as raised:
        measure(timeline, step="step")
    told = f"Perhaps you meant '{'x' * 64}...{'x' * 32}' (once), '{'y' * 100}' (once)"
    assert raised.value.expectation == told


FORKED = "A process that is forked and does not exec is not recorded: take the steps in the first one, or spawn it."


def test_a_pattern_not_found_is_told_as_such() -> None:
    with pytest.raises(StepsNotFound) as raised:
        measure(draw("range |step|"), step=r"Batch \d+", is_pattern=True)
    assert str(raised.value) == (
        r"drawn.sqlite: no NVTX range matches 'Batch \d+'. Perhaps you meant 'step' (once)."
        "\nGive the name of the step's range, or a regular expression that matches all of it. "
        f"{FORKED}"
    )


def test_a_capture_without_ranges_says_so_with_the_readers_reason() -> None:
    with pytest.raises(StepsNotFound) as raised:
        measure(
            draw("kernel |k|", missing={"ranges": "the table NVTX_EVENTS is not there"}),
            step="step",
        )
    assert str(raised.value) == (
        "drawn.sqlite: the capture holds no NVTX range (the table NVTX_EVENTS is not there), so none is named 'step'. "
        "Each step is one NVTX range."
        f"\n{FORKED} See that the loop draws a range around each step, that what starts its process hands its own "
        "environment on (`env=` and `env -i` do not), and that nsys hears its NVTX: perfgate doctor"
    )


def test_a_capture_with_nothing_but_warm_up_holds_no_step() -> None:
    with pytest.raises(StepsNotFound) as raised:
        measure(ten(), step="step", warmup=10)
    assert str(raised.value) == (
        "drawn.sqlite: no step is left after warm-up: process 100 holds step ranges, all of them warm-up (10). "
        "Measured steps come after the warm-up."
        "\nRun more steps, or lower `warmup`. If a launcher starts the process of the steps, it must wait for it: the "
        "capture ends with the launcher."
    )


def test_a_process_that_never_left_its_warm_up_is_told_with_the_others() -> None:
    timeline = build(
        ranges=[
            *(Range(start=10 * n, end=10 * n + 5) for n in range(5)),
            *(Range(start=10 * n, end=10 * n + 5, pid=7) for n in range(2)),
        ]
    )
    (sample,) = measure(timeline, step="step", warmup=2)
    assert sample.pid == 100
    assert "process 7 holds step ranges, all of them warm-up (2)" in sample.remarks


def test_an_empty_capture_has_no_window() -> None:
    with pytest.raises(StepsNotFound) as raised:
        measure(build(missing={"kernels": "no CUDA events were recorded"}), step=None)
    assert str(raised.value) == (
        "drawn.sqlite: the capture holds no GPU operation, CUDA call or NVTX range. No CUDA events were recorded."
        "\nCapture with nsys profile --trace=cuda,nvtx, and see that the program runs inside the window."
    )


def test_a_broken_pattern_is_a_mistake_of_configuration() -> None:
    with pytest.raises(ConfigInvalid) as raised:
        measure(ten(), step="Batch (", is_pattern=True)
    assert str(raised.value) == (
        "step 'Batch (': not a regular expression: missing ), unterminated subpattern at position 6."
        "\nCorrect the pattern, or escape what is meant literally with a backslash."
    )


def test_the_window_reaches_from_the_first_call_or_operation_to_the_last_operation() -> None:
    (one,) = windows(
        build(
            calls=[Call(start=5, end=6), Call(start=90, end=99)],
            kernels=[Op(start=20, end=80)],
            ranges=[Range(start=0, end=200)],
        )
    )
    assert (one.starts.tolist(), one.ends.tolist(), one.whole) == ([5], [80], True)


def test_the_window_of_a_process_without_cuda_is_that_of_its_ranges() -> None:
    (one,) = windows(build(ranges=[Range(start=3, end=200), Range(start=10, end=20, thread=9)]))
    assert (one.starts.tolist(), one.ends.tolist(), one.threads.tolist()) == ([3], [200], [1])


def test_a_range_of_the_steps_name_within_a_warm_up_turn_is_no_step() -> None:
    warm = [Range(start=100 * n, end=100 * n + 50, name="perfgate warm-up") for n in range(3)]
    inside = [Range(start=100 * n + 10, end=100 * n + 40, name="step") for n in range(3)]
    measured = [Range(start=300 + 100 * n, end=350 + 100 * n, name="step") for n in range(4)]
    one = found(build(ranges=[*warm, *inside, *measured]), steps=4)
    assert one.starts.tolist() == [300, 400, 500, 600]
    assert one.remarks == ()


def test_of_a_marked_loop_only_its_own_steps_are_measured() -> None:
    start = Range(start=3_000_000, end=3_010_000, name=START_RANGE)
    own = [Range(start=3_100_000 + 1_000_000 * n, end=3_900_000 + 1_000_000 * n) for n in range(4)]
    foreign = [
        *(
            Range(start=10_000 * n, end=10_000 * n + 5_000) for n in range(20)
        ),  # the project's own loop, before
        *(
            Range(start=3_100_000 + 200_000 * n, end=3_250_000 + 200_000 * n, thread=2)
            for n in range(20)
        ),  # beside
        *(
            Range(start=3_300_000 + 1_000_000 * n, end=3_400_000 + 1_000_000 * n) for n in range(4)
        ),  # within
        Range(start=3_800_000, end=4_300_000, push_pop=False),
        *(
            Range(start=8_000_000 + 10_000 * n, end=8_005_000 + 10_000 * n) for n in range(3)
        ),  # after
        *(
            Range(start=3_100_000 + 10_000 * n, end=3_105_000 + 10_000 * n, pid=7) for n in range(4)
        ),  # a loader's
    ]
    (sample,) = measure(build(ranges=[start, *own, *foreign]), step="step", steps=4)
    assert (sample.pid, sample.steps, sample.nvtx_step_ms) == (100, 4, 0.8)
    assert sample.periods_ms == (1.0, 1.0)
    assert sample.complaints == ()
    assert "process 7 holds step ranges, none of them perfgate's (4)" in sample.remarks


def crossed(*, begins: int, until: int = 100) -> Timeline:
    """Ten turns of 100 each; in each a step, until another range's pop, and a range of a task that begins later."""
    start = Range(start=0, end=1, name=START_RANGE)
    steps = [Range(start=100 * n, end=100 * n + until - 1) for n in range(1, 11)]
    tasks = [Range(start=100 * n + begins, end=100 * n + 100, name="load") for n in range(1, 11)]
    return build(ranges=[start, *steps, *tasks])


def test_steps_that_pops_of_other_ranges_have_closed_are_a_complaint() -> None:
    (complaint,) = found(crossed(begins=40, until=20), steps=10).complaints
    assert complaint.startswith(
        "ranges begin where a step has ended and its turn has not (load), and 79% of the time"
    )
    assert "draw it with nvtx.start_range and nvtx.end_range" in complaint
    # A range that is open while the next step is asked for closes that at its own end: hardly anything is left out.
    assert found(crossed(begins=99), steps=10).complaints == ()
    assert found(crossed(begins=10), steps=10).complaints == ()


def test_ranges_between_steps_of_the_loops_own_are_no_complaint() -> None:
    steps = [Range(start=100 * n, end=100 * n + 19) for n in range(1, 11)]
    tasks = [Range(start=100 * n + 40, end=100 * n + 99, name="load") for n in range(1, 11)]
    assert found(build(ranges=[*steps, *tasks]), steps=10).complaints == ()


def test_what_follows_a_loop_stands_in_for_no_step_that_was_left_open() -> None:
    start = Range(start=0, end=1, name=START_RANGE)
    own = [
        Range(start=10 * n, end=10 * n + 5 if n != 2 else 99, closed=n != 2) for n in range(1, 5)
    ]
    after = [Range(start=60, end=65)]
    assert found(build(ranges=[start, *own, *after]), steps=4).starts.tolist() == [10, 30, 40]
    own_closed = [Range(start=10 * n, end=10 * n + 5) for n in range(1, 5)]
    still_open = [Range(start=70, end=99, closed=False)]
    assert len(found(build(ranges=[start, *own_closed, *after, *still_open]), steps=4)) == 4


def test_steps_of_other_processes_stand_in_for_none_of_a_marked_loop() -> None:
    foreign = [Range(start=10 * n, end=10 * n + 5, pid=7) for n in range(4)]
    with pytest.raises(StepsNotFound) as raised:
        measure(
            build(ranges=[Range(start=0, end=1, name=START_RANGE), *foreign]), step="step", steps=4
        )
    assert str(raised.value) == (
        "drawn.sqlite: no step of the loop itself is in the capture. "
        "What bears that name is another's: process 7 holds step ranges, none of them perfgate's (4)."
        "\nRun it again; if that does not help: perfgate doctor"
    )


def test_more_steps_at_once_than_declared_are_a_complaint_where_the_loop_is_not_marked() -> None:
    own = [Range(start=1_000_000 * n, end=1_000_000 * n + 900_000) for n in range(4)]
    beside = [Range(start=300_000 * n, end=300_000 * n + 200_000, thread=2) for n in range(9)]
    (sample,) = measure(build(ranges=[*own, *beside]), step="step", steps=4)
    assert sample.complaints == (too_many(13, 4),)


def test_the_ranges_that_perfgate_draws_around_its_steps_match_no_pattern() -> None:
    timeline = build(
        ranges=[Range(start=0, end=1, name=START_RANGE), Range(start=2, end=9, name="Batch 1")]
    )
    assert found(timeline, ".*", is_pattern=True).starts.tolist() == [2]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Batch 12", "Batch #"),
        ("step 3 seq 8k", "step # seq #k"),
        ("step 12 seq 16k", "step # seq #k"),
        ("step 9 last 7ms", "step # last #ms"),
        ("step 10 last 12.5ms", "step # last #ms"),
        ("ep1it5", "ep#it#"),
        ("ep100it25", "ep#it#"),
        ("step 0x6719b458", "step #"),
        ("step 0xf", "step #"),
        ("step a557e9af", "step #"),
        ("loss 1.5e-5, -2", "loss #"),
        ("v1.2.10", "v#.#.#"),
        ("resnet50 step 7", "resnet# step #"),
        ("forward, seq = 12, op_id = 7", "forward"),
        ("eval", "eval"),
    ],
)
def test_numbers_of_any_length_leave_one_kind_of_name(text: str, kind: str) -> None:
    assert kind_of(text) == kind
