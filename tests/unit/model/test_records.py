"""Records: frozen, closed and finite; what a run, a baseline and a workload say of themselves."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError
from support import records

from perfgate.model.baseline import Baseline, Result
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, note, quoted
from perfgate.model.outcome import OnInconclusive, OnNew, Outcome
from perfgate.model.sample import NO_NCCL, Run, why_absent
from perfgate.model.settings import Settings
from perfgate.model.verdict import MetricVerdict
from perfgate.model.workload import CaptureMode, CaptureWindow, Workload

# Any record


def test_a_record_cannot_be_changed() -> None:
    settings = Settings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.runs = 5  # type: ignore[misc]


def test_a_record_refuses_a_key_that_it_does_not_know() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Settings.model_validate({"runz": 3})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_record_refuses_numbers_that_are_none(value: float) -> None:
    with pytest.raises(ValidationError, match="finite number"):
        MetricVerdict(metric=Metric.STEP_MS, outcome=None, now=value)
    with pytest.raises(ValidationError, match="finite number"):
        records.process({Metric.STEP_MS: value}, ranges=())


@pytest.mark.parametrize("kept", [records.baseline(), records.result()])
def test_a_record_of_file_is_the_same_after_a_way_through_json(kept: Baseline | Result) -> None:
    assert type(kept).model_validate_json(kept.model_dump_json()) == kept


@pytest.mark.parametrize("kept", [records.baseline(), records.result()])
def test_a_record_of_file_of_a_newer_format_is_refused(kept: Baseline | Result) -> None:
    newer = {**json.loads(kept.model_dump_json()), "format": 3}
    with pytest.raises(ValidationError, match="Input should be 2"):
        type(kept).model_validate(newer)


# Runs


def two_ranks(first: float | None, second: float | None) -> Run:
    values = [{} if value is None else {Metric.STEP_MS: value} for value in (first, second)]
    return records.run(
        processes=[
            records.process(
                held, pid=pid, ranges=(), absent={} if held else {Metric.STEP_MS: f"lost by {pid}"}
            )
            for pid, held in enumerate(values)
        ]
    )


@pytest.mark.parametrize("metric", [Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS])
def test_a_process_without_nccl_kernels_does_not_say_how_long_the_others_wait(
    metric: Metric,
) -> None:
    both = (Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS)
    waiting = [
        records.process(dict.fromkeys(both, ms), pid=pid) for pid, ms in enumerate((9.0, 4.0))
    ]
    # In the capture of all ranks it measures none; in one of its own it notes that there are
    # none.
    without = records.process(dict.fromkeys(both, 0.0), pid=2)
    alone = records.process(pid=3, absent=dict.fromkeys(both, NO_NCCL))
    assert records.run(processes=[*waiting, without, alone]).value(metric) == 4.0
    assert records.run(processes=[without, without]).value(metric) == 0
    assert records.run(processes=[alone, alone]).value(metric) is None
    unknown = records.process(
        pid=4, absent=dict.fromkeys(both, "the capture holds no GPU operations")
    )
    assert records.run(processes=[*waiting, unknown]).value(metric) is None


def test_a_run_is_as_slow_as_its_slowest_process_and_what_one_lacks_is_not_measured() -> None:
    assert two_ranks(10.0, 12.5).value(Metric.STEP_MS) == 12.5
    run = two_ranks(10.0, None)
    assert run.value(Metric.STEP_MS) is None
    assert run.measured() == {}
    assert why_absent([run], Metric.STEP_MS) == quoted("lost by 1")
    assert why_absent([run], Metric.GAP_MS) is None


def test_texts_of_before_there_were_codes_are_read_as_notes() -> None:
    new = records.process({})
    old = new.model_dump(mode="json", exclude={"notes"}) | {
        "absent": {"step_ms": "lost"},
        "complaints": ["first-time work"],
        "remarks": ["it runs ahead"],
    }
    read = type(new).model_validate(old)
    assert read.absent == {Metric.STEP_MS: quoted("lost")}
    assert read.notes == (quoted("first-time work", Severity.INVALID), quoted("it runs ahead"))


def test_notes_of_every_kind_of_field_are_read_as_they_were_written() -> None:
    made = note(
        "x",
        Severity.WARN,
        causes=(note("z"),),
        of=note("y"),
        text="a",
        count=3,
        ms=0.5,
        names=("a", "b"),
        is_so=True,
    )
    assert Note.model_validate_json(made.model_dump_json()) == made


def test_zero_is_a_measurement() -> None:
    assert records.run({Metric.SYNCS: 0}).value(Metric.SYNCS) == 0
    assert records.run({Metric.SYNCS: 0}).counts()[Metric.SYNCS] == 0


# Baselines


def test_a_baselines_values_are_those_of_all_occasions_in_order() -> None:
    baseline = records.baseline(
        [{Metric.STEP_MS: 3.0}, {Metric.STEP_MS: 1.0}], [{Metric.STEP_MS: 2.0}]
    )
    assert baseline.values(Metric.STEP_MS) == (3.0, 1.0, 2.0)
    assert records.baseline([{}, {Metric.NCCL_MS: 1.0}]).values(Metric.NCCL_MS) == ()


# Outcomes


@pytest.mark.parametrize(
    ("outcome", "opened_by"),
    [
        (Outcome.PASSED, "anyone"),
        (Outcome.IMPROVED, "anyone"),
        (Outcome.INCONCLUSIVE, "warn"),
        (Outcome.NO_BASELINE, "allow"),
        (Outcome.REGRESSED, "nobody"),
        (Outcome.INCOMPARABLE, "nobody"),
        (Outcome.INVALID, "nobody"),
        (Outcome.NOT_MEASURED, "nobody"),
    ],
)
def test_an_outcome_opens_the_gate_by_policy(outcome: Outcome, opened_by: str) -> None:
    opening = {
        (on_inconclusive, on_new)
        for on_inconclusive in OnInconclusive
        for on_new in OnNew
        if Settings(inconclusive=on_inconclusive, new=on_new).lets_pass(outcome)
    }
    everyone = {(on_inconclusive, on_new) for on_inconclusive in OnInconclusive for on_new in OnNew}
    assert opening == {pair for pair in everyone if opened_by == "anyone" or opened_by in pair}
    assert Settings().lets_pass(outcome) is (opened_by == "anyone")


# Workloads


def test_what_must_agree_is_reported_as_text_sorted_by_name() -> None:
    workload = Workload(
        id="train",
        source="workloads/train.yaml",
        command=("python", "train.py", "--name", "ü x"),
        steps=30,
        warmup=5,
        step="Batch \\d+",
        capture=CaptureWindow(delay=10, duration=2.5),
        parameters={"b": "2", "a": "1"},
        env={"OMP_NUM_THREADS": "4"},
    )
    assert list(workload.comparable_parameters().items()) == [
        ("capture", "delay 10 s, duration 2.5 s"),
        ("command", '["python", "train.py", "--name", "\\u00fc x"]'),
        ("env OMP_NUM_THREADS", "4"),
        ("parameter a", "1"),
        ("parameter b", "2"),
        ("step", "Batch \\d+"),
        ("steps", "30"),
        ("warmup", "5"),
    ]


def test_the_digest_does_not_change_from_version_to_version() -> None:
    """A changed digest would make every baseline INCOMPARABLE."""
    assert records.workload().digest() == "3a4d5b133459f69b"


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 31},
        {"warmup": 11},
        {"step": "other"},
        {"parameters": {"a": "1"}},
        {"env": {"A": "1"}},
        {"capture": CaptureMode.ALL},
        {"command": ("python", "train.py")},
    ],
)
def test_the_digest_changes_with_what_must_agree(change: dict[str, object]) -> None:
    assert records.workload().model_copy(update=change).digest() != records.workload().digest()


@pytest.mark.parametrize(
    "change",
    [
        {"id": "other"},
        {"source": "workloads/other.py"},
        {"line": 7},
        {"nodeid": "workloads/other.py::mlp"},
        {"timeout_s": 5.0},
        {"budgets": {Metric.STEP_MS: 0.1}},
        {"pass_env": ("TOKEN",)},
        {"cwd": "examples"},
    ],
)
def test_the_digest_leaves_out_what_changes_no_measurement(change: dict[str, object]) -> None:
    assert records.workload().model_copy(update=change).digest() == records.workload().digest()
