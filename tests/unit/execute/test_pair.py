"""Two runs at once: their turns, what becomes of one when the other fails, and which of them is to
blame."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NoReturn

import pytest
from support import records
from support.runs import (
    ReferenceFailed,
    command,
    context_of,
    ended,
    pair_in_blocks,
    worker_report,
)

from perfgate.execute import run
from perfgate.execute.captures import OfCapture
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
BEGUN_S = 0.3
"""After which the other side has begun."""
Tick = Callable[[], None]
Side = Literal["reference", "candidate"]
SIDES: tuple[Side, Side] = ("reference", "candidate")


class Bug(Exception):
    """No failure that perfgate knows."""


@dataclass
class InPlaceOfNsys:
    """What the runs of either side are to do, in place of nsys."""

    folder: Path
    acts: dict[str, Callable[[Tick], WorkerReport]]
    """By side: what its run does, which may raise, and reports."""
    specs: dict[str, ProfileSpec] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    called_off: list[str] = field(default_factory=list)
    steps: Mapping[str, int] = field(default_factory=dict)
    """By side: the steps in its capture."""
    crashing: Side | None = None
    """The side whose nsys breaks down."""
    unreadable: Side | None = None
    """The side whose capture cannot be read."""

    def profile(self, _tool: NsysTool, spec: ProfileSpec, *, on_tick: Tick) -> ProfileOutcome:
        """Stand in for nsys."""
        folder = spec.folder.parent
        side = folder.name
        self.specs[side] = spec
        order = Order.model_validate_json((folder / "order.json").read_text())
        self.orders[side] = order
        assert order.blocks is not None
        for fifo in (order.blocks.own, order.blocks.other):
            assert stat.S_ISFIFO(Path(fifo).stat().st_mode)
        if side == self.crashing:
            time.sleep(BEGUN_S)
            return replace(ended(exit_status=None, captures=()), crashed=True)
        try:
            report = self.acts[side](on_tick)
        except BaseException as failed:
            if type(failed).__name__ == "_CalledOff":
                self.called_off.append(side)
            raise
        (folder / "worker-report.json").write_text(report.model_dump_json())
        captured = Captured(rep=spec.folder / "c.nsys-rep", sqlite=spec.folder)
        return ended(exit_status=int(report.ending is not Ending.FINISHED), captures=(captured,))

    def measure(
        self, _workload: object, _tool: object, _captured: object, raw: Path, tick: Tick
    ) -> OfCapture:
        """Stand in for reading a capture."""
        tick()
        side = raw.parent.name
        if side == self.unreadable:
            raise CaptureUnreadable("quoted", text="c.sqlite: is empty")
        process = records.process(steps=self.steps.get(side, 20))
        return OfCapture(processes=(process,), missing=None, notes=(), reports=Reports())

    def pair(
        self, workload: Workload | None = None, *, begins: Side = "reference"
    ) -> tuple[Measured, Measured]:
        """Run the pair."""
        there, here = (context_of(self.folder, {"WHO": side}) for side in SIDES)
        return pair_in_blocks(
            (there, here),
            (workload or records.workload()).model_copy(update={"steps": 20}),
            (self.folder / "reference", self.folder / "candidate"),
            candidate_begins=begins == "candidate",
            block_steps=5,
            core=3,
        )


def ends_well(_tick: Tick) -> WorkerReport:
    return worker_report(Ending.FINISHED)


def raises(_tick: Tick) -> WorkerReport:
    time.sleep(BEGUN_S)
    return worker_report(Ending.RAISED, note("raised", what="ValueError: no data"))


def is_a_bug(_tick: Tick) -> NoReturn:
    time.sleep(BEGUN_S)
    raise Bug


def goes_on(tick: Tick) -> NoReturn:
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        time.sleep(0.01)
        tick()
    raise AssertionError("it was not called off")


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InPlaceOfNsys:
    made = InPlaceOfNsys(tmp_path, {"reference": ends_well, "candidate": ends_well})
    monkeypatch.setattr(run, "profile", made.profile)
    monkeypatch.setattr(run, "measure_capture", made.measure)
    monkeypatch.setattr(run, "keep_exports", lambda *_: None)
    return made


@pytest.mark.parametrize("begins", SIDES)
def test_each_side_is_ordered_to_take_blocks_of_the_same_steps(
    sides: InPlaceOfNsys, begins: Side
) -> None:
    sides.steps = {"candidate": 19}
    workload = records.workload(steps=4).model_copy(update={"timeout_s": 50.0})
    reference, candidate = sides.pair(workload, begins=begins)
    for own, other in (SIDES, SIDES[::-1]):
        assert (sides.orders[own].steps, sides.orders[own].warmup) == (20, 10)
        assert sides.specs[own].env["WHO"] == own
        assert sides.orders[own].blocks == Blocks(
            begins=own == begins,
            own=str(sides.folder / own / "turn"),
            other=str(sides.folder / other / "turn"),
            steps=5,
            core=3,
            patience_s=50.0,
        )
        kept = sorted(path.name for path in (sides.folder / own).iterdir())
        assert kept == ["order.json", "worker-report.json"]
    # Or each were a neighbour to the other.
    assert len({spec.env[RUN_COOKIE].split(":")[0] for spec in sides.specs.values()}) == 1
    assert (reference.run.folder, candidate.run.folder) == SIDES
    assert candidate.run.conditions == Conditions()
    assert (reference.run.invalid, reference.run.notes) == ((), ())
    (lost,) = candidate.run.invalid
    assert (lost.fields["found"], lost.fields["steps"]) == (19, 20)


def test_a_command_cannot_take_turns(sides: InPlaceOfNsys) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        sides.pair(command("python", "train.py"))
    assert refused.value.code == "command-in-blocks"
    assert list(sides.folder.iterdir()) == []


def fails(sides: InPlaceOfNsys, side: Side, how: str) -> None:
    """Let a side fail."""
    match how:
        case "raises":
            sides.acts = {"reference": goes_on, "candidate": goes_on, side: raises}
        case "nsys breaks down":
            sides.acts = {"reference": goes_on, "candidate": goes_on}
            sides.crashing = side
        case "its capture cannot be read":
            sides.unreadable = side
        case _:
            (sides.folder / side).mkdir()


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("how", "kind", "code"),
    [
        ("raises", WorkloadFailed, "raised"),
        ("nsys breaks down", NsysCrashed, "nsys-wrote-nothing"),
        ("its capture cannot be read", CaptureUnreadable, "quoted"),
        ("its folder is there", StoreFailed, "run-folder-not-written"),
    ],
)
def test_the_side_that_fails_is_named_and_calls_the_other_off(
    sides: InPlaceOfNsys, side: Side, how: str, kind: type[PerfgateError], code: str
) -> None:
    fails(sides, side, how)
    with pytest.raises((PerfgateError, ReferenceFailed)) as caught:
        sides.pair()
    is_reference = isinstance(caught.value, ReferenceFailed)
    # Nobody's workload is to blame for nsys.
    assert is_reference == (side == "reference" and kind is not NsysCrashed)
    error = caught.value.error if isinstance(caught.value, ReferenceFailed) else caught.value
    assert isinstance(error, kind)
    why = error.fields.get("why")
    assert (why.code if isinstance(why, Note) else error.code) == code
    went_on = goes_on in sides.acts.values()
    assert sides.called_off == [other for other in SIDES if other != side and went_on]
    assert not list(sides.folder.rglob("turn"))
    assert (kind is StoreFailed) == (sides.specs == {})


@pytest.mark.parametrize("side", SIDES)
def test_a_bug_stays_one_and_ends_the_other_side(sides: InPlaceOfNsys, side: Side) -> None:
    sides.acts = {"reference": goes_on, "candidate": goes_on, side: is_a_bug}
    with pytest.raises(Bug):
        sides.pair()
    assert sides.called_off == [other for other in SIDES if other != side]
