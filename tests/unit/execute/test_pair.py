"""Two runs at once: their turns, what becomes of one when the other fails, and which of them is to
blame."""

from __future__ import annotations

import signal
import stat
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

import pytest
from support import records
from support.runs import bench_of, command, ended, worker_report

from perfgate.execute import run
from perfgate.execute.captures import OfCapture
from perfgate.execute.pair import ReferenceFailed, Side, measure_pair
from perfgate.execute.run import Measured
from perfgate.model.errors import (
    CaptureUnreadable,
    ConfigInvalid,
    NsysCrashed,
    PerfgateError,
    StoreFailed,
    WorkloadFailed,
)
from perfgate.model.machine import Conditions
from perfgate.model.note import Note, note
from perfgate.model.order import RUN_COOKIE, Blocks, Ending, Order, WorkerReport
from perfgate.model.reports import Reports
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import Captured, ProfileOutcome, ProfileSpec

SOON_S = 10.0
Tick = Callable[[], None]


def finished(**more: object) -> WorkerReport:
    return WorkerReport.model_validate({"ending": Ending.FINISHED, "pid": 7, **more})


@dataclass
class Stand:
    """Two benches, and in place of nsys what the runs of either side are to do."""

    folder: Path
    acts: dict[str, Callable[[Tick], WorkerReport | None]]
    """By side: what its run does, which may raise, and tells of itself."""
    specs: dict[str, ProfileSpec] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    called_off: list[str] = field(default_factory=list)
    ran_in: dict[str, str] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    """By side: the steps in its capture."""
    crashing: tuple[Side, ...] = ()
    """The sides whose nsys breaks down."""
    unreadable: Side | None = None
    """The side whose capture cannot be read."""

    def profile(
        self,
        _tool: NsysTool,
        spec: ProfileSpec,
        *,
        on_tick: Tick | None = None,
    ) -> ProfileOutcome:
        """Stand in for nsys."""
        side = spec.folder.parent.name
        assert on_tick is not None
        self.specs[side] = spec
        self.ran_in[side] = threading.current_thread().name
        self.orders[side] = Order.model_validate_json(
            (spec.folder.parent / "order.json").read_text()
        )
        for fifo in self.fifos(side):
            assert stat.S_ISFIFO(fifo.stat().st_mode)
        if side in self.crashing:
            return replace(ended(exit_status=None, captures=()), crashed=True)
        try:
            told = self.acts[side](on_tick)
        except BaseException as failed:
            if type(failed).__name__ == "_CalledOff":
                self.called_off.append(side)
            raise
        if told is not None:
            (spec.folder.parent / "worker-report.json").write_text(told.model_dump_json())
        status = 0 if told is not None and told.ending is Ending.FINISHED else 1
        return ended(
            exit_status=status,
            captures=(Captured(rep=spec.folder / "c.nsys-rep", sqlite=spec.folder),),
        )

    def fifos(self, side: str) -> tuple[Path, ...]:
        """The two of a side's order."""
        blocks = self.orders[side].blocks
        assert blocks is not None
        return Path(blocks.own), Path(blocks.other)

    def pair(
        self,
        workload: Workload | None = None,
        *,
        begins: Side = "reference",
    ) -> tuple[Measured, Measured]:
        """Run the pair."""
        return measure_pair(
            bench_of(self.folder, WHO="reference"),
            bench_of(self.folder, WHO="candidate"),
            workload or records.workload(),
            (self.folder / "reference", self.folder / "candidate"),
            begins=begins,
            block_steps=5,
            steps=20,
            core=3,
        )


def ends_well(_tick: Tick) -> WorkerReport:
    return finished(core=3)


def raises(_tick: Tick) -> WorkerReport:
    return worker_report(Ending.RAISED, note("raised", what="ValueError: no data"))


def is_abandoned(_tick: Tick) -> WorkerReport:
    return worker_report(Ending.ABANDONED, note("other-side-ended"))


def goes_on(tick: Tick) -> NoReturn:
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        time.sleep(0.01)
        tick()
    raise AssertionError("it was not called off")


def after(seconds: float, then: Callable[[Tick], WorkerReport]) -> Callable[[Tick], WorkerReport]:
    def act(tick: Tick) -> WorkerReport:
        time.sleep(seconds)
        return then(tick)

    return act


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    made = Stand(tmp_path, {"reference": ends_well, "candidate": ends_well})

    def measured(
        _workload: object, _tool: object, _captured: object, raw: Path, tick: Tick
    ) -> OfCapture:
        tick()
        if raw.parent.name == made.unreadable:
            raise CaptureUnreadable(
                subject="c.sqlite", fact="is empty", next_step="Capture it again."
            )
        process = records.process(steps=made.steps.get(raw.parent.name, 20))
        return OfCapture(processes=(process,), missing=None, complaints=(), reports=Reports())

    monkeypatch.setattr(run, "profile", made.profile)
    monkeypatch.setattr(run, "measure_capture", measured)
    monkeypatch.setattr(run, "keep_exports", lambda *_: None)
    return made


