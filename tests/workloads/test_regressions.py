"""The planted regressions without a GPU: their table, what each does that a CPU can do as well, and
when they are gated.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import pytest
from support.loops import WORKLOADS, load_regressions
from support.project import Project

from perfgate.model.metric import METRICS, Metric
from perfgate.workload import declaration_of

LOOP_OF = {
    "item": "eager",
    "cpu": "eager",
    "print": "eager",
    "pageable": "eager",
    "blocking_copy": "eager",
    "no_workers": "eager",
    "synchronize": "eager",
    "empty_cache": "eager",
    "unfused_optimizer": "eager",
    "host_augmentation": "eager",
    "sleep_1": "eager",
    "sleep_2": "eager",
    "sleep_3": "eager",
    "fp32_matmul": "mixed",
    "channels_last": "mixed",
    "recompiles": "compiled",
    "graph_break": "compiled",
    "bucket_copies": "ddp",
}
LOOPS = sorted(set(LOOP_OF.values()))
ON_GPU_ONLY = [
    "pageable",
    "blocking_copy",
    "synchronize",
    "empty_cache",
    "sleep_1",
    "sleep_2",
    "sleep_3",
]
TURNS = 12
"""More than torch.compile compiles one function for (`recompile_limit`, 8)."""

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="no torch here: it is in the extra torch"
)
# What the loops do about this, they do by marks, which count for a loop that pytest runs.
pytestmark = [
    needs_torch,
    pytest.mark.filterwarnings(
        "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
    ),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


class Turns(Sequence[int]):
    """The `steps` of a loop in this process: as many turns, and what is seen at the end of each."""

    def __init__(self, look: Callable[[], object] = lambda: None) -> None:
        self.seen: list[object] = []
        self._look = look

    def __len__(self) -> int:
        return TURNS

    def __getitem__(self, index: int) -> int:  # type: ignore[override]
        return range(TURNS)[index]

    def __iter__(self) -> Iterator[int]:
        for turn in range(TURNS):
            yield turn
            self.seen.append(self._look())


@pytest.fixture(scope="module")
def loaded() -> Iterator[ModuleType]:
    """The loops, on the CPU though there be a GPU, so that what is tested here is the same
    everywhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.import_module("torch.cuda"), "is_available", lambda: False)
        yield load_regressions("regressions_of_tests", patch)


@pytest.fixture
def play(loaded: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Turns]:
    """Run a loop here, clean or with a regression planted, from the start of torch.compile's
    memory.
    """

    def run(
        loop: str, regression: str = "none", look: Callable[[], object] = lambda: None
    ) -> Turns:
        import torch

        torch.compiler.reset()
        torch._dynamo.utils.counters.clear()
        monkeypatch.setattr(loaded, "REGRESSION", regression)
        turns = Turns(look)
        getattr(loaded, loop)(turns)
        assert len(turns.seen) == TURNS
        return turns

    return run


@pytest.fixture
def operations(play: Callable[..., Turns]) -> Callable[..., Counter[str]]:
    """What torch did in one late turn of a loop, by the operation's name."""

    def count(loop: str, regression: str = "none") -> Counter[str]:
        from torch.utils._python_dispatch import TorchDispatchMode

        done: Counter[str] = Counter()

        class Counting(TorchDispatchMode):  # type: ignore[misc, no-untyped-call, unused-ignore]
            def __torch_dispatch__(
                self,
                func: Callable[..., object],
                types: object,
                args: tuple[object, ...] = (),
                kwargs: Mapping[str, object] | None = None,
            ) -> object:
                done[str(func)] += 1
                return func(*args, **(kwargs or {}))

        with Counting():  # type: ignore[no-untyped-call]
            turns = play(loop, regression, look=lambda: Counter(done))
        *_, before, after = turns.seen
        assert isinstance(before, Counter)
        assert isinstance(after, Counter)
        return after - before

    return count


# The table


def test_the_table_has_every_regression_in_its_loop(loaded: ModuleType) -> None:
    assert {name: regression.workload for name, regression in loaded.REGRESSIONS.items()} == LOOP_OF
    assert [regression.name for regression in loaded.REGRESSIONS.values()] == list(
        loaded.REGRESSIONS
    )


def test_the_loops_of_the_table_are_the_workloads_of_the_file(loaded: ModuleType) -> None:
    declared = {name for name, held in vars(loaded).items() if declaration_of(held) is not None}
    assert sorted(declared) == LOOPS


def test_each_regression_is_caught_by_metrics_that_can_shut_the_gate(loaded: ModuleType) -> None:
    for regression in loaded.REGRESSIONS.values():
        named = [Metric(metric) for metric in (*regression.caught_by, *regression.may_follow)]
        assert regression.caught_by
        assert len(set(named)) == len(named), regression.name
        assert all(METRICS[metric].gated for metric in named), regression.name
        assert regression.does


