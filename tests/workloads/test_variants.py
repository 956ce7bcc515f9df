"""The tutorial workloads as plain functions: which variants are collected, and that all of a series
train alike."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.loops import VARIANTS, WORKLOADS, load_file

torch = pytest.importorskip("torch", reason="no torch here: it is in the extra torch")

DEFAULTS = {"resnet18_input": "steady", "resnet50_cifar": "steady", "data_load_lab": "workers"}
STEPS = 6
LESS_PRECISE = {"resnet50_cifar": ("grad_scaler", "autocast", "channels_last", "steady")}
"""Variants under autocast: their losses differ from the others' by what float16 and bfloat16 round.
"""

Load = Callable[..., ModuleType]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Give the tiny networks one thread, so that they do not wait for the loaders' processes at
    every operation."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Import a workload or script anew, at its small size and under a VARIANTS."""

    def load(name: str, series: str | None = None) -> ModuleType:
        monkeypatch.setenv("PERFGATE_SMALL", "1")
        monkeypatch.delenv("VARIANTS", raising=False)
        if series is not None:
            monkeypatch.setenv("VARIANTS", series)
        return load_file(WORKLOADS / f"{name}.py", Path(name).stem, monkeypatch)

    return load


def collected(load: Load, name: str, series: str | None) -> tuple[str, ...]:
    """The variants that a file offers to pytest under a VARIANTS."""
    return tuple(load(name, series).CHOSEN)


@pytest.mark.parametrize("name", VARIANTS)
def test_without_a_series_one_variant_is_collected(load: Load, name: str) -> None:
    assert tuple(load(name).VARIANTS) == VARIANTS[name]
    assert collected(load, name, None) == (DEFAULTS[name],)
    assert collected(load, name, "") == (DEFAULTS[name],)


def test_all_collects_every_variant_but_the_exhaustive_search(load: Load) -> None:
    assert collected(load, "resnet18_input", "all") == VARIANTS["resnet18_input"]
    assert collected(load, "data_load_lab", "all") == VARIANTS["data_load_lab"]
    assert collected(load, "resnet50_cifar", "all") == VARIANTS["resnet50_cifar"][:-1]
    assert collected(load, "resnet50_cifar", "all,exhaustive") == VARIANTS["resnet50_cifar"]
    assert collected(load, "resnet50_cifar", "exhaustive") == ("exhaustive",)


def test_named_variants_are_collected_once_and_in_the_order_of_the_series(load: Load) -> None:
    assert collected(load, "resnet18_input", "pinned,serial,pinned") == ("serial", "pinned")


def test_a_wrong_regression_of_the_small_loops_is_refused_with_the_right_ones(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMALL_REGRESSION", "item, stall")
    regressions = load("small_loops").REGRESSIONS
    assert regressions == {"item", "stall"}
    monkeypatch.setenv("SMALL_REGRESSION", "itme,stall")
    with pytest.raises(
        ValueError,
        match=r"^SMALL_REGRESSION: there is no regression itme\. There are item, pageable, ",
    ):
        load("small_loops")


@pytest.mark.parametrize("name", VARIANTS)
def test_a_wrong_variant_is_refused_with_the_right_ones(load: Load, name: str) -> None:
    variants = ", ".join(VARIANTS[name])
    message = f"VARIANTS: {name} has no variant fastest, slowest. It has {variants}, or all."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        load(name, f"slowest,{VARIANTS[name][0]},fastest")


def losses_of(module: ModuleType, variant: str, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Train a few steps on a variant; the loss of each."""
    losses: list[float] = []
    forward = torch.nn.CrossEntropyLoss.forward

    def recorded(self: object, logits: object, labels: object) -> object:
        loss = forward(self, logits, labels)
        losses.append(loss.detach().item())
        return loss

    torch._dynamo.reset()
    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.CrossEntropyLoss, "forward", recorded)
        getattr(module, module.__name__)(range(STEPS), variant)
    return losses


@pytest.mark.filterwarnings(
    "default"
)  # the workloads' own mark, which only pytest --perfgate applies
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", VARIANTS)
def test_all_variants_of_a_series_do_the_same_training(
    load: Load, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load(name)
    first, *others = VARIANTS[name]
    expected = losses_of(module, first, monkeypatch)
    assert len(expected) == STEPS
    assert len(set(expected)) == STEPS
    for variant in others:
        losses = losses_of(module, variant, monkeypatch)
        rounded = variant in LESS_PRECISE.get(name, ())
        # Losses of different batches differ by some per cent.
        assert losses == pytest.approx(expected, rel=5e-3 if rounded else 1e-3), variant
        assert not rounded or losses != expected, variant


@pytest.mark.parametrize(
    ("name", "network", "error"),
    [
        ("resnet18_input", "ResNet-18", RuntimeError),
        ("resnet50_cifar", "ResNet-50", RuntimeError),
        ("scripts/resnet50_ddp", "ResNet-50", SystemExit),
    ],
)
def test_a_missing_torchvision_is_reported_with_what_to_install(
    load: Load, name: str, network: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load(name)
    monkeypatch.setattr(module, "SMALL", False)
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    with pytest.raises(error) as raised:
        module.network()
    assert str(raised.value) == (
        f"{Path(name).stem}: import of torchvision.models halted; None in sys.modules. It trains "
        f"torchvision's {network}: install the torchvision that goes with torch "
        f"{torch.__version__}, or set PERFGATE_SMALL=1 to train a tiny network instead."
    )


def test_the_ranks_of_a_job_share_the_batch_and_no_image(load: Load) -> None:
    script = load("scripts/resnet50_ddp")
    seen: list[set[int]] = []
    for number in range(2):
        rank = script.Rank(number=number, world=2, device=torch.device("cpu"))
        loader = script.loader(rank, batch=8, steps=5)
        assert loader.batch_size == 4
        assert (
            len(loader) >= 5 + 2 * 2
        )  # the workers do not run out of batches while any is trained on
        seen.append(set(loader.sampler))
    assert seen[0].isdisjoint(seen[1])
    alone = script.Rank(number=0, world=64, device=torch.device("cpu"))
    assert script.loader(alone, batch=8, steps=1).batch_size == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--steps 0",
            "--steps and --batch must be at least 1, --warmup and --stall-ms at least 0.",
        ),
        (
            "--warmup -1",
            "--steps and --batch must be at least 1, --warmup and --stall-ms at least 0.",
        ),
        (
            "--stall-ms nan",
            "--steps and --batch must be at least 1, --warmup and --stall-ms at least 0.",
        ),
        (
            "--stall-ms inf",
            "--steps and --batch must be at least 1, --warmup and --stall-ms at least 0.",
        ),
        (
            "--stall-rank 0",
            "--stall-rank and --stall-ms go together: who sleeps, and for how long.",
        ),
        ("--stall-ms 5", "--stall-rank and --stall-ms go together: who sleeps, and for how long."),
        ("--stall-rank 2 --stall-ms 5", "--stall-rank: there is no rank 2, the last of 2 is 1."),
    ],
)
def test_arguments_that_the_ranks_cannot_follow_are_refused(
    load: Load, arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        load("scripts/resnet50_ddp").read_arguments(arguments.split(), world=2)
    assert left.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"error: {message}")
