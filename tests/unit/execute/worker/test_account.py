"""The account of a worker's end: how it is told, with what, and whatever the loop left open."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.sides import WARM, FakeTorch, account_of, made

from perfgate.execute.proof import read_witnesses
from perfgate.execute.worker import account, tell, tell_failed
from perfgate.model.order import Account, Ending, Order


def test_the_account_tells_how_it_ended_and_with_what(
    order: Order, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(calls))
    monkeypatch.setattr(account, "nvtx_version", lambda: "0.2.11")
    monkeypatch.setattr(os, "getpid", lambda: 77)
    steps = made(calls)
    list(steps)
    tell(order, steps, Ending.FINISHED)
    said = account_of(order)
    assert said.cores is not None
    assert said.model_copy(update={"cores": None}) == Account(
        ending=Ending.FINISHED,
        turns=5,
        pid=77,
        torch="2.6.0+cu124",
        cuda="12.4",
        nvtx="0.2.11",
        marked_by="torch.cuda.nvtx",
        captured_by="torch",
    )


def test_a_process_that_the_workload_forked_has_no_say_in_it(
    order: Order, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = made(calls)
    loop = iter(steps)
    next(loop)
    with monkeypatch.context() as in_the_child:
        in_the_child.setattr(os, "getpid", lambda: 4711)
        tell(order, steps, Ending.RAISED, message="RuntimeError: in the child")
    assert not Path(order.account).exists()
    assert calls[-1] == WARM  # the range is open: the loop goes on
    list(loop)
    tell(order, steps, Ending.FINISHED)
    assert (account_of(order).ending, account_of(order).turns) == (Ending.FINISHED, 5)


def test_what_fails_after_a_good_end_is_told_in_its_place_and_after_a_bad_one_not(
    order: Order, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = made(calls)
    tell_failed(order, steps, "a fixture's teardown raised OSError: gone")
    assert not Path(order.account).exists()
    list(steps)
    tell(order, steps, Ending.FINISHED)
    good = account_of(order)
    with monkeypatch.context() as in_the_child:
        in_the_child.setattr(os, "getpid", lambda: 4711)
        tell_failed(order, steps, "a fixture's teardown raised OSError: in the child")
    assert account_of(order) == good
    for message in (
        "a subtest failed with OSError: \udcff",
        "a fixture's teardown raised OSError: gone",
    ):
        tell_failed(order, steps, message)
    said = "a subtest failed with OSError: \\udcff"
    assert account_of(order) == good.model_copy(update={"ending": Ending.FAILED, "message": said})


def test_it_says_which_files_its_modules_came_from_where_that_is_asked(
    order: Order, calls: list[str], tmp_path: Path, load: Callable[[str, object], None]
) -> None:
    file = tmp_path / "site-packages" / "proj.py"
    load("proj", str(file))
    tell(order, made(calls), Ending.FINISHED)
    assert not (tmp_path / "witnesses").exists()
    tell(
        order.model_copy(update={"witnesses": str(tmp_path / "witnesses")}),
        made(calls),
        Ending.FINISHED,
    )
    (told,) = read_witnesses(tmp_path / "witnesses")
    assert told.pid == os.getpid()
    assert {sys.prefix, sys.base_prefix} <= set(told.prefixes)
    assert told.modules["proj"] == str(file)
    assert all(Path(path).is_absolute() for path in told.modules.values())
    tell(order.model_copy(update={"witnesses": "/dev/null/x"}), made(calls), Ending.FINISHED)


def test_a_file_that_was_edited_since_it_was_loaded_is_like_no_other_runs(
    order: Order, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        account, "loaded_code", lambda *_: {"a.py": "new", "b.py": "same", "late.py": "late"}
    )
    tell(
        order, made(calls), Ending.FINISHED, before={"a.py": "old", "b.py": "same", "gone.py": "x"}
    )
    code = account_of(order).code
    assert list(code) == ["a.py", "b.py", "late.py"]
    assert (code["b.py"], code["late.py"]) == ("same", "late")
    assert code["a.py"] not in ("old", "new")


def test_a_message_that_is_no_text_is_spelled_out(order: Order, calls: list[str]) -> None:
    tell(order, made(calls), Ending.RAISED, message="ValueError: bad \udcff name")
    assert account_of(order).message == r"ValueError: bad \udcff name"


def test_a_loop_that_a_thread_is_in_still_gets_its_account(order: Order, calls: list[str]) -> None:
    steps = made(calls)

    class Busy:
        def close(self) -> None:
            raise ValueError("generator already executing")

    loop = Busy()
    steps._running = lambda: loop  # type: ignore[assignment, return-value]
    tell(order, steps, Ending.WRONG_STEPS, message="the loop took 0 of 5 turns")
    assert account_of(order).ending is Ending.WRONG_STEPS


def test_the_account_without_torch_says_so(
    order: Order, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    tell(order, made(calls), Ending.EXITED, message="it called sys.exit(3)", exit_status=3)
    said = account_of(order)
    assert (said.torch, said.cuda, said.turns, said.marked_by) == (None, None, 0, None)
    assert (said.ending, said.message, said.exit_status) == (
        Ending.EXITED,
        "it called sys.exit(3)",
        3,
    )


def test_the_account_of_a_cpu_build_of_torch_has_no_cuda(
    order: Order, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = FakeTorch(calls, available=False)
    torch.version = SimpleNamespace(cuda=None)
    monkeypatch.setitem(sys.modules, "torch", torch)
    tell(order, made(calls), Ending.RAISED, message="ValueError: ü")
    said = account_of(order)
    assert (said.torch, said.cuda, said.message) == ("2.6.0+cu124", None, "ValueError: ü")


def test_telling_closes_what_the_loop_left_open(order: Order, calls: list[str]) -> None:
    steps = made(calls)
    held = iter(steps)
    next(held)
    tell(order, steps, Ending.RAISED, message="KeyError: 1")
    assert calls == [WARM, "pop"]
    assert account_of(order).turns == 1