def test_each_side_of_a_pair_is_ordered_to_wait_for_the_other(stand: Stand) -> None:
    stand.pair()
    reference, candidate = (
        str(stand.folder / side / "turn") for side in ("reference", "candidate")
    )
    common = {"steps": 5, "core": 3, "patience_s": 600.0}
    assert stand.orders["reference"].blocks == Blocks(
        begins=True, own=reference, other=candidate, **common
    )
    assert stand.orders["candidate"].blocks == Blocks(
        begins=False, own=candidate, other=reference, **common
    )


def test_the_side_that_begins_is_the_one_that_was_named(stand: Stand) -> None:
    stand.pair(begins="candidate")
    begins = {
        side: order.blocks is not None and order.blocks.begins
        for side, order in stand.orders.items()
    }
    assert begins == {"reference": False, "candidate": True}


def test_a_pair_takes_the_steps_it_is_told_and_twice_the_time(stand: Stand) -> None:
    stand.steps = {"candidate": 19}
    reference, candidate = stand.pair(
        records.workload(steps=4).model_copy(update={"timeout_s": 50.0})
    )
    assert [(order.steps, order.warmup) for order in stand.orders.values()] == [(20, 10)] * 2
    assert {spec.timeout_s for spec in stand.specs.values()} == {100.0}
    assert {
        order.blocks.patience_s for order in stand.orders.values() if order.blocks is not None
    } == {50.0}
    assert reference.run.invalid == ()
    (lost,) = candidate.run.invalid
    assert (lost.fields["found"], lost.fields["steps"]) == (19, 20)


def test_the_sides_of_a_pair_are_no_neighbours_to_each_other(stand: Stand) -> None:
    stand.pair()
    ids = [spec.env[RUN_COOKIE] for spec in stand.specs.values()]
    assert len(ids) == 2
    assert len(set(ids)) == 1
    assert {side: spec.env["WHO"] for side, spec in stand.specs.items()} == {
        "reference": "reference",
        "candidate": "candidate",
    }


def test_a_pair_is_measured_each_in_its_own_folder_and_leaves_no_fifo(stand: Stand) -> None:
    reference, candidate = stand.pair()
    assert (reference.run.folder, candidate.run.folder) == ("reference", "candidate")
    assert reference.worker_report == candidate.worker_report == finished(core=3)
    assert candidate.run.conditions == Conditions()
    for side in ("reference", "candidate"):
        assert sorted(path.name for path in (stand.folder / side).iterdir()) == [
            "order.json",
            "worker-report.json",
        ]


@pytest.mark.parametrize(("core", "codes"), [(3, []), (None, ["core-left"])])
def test_a_process_that_left_its_core_is_remarked_upon(
    stand: Stand, core: int | None, codes: list[str]
) -> None:
    stand.acts["candidate"] = lambda _: finished(core=core)
    reference, candidate = stand.pair()
    assert [one.code for one in reference.run.notes] == []
    assert [one.code for one in candidate.run.notes] == codes


def test_a_command_cannot_take_turns(stand: Stand) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        stand.pair(command("python", "train.py"))
    assert refused.value.code == "command-in-blocks"
    assert list(stand.folder.iterdir()) == []


def why_of(error: PerfgateError | ReferenceFailed) -> str:
    """The code of what went wrong, on whichever side."""
    failed = error.error if isinstance(error, ReferenceFailed) else error
    why = failed.fields.get("why")
    return why.code if isinstance(why, Note) else failed.code


def failed_by(stand: Stand) -> PerfgateError | ReferenceFailed:
    began = time.monotonic()
    with pytest.raises((PerfgateError, ReferenceFailed)) as caught:
        stand.pair()
    assert time.monotonic() - began < SOON_S / 2
    assert not list(stand.folder.rglob("turn"))
    assert isinstance(caught.value, PerfgateError | ReferenceFailed)
    return caught.value


def test_a_candidate_that_fails_calls_the_reference_off(stand: Stand) -> None:
    stand.acts = {"reference": goes_on, "candidate": raises}
    error = failed_by(stand)
    assert isinstance(error, WorkloadFailed)
    assert str(error).startswith("mlp: it raised ValueError: no data.\n")
    assert stand.called_off == ["reference"]


