"""What each variant of a series does that the one before it does not, as far as a machine without a
GPU can show."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from support.loops import WORKLOADS, load_file

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

torch = pytest.importorskip("torch", reason="no torch here: it is in the extra torch")

STEPS = 3
pytestmark = pytest.mark.filterwarnings(
    "default"
)  # the workloads' own mark, which only pytest --perfgate applies


@dataclass
class Seen:
    """What a variant did in `STEPS` turns."""

    loader: dict[str, Any] = field(default_factory=dict)
    """What its loader was asked for."""
    events: list[str] = field(default_factory=list)
    optimizers: set[str] = field(default_factory=set)
    fetched: int = 0
    """Calls of `Tensor.item` by the workload's own code."""
    non_blocking: Counter[bool] = field(default_factory=Counter)
    compiled: int = 0
    autocast: set[object] = field(default_factory=set)
    """The types that losses were computed under; None without autocast."""
    scaled: bool | None = None
    channels_last: set[bool] = field(default_factory=set)
    """Whether the weights of the stem, and the images, lie so."""
    cudnn_benchmark: bool = False


Watch = Callable[[str, str], Seen]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """Run a variant as on a GPU, but for streams and pinned memory, which are asked for and not
    had.
    """
    threads, benchmark, tf32 = (
        torch.get_num_threads(),
        torch.backends.cudnn.benchmark,
        torch.backends.cuda.matmul.allow_tf32,
    )
    torch.set_num_threads(1)
    monkeypatch.setenv("PERFGATE_SMALL", "1")
    monkeypatch.delenv("VARIANTS", raising=False)
    yield lambda name, variant: watched(name, variant, monkeypatch)
    torch.set_num_threads(threads)
    torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32 = benchmark, tf32


def watched(name: str, variant: str, patch: pytest.MonkeyPatch) -> Seen:
    module, seen = load_file(WORKLOADS / f"{name}.py", name, patch), Seen()
    patch.setattr(module, "CUDA", True)

    def noted_step(optimizer: Optimizer, *_: object) -> None:
        seen.optimizers.add(type(optimizer).__name__)

    optimizers = importlib.import_module("torch.optim.optimizer")
    hook = optimizers.register_optimizer_step_pre_hook(noted_step)
    with patch.context() as watching:
        spy(module, seen, watching)
        getattr(module, name)(range(STEPS), variant)
    hook.remove()
    seen.cudnn_benchmark = torch.backends.cudnn.benchmark
    return seen


def spy(module: ModuleType, seen: Seen, patch: pytest.MonkeyPatch) -> None:
    """Note what the module's loop does."""
    loader, forward, fetch, to = (
        module.DataLoader,
        torch.nn.CrossEntropyLoss.forward,
        torch.Tensor.item,
        torch.Tensor.to,
    )
    scaler, network = torch.amp.GradScaler, module.network

    def noted_loader(dataset: object, **asked: object) -> object:
        seen.loader = {"dataset": type(dataset).__name__, **asked}
        return loader(dataset, **{**asked, "pin_memory": False})

    def noted_forward(self: nn.Module, logits: Tensor, labels: Tensor) -> object:
        seen.events.append("compute")
        seen.autocast.add(
            torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        )
        return forward(self, logits, labels)

    def noted_item(self: Tensor) -> object:
        # The loader and Adam fetch numbers of their own, which lie on the CPU.
        seen.fetched += sys._getframe(1).f_code.co_filename == module.__file__
        return fetch(self)

    def noted_to(self: Tensor, *places: object, **asked: object) -> object:
        if "non_blocking" in asked:
            seen.non_blocking[asked["non_blocking"] is True] += 1
        return to(self, *places, **asked)

    def noted_scaler(device: str, *, enabled: bool) -> object:
        seen.scaled = enabled
        return scaler(device, enabled=False)

    def noted_network() -> nn.Module:
        model: nn.Sequential = network()
        model.register_forward_pre_hook(noted_layout)
        return model

    def noted_layout(model: nn.Sequential, inputs: tuple[Tensor]) -> None:
        for tensor in (model.get_parameter("0.weight"), inputs[0]):
            seen.channels_last.add(tensor.is_contiguous(memory_format=torch.channels_last))

    def noted_compile(model: nn.Module, **_options: object) -> nn.Module:
        seen.compiled += 1
        return model

    patch.setattr(module, "DataLoader", noted_loader)
    patch.setattr(module, "network", noted_network)
    patch.setattr(torch.nn.CrossEntropyLoss, "forward", noted_forward)
    patch.setattr(torch.Tensor, "item", noted_item)
    patch.setattr(torch.Tensor, "to", noted_to)
    patch.setattr(torch.amp, "GradScaler", noted_scaler)
    patch.setattr(torch, "compile", noted_compile)
    if hasattr(module, "copied"):
        patch.setattr(module, "copy_stream", lambda: None)
        for name in ("copied", "hand_over"):
            patch.setattr(module, name, noted_call(getattr(module, name), name, seen))
    if hasattr(module, "MadeBatches"):
        patch.setattr(
            module.MadeBatches,
            "__getitem__",
            noted_call(module.MadeBatches.__getitem__, "made", seen),
        )


def noted_call(call: Callable[..., Any], name: str, seen: Seen) -> Callable[..., Any]:
    def found(*given: object) -> object:
        seen.events.append(name)
        return call(*given)

    return found