# The environment


def test_no_name_and_none_are_the_clean_loop(loaded: ModuleType) -> None:
    assert [loaded.chosen_regression(""), loaded.chosen_regression("none"), loaded.REGRESSION] == [
        "none"
    ] * 3


def test_an_unknown_regression_is_an_error_that_names_the_known(loaded: ModuleType) -> None:
    with pytest.raises(ValueError, match="REGRESSION is 'itme', expected one of: ") as raised:
        loaded.chosen_regression("itme")
    assert str(raised.value).split(": ", 1)[1] == f"{', '.join(['none', *loaded.REGRESSIONS])}."


@pytest.mark.parametrize(
    ("regression", "found", "cycles"),
    [("none", None, 100), ("item", "9", 100), ("sleep_2", "9", 9)],
)
def test_only_a_planted_sleep_lasts_longer(
    loaded: ModuleType, regression: str, found: str | None, cycles: int
) -> None:
    assert loaded.sleep_cycles(regression, found) == cycles


@pytest.mark.parametrize("found", [None, "", "0", "-5", "1e5", "many"])
def test_a_sleep_of_no_known_length_is_an_error(loaded: ModuleType, found: str | None) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011  (its whole text is below)
        loaded.sleep_cycles("sleep_2", found)
    assert str(raised.value) == (
        f"REGRESSION_CYCLES is {found!r}, expected the clock cycles of REGRESSION=sleep_2: "
        "2 % of the blessed step_ms, times the SM clock in cycles per ms."
    )


# What the regressions do


@pytest.mark.parametrize("loop", LOOPS)
def test_a_clean_loop_does_the_same_in_every_turn(
    operations: Callable[..., Counter[str]], loop: str
) -> None:
    assert operations(loop) == operations(loop)


@pytest.mark.parametrize("regression", ON_GPU_ONLY)
def test_a_regression_that_is_nothing_without_cuda_skips_its_loop_and_no_other(
    loaded: ModuleType, play: Callable[..., Turns], regression: str
) -> None:
    with pytest.raises(pytest.skip.Exception, match=f"^the regression {regression} needs CUDA$"):
        play(LOOP_OF[regression], regression)
    play("ddp", regression)


@pytest.mark.parametrize("regression", [name for name in LOOP_OF if name not in ON_GPU_ONLY])
def test_a_loop_stays_clean_with_the_regression_of_another(
    operations: Callable[..., Counter[str]], regression: str
) -> None:
    other = "mixed" if LOOP_OF[regression] == "ddp" else "ddp"
    assert operations(other, regression) == operations(other)


def test_item_reads_one_number_a_step(operations: Callable[..., Counter[str]]) -> None:
    assert operations("eager", "item") - operations("eager") == {
        "aten._local_scalar_dense.default": 1
    }


def test_cpu_takes_the_outputs_to_the_host_each_step(
    play: Callable[..., Turns], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    taken: list[torch.Size] = []
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: taken.append(tensor.shape))
    play("eager", "cpu")
    assert taken == [(4, 10)] * TURNS


def test_print_prints_the_loss_each_step(
    play: Callable[..., Turns], capsys: pytest.CaptureFixture[str]
) -> None:
    play("eager", "print")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == TURNS
    assert all(line.startswith("tensor(") for line in lines)


def test_without_workers_the_training_process_decodes(play: Callable[..., Turns]) -> None:
    def workers() -> int:
        return len(multiprocessing.active_children())

    assert set(play("eager", look=workers).seen) == {1}
    assert set(play("eager", "no_workers", look=workers).seen) == {0}