def test_a_reference_that_fails_calls_the_candidate_off_and_is_told_from_it(stand: Stand) -> None:
    stand.acts = {"reference": raises, "candidate": goes_on}
    error = failed_by(stand)
    assert isinstance(error, ReferenceFailed)
    assert isinstance(error.error, WorkloadFailed)
    assert error.__cause__ is error.error
    assert str(error) == str(error.error)
    assert str(error).startswith("mlp: it raised ValueError: no data.\n")
    assert stand.called_off == ["candidate"]


def test_a_side_that_was_left_alone_waits_for_the_reason(stand: Stand) -> None:
    stand.acts = {"reference": after(0.3, raises), "candidate": is_abandoned}
    assert str(failed_by(stand)).startswith("mlp: it raised ValueError: no data.\n")
    for path in ("reference", "candidate"):
        (stand.folder / path).rename(stand.folder / f"{path}-before")
    stand.acts = {"reference": is_abandoned, "candidate": after(0.3, raises)}
    assert isinstance(failed_by(stand), WorkloadFailed)
    assert stand.called_off == []


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_side_whose_nsys_breaks_down_is_not_blamed_for_it(stand: Stand, side: Side) -> None:
    stand.acts = {"reference": goes_on, "candidate": goes_on}
    stand.crashing = (side,)
    assert isinstance(failed_by(stand), NsysCrashed)
    assert stand.called_off == ["candidate" if side == "reference" else "reference"]


@pytest.mark.parametrize(
    ("reference", "blamed"), [(is_abandoned, WorkloadFailed), (ends_well, WorkloadFailed)]
)
def test_a_candidate_that_was_left_alone_without_a_reason_says_so(
    stand: Stand, reference: Callable[[Tick], WorkerReport], blamed: type
) -> None:
    stand.acts = {"reference": reference, "candidate": is_abandoned}
    error = failed_by(stand)
    assert isinstance(error, blamed)
    assert why_of(error) == "other-side-ended"


def test_a_reference_that_was_left_alone_without_a_reason_says_so(stand: Stand) -> None:
    stand.acts = {"reference": is_abandoned, "candidate": ends_well}
    error = failed_by(stand)
    assert isinstance(error, ReferenceFailed)
    assert why_of(error) == "other-side-ended"


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_capture_that_cannot_be_read_is_told_by_its_side(stand: Stand, side: Side) -> None:
    stand.unreadable = side
    error = failed_by(stand)
    assert isinstance(error, ReferenceFailed if side == "reference" else CaptureUnreadable)
    assert str(error) == "c.sqlite: is empty.\nCapture it again."


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_folder_that_cannot_be_made_is_told_by_its_side(stand: Stand, side: Side) -> None:
    (stand.folder / side).mkdir()
    error = failed_by(stand)
    assert isinstance(error, ReferenceFailed if side == "reference" else StoreFailed)
    assert why_of(error) == "run-folder-not-written"
    assert stand.specs == {}


class Bug(Exception):
    """No failure that perfgate knows."""


def is_a_bug(_tick: Tick) -> NoReturn:
    raise Bug


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_bug_stays_one_and_ends_the_other_side(stand: Stand, side: Side) -> None:
    stand.acts = {"reference": goes_on, "candidate": goes_on, side: is_a_bug}
    with pytest.raises(Bug):
        stand.pair()
    assert len(stand.called_off) == 1
    assert side not in stand.called_off


def ctrl_c() -> None:
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


def test_ctrl_c_on_the_candidate_calls_the_reference_off(stand: Stand) -> None:
    def interrupted(tick: Tick) -> NoReturn:
        ctrl_c()
        goes_on(tick)

    stand.acts = {"reference": goes_on, "candidate": interrupted}
    with pytest.raises(KeyboardInterrupt):
        stand.pair()
    assert stand.called_off == ["reference"]
    assert stand.ran_in["candidate"] == threading.main_thread().name
    assert stand.ran_in["reference"].startswith("perfgate-reference")
    assert not list(stand.folder.rglob("turn"))


def test_ctrl_c_while_only_the_reference_still_runs_calls_it_off(stand: Stand) -> None:
    def interrupts(tick: Tick) -> NoReturn:
        worker_report = stand.folder / "candidate" / "worker-report.json"
        while not worker_report.exists() or not worker_report.read_text().endswith("}"):
            time.sleep(0.01)
        time.sleep(0.2)  # the candidate's thread has ended then, but for what a stand-in does
        ctrl_c()
        goes_on(tick)

    stand.acts["reference"] = interrupts
    with pytest.raises(KeyboardInterrupt):
        stand.pair()
    assert stand.called_off == ["reference"]