IN_TURN = ["compute"] * STEPS
OVERLAPPED = ["copied", *["hand_over", "compute", "copied"] * STEPS]
PREFETCHED = ["copied", *["hand_over", "copied", "compute"] * STEPS]
"""The next batch is copied while the one before it is computed: it is begun before the loop's own
launches."""


@pytest.mark.parametrize(
    ("variant", "dataset", "workers", "pinned", "non_blocking", "events"),
    [
        ("serial", "MadeImages", 0, False, {False}, IN_TURN),
        ("workers", "MadeImages", 2, False, {False}, IN_TURN),
        ("pinned", "MadeImages", 2, True, {True}, IN_TURN),
        ("overlap", "MadeImages", 2, True, {True}, OVERLAPPED),
        ("prefetcher", "MadeImages", 2, True, {True}, PREFETCHED),
        ("kept", "KeptImages", 2, True, {True}, OVERLAPPED),
        ("steady", "KeptImages", 2, True, {True}, PREFETCHED),
    ],
)
def test_each_variant_of_the_input_pipeline(
    watch: Watch,
    variant: str,
    dataset: str,
    workers: int,
    pinned: bool,
    non_blocking: set[bool],
    events: list[str],
) -> None:
    seen = watch("resnet18_input", variant)
    asked = {name: seen.loader[name] for name in ("dataset", "num_workers", "pin_memory")}
    assert asked == {"dataset": dataset, "num_workers": workers, "pin_memory": pinned}
    assert (set(seen.non_blocking), seen.events) == (non_blocking, events)
    assert (seen.optimizers, seen.fetched, seen.compiled) == ({"Adam"}, 0, 0)


HALF, BRAIN = torch.float16, torch.bfloat16


@pytest.mark.parametrize(
    (
        "variant",
        "fetched",
        "pinned",
        "autotunes",
        "compiled",
        "autocast",
        "scaled",
        "channels_last",
    ),
    [
        ("naive", 2 * STEPS, False, False, 0, None, False, False),
        ("detached", 0, False, False, 0, None, False, False),
        ("pinned", 0, True, False, 0, None, False, False),
        ("cudnn_benchmark", 0, True, True, 0, None, False, False),
        ("compile", 0, True, True, 1, None, False, False),
        ("max_autotune", 0, True, True, 1, None, False, False),
        ("grad_scaler", 0, True, True, 1, HALF, True, False),
        ("autocast", 0, True, True, 1, BRAIN, False, False),
        ("channels_last", 0, True, True, 1, BRAIN, False, True),
        ("steady", 0, True, False, 1, BRAIN, False, True),
        ("exhaustive", 0, True, True, 1, None, False, False),
    ],
)
def test_each_variant_of_the_training_step(
    watch: Watch,
    variant: str,
    fetched: int,
    pinned: bool,
    autotunes: bool,
    compiled: int,
    autocast: object,
    scaled: bool,
    channels_last: bool,
) -> None:
    seen = watch("resnet50_cifar", variant)
    assert (seen.fetched, seen.compiled, seen.cudnn_benchmark) == (fetched, compiled, autotunes)
    assert (seen.loader["pin_memory"], set(seen.non_blocking)) == (pinned, {pinned})
    assert (seen.autocast, seen.scaled, seen.channels_last) == ({autocast}, scaled, {channels_last})
    assert (seen.optimizers, seen.loader["num_workers"]) == ({"SGD"}, 1)


@pytest.mark.parametrize(
    ("variant", "options"),
    [
        ("pinned", "not compiled"),
        ("compile", None),
        ("max_autotune", "AUTOTUNED"),
        ("grad_scaler", "AUTOTUNED"),
        ("channels_last", "AUTOTUNED"),
        ("steady", "STEADY"),
        ("exhaustive", "EXHAUSTIVE"),
    ],
)
def test_the_full_network_is_compiled_with_the_options_of_its_variant(
    variant: str, options: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VARIANTS", raising=False)
    module = load_file(WORKLOADS / "resnet50_cifar.py", "resnet50_cifar", monkeypatch)
    monkeypatch.setattr(module, "SMALL", False)
    monkeypatch.setattr(module, "one_ptxas", lambda: None)
    monkeypatch.setattr(module, "keep_apart", str)
    asked: list[object] = ["not compiled"]

    def noted_compile(model: object, *, options: object) -> object:
        asked.append(options)
        return model

    monkeypatch.setattr(torch, "compile", noted_compile)
    module.compiled(torch.nn.Identity(), variant)
    assert asked[-1] == (
        getattr(module, options) if options in {"AUTOTUNED", "STEADY", "EXHAUSTIVE"} else options
    )


@pytest.mark.parametrize(
    ("variant", "workers", "non_blocking", "events"),
    [
        ("cpu", None, {False}, ["made", "compute"] * STEPS),
        ("gpu", None, {False}, ["made"] * 8 + IN_TURN),
        ("workers", 2, {True}, IN_TURN),
    ],
)
def test_each_place_that_batches_come_from(
    watch: Watch, variant: str, workers: int | None, non_blocking: set[bool], events: list[str]
) -> None:
    seen = watch("data_load_lab", variant)
    assert (seen.loader.get("num_workers"), seen.loader.get("pin_memory")) == (
        workers,
        None if workers is None else True,
    )
    assert (set(seen.non_blocking), seen.events, seen.optimizers) == (non_blocking, events, {"SGD"})