def test_an_unfused_optimizer_takes_one_parameter_after_the_other(
    play: Callable[..., Turns], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    made: list[dict[str, object]] = []
    adam: Callable[..., torch.optim.Optimizer] = torch.optim.Adam

    def noted(parameters: object, **options: object) -> torch.optim.Optimizer:
        made.append(options)
        return adam(parameters, **options)

    monkeypatch.setattr(torch.optim, "Adam", noted)
    play("eager")
    play("eager", "unfused_optimizer")
    # Fused where there is a GPU.
    assert made == [{"fused": False}, {"foreach": False, "fused": False}]


def test_host_augmentation_flips_and_normalises_in_the_loader(
    operations: Callable[..., Counter[str]],
) -> None:
    clean, slipped = operations("eager"), operations("eager", "host_augmentation")
    assert clean["aten.flip.default"] == 1
    assert slipped["aten.flip.default"] == 0
    assert clean["aten.convolution.default"] == slipped["aten.convolution.default"]


def test_a_product_in_float32_saves_casts_so_that_no_count_hides_its_time(
    operations: Callable[..., Counter[str]],
) -> None:
    clean, slipped = operations("mixed"), operations("mixed", "fp32_matmul")
    assert clean - slipped == {"aten._to_copy.default": 2}
    assert slipped - clean == {}


def test_broken_channels_last_copies_in_each_block(operations: Callable[..., Counter[str]]) -> None:
    # Two blocks; a GPU's convolutions copy back as well.
    assert operations("mixed", "channels_last") - operations("mixed") == {"aten.clone.default": 2}


def test_another_shape_each_step_is_compiled_up_to_the_limit(play: Callable[..., Turns]) -> None:
    import torch

    def graphs() -> int:
        return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])

    assert set(play("compiled", look=graphs).seen) == {1}
    limit = torch._dynamo.config.recompile_limit
    assert play("compiled", "recompiles", look=graphs).seen == [
        min(turn + 1, limit) for turn in range(TURNS)
    ]


def test_a_graph_break_makes_two_graphs_of_one(play: Callable[..., Turns]) -> None:
    import torch

    def graphs() -> tuple[int, int]:
        counters = torch._dynamo.utils.counters
        return int(counters["stats"]["unique_graphs"]), sum(counters["graph_break"].values())

    assert play("compiled", look=graphs).seen[-1] == (1, 0)
    assert play("compiled", "graph_break", look=graphs).seen[-1] == (2, 1)


def test_each_gradient_is_copied_out_of_its_bucket(operations: Callable[..., Counter[str]]) -> None:
    assert operations("ddp", "bucket_copies") - operations("ddp") == {"aten.copy_.default": 2}


def test_no_hundredth_iteration_is_measured_in_which_the_reducer_waits(loaded: ModuleType) -> None:
    declared = declaration_of(loaded.ddp)
    assert declared is not None
    assert declared.steps is not None
    assert not [
        turn
        for turn in range(declared.warmup, declared.warmup + declared.steps + 1)
        if turn % 100 == 0
    ]


# The gate


@pytest.fixture
def with_regressions(project: Project, loaded: ModuleType) -> Project:
    """A project with the regressions next to another workload, and no regression chosen.

    Its gates run in this process, which `loaded` has given torch: what they import first is
    forgotten after them.
    """
    for name in ("regressions.py", "conftest.py"):
        shutil.copy(WORKLOADS / name, project.root / "workloads")
    project.workload(file="others.py")
    for name in ("REGRESSION", "REGRESSION_CYCLES"):
        project.patch.delenv(name, raising=False)
    return project


def test_a_gate_with_a_regression_chosen_takes_them_in(with_regressions: Project) -> None:
    with_regressions.patch.setenv("REGRESSION", "none")
    seen = with_regressions.gate("--collect-only", "-q")
    assert [loop for loop in LOOPS if f"workloads/regressions.py::{loop}" in seen.out] == LOOPS


def gated(project: Project, *nodes: str) -> dict[str, Any]:
    """One run of each workload through the gate; the workloads of its document, by id."""
    project.gate(*nodes, "--perfgate-runs=1", "--perfgate-json=out.json")
    found = json.loads((project.root / "out.json").read_text(encoding="utf-8"))
    return {one["verdict"]["workload"]: one for one in found["workloads"]}


def measured_steps(project: Project, loop: str) -> int:
    """Steps of the only process of the only run that was kept last; a busy machine may have made it
    INVALID."""
    kept = project.store.results.latest(loop)
    assert kept is not None
    ((process,),) = (run.processes for run in kept.result.runs)
    assert "forward" in [drawn.name for drawn in process.ranges]
    return process.steps


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_every_clean_loop_is_measured_step_by_step(with_regressions: Project) -> None:
    assert sorted(gated(with_regressions, "workloads/regressions.py")) == LOOPS
    assert [measured_steps(with_regressions, loop) for loop in LOOPS] == [30] * 4


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_a_regression_is_measured_in_its_loop_and_one_that_needs_cuda_is_not(
    with_regressions: Project,
) -> None:
    with_regressions.patch.setenv("REGRESSION", "item")
    gated(with_regressions, "workloads/regressions.py::eager")
    assert measured_steps(with_regressions, "eager") == 30
    with_regressions.patch.setenv("REGRESSION", "pageable")
    skipped = gated(with_regressions, "workloads/regressions.py::eager")["eager"]["verdict"]
    assert skipped["outcome"] == "NOT_MEASURED"
    assert "the regression pageable needs CUDA" in skipped["reason"]
