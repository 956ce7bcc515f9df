"""What a workload author writes, and what is said to one who writes it wrongly."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perfgate
from perfgate.workload import MARK, Declaration, Steps, declaration_of, workload, workload_files


def loop(steps: Steps) -> None:
    for _ in steps:
        pass


def declared_by(function: object) -> Declaration:
    found = declaration_of(function)
    assert found is not None
    return found


def test_the_defaults_are_thirty_steps_after_ten_of_warm_up() -> None:
    @workload()
    def plain(steps: Steps) -> None: ...

    defaults = Declaration(steps=30, warmup=10, timeout_s=None, budgets={}, pass_env=())
    assert vars(declared_by(plain)) == vars(defaults)


def test_everything_declared_is_kept() -> None:
    @workload(
        steps=3, warmup=0, timeout_s=90, budgets={"step_ms": 0.05}, pass_env=["HF_TOKEN"], ahead=1
    )
    def declared(steps: Steps) -> None: ...

    assert vars(declared_by(declared)) == {
        "steps": 3,
        "warmup": 0,
        "timeout_s": 90,
        "budgets": {"step_ms": 0.05},
        "pass_env": ("HF_TOKEN",),
        "ahead": 1,
    }


def test_the_function_itself_comes_back() -> None:
    assert workload()(loop) is loop
    delattr(loop, MARK)


def test_a_mark_of_pytest_on_either_side_is_kept() -> None:
    @pytest.mark.parametrize("size", [1, 2])
    @workload(steps=5)
    @pytest.mark.filterwarnings("ignore")
    def marked(steps: Steps, size: int) -> None: ...

    found = declaration_of(marked)
    assert found is not None
    assert found.steps == 5
    assert [mark.name for mark in vars(marked)["pytestmark"]] == ["filterwarnings", "parametrize"]


def test_a_wrapper_that_keeps_attributes_is_a_workload_too() -> None:
    @workload(steps=5)
    def inner(steps: Steps) -> None: ...

    @functools.wraps(inner)
    def outer(steps: Steps) -> None: ...

    assert declaration_of(outer) == declaration_of(inner)


def test_the_budgets_are_the_authors_no_more() -> None:
    budgets = {"step_ms": 0.05}

    @workload(budgets=budgets)
    def plain(steps: Steps) -> None: ...

    budgets["step_ms"] = 0.9
    found = declaration_of(plain)
    assert found is not None
    assert found.budgets == {"step_ms": 0.05}


class Pretender:
    """Not a function, whatever it is marked with."""

    __perfgate_workload__ = Declaration(steps=3, warmup=0, timeout_s=None, budgets={}, pass_env=())


def other(steps: Steps) -> None: ...


setattr(other, MARK, "something of somebody else's")


@pytest.mark.parametrize("candidate", [loop, other, Pretender, Pretender(), None, 3, workload, len])
def test_what_is_not_marked_declares_nothing(candidate: object) -> None:
    assert declaration_of(candidate) is None


WRONG_VALUES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"steps": 2}, ValueError, "@workload: steps is 2, expected at least 3."),
    ({"steps": "30"}, TypeError, "@workload: steps is '30', expected a whole number."),
    (
        {"steps": "auto", "warmup": 9},
        ValueError,
        '@workload: warmup is 9, expected at least 10 for steps="auto", by which it is chosen.',
    ),
    ({"steps": 30.0}, TypeError, "@workload: steps is 30.0, expected a whole number."),
    ({"steps": True}, TypeError, "@workload: steps is True, expected a whole number."),
    ({"steps": None}, TypeError, "@workload: steps is None, expected a whole number."),
    ({"warmup": -1}, ValueError, "@workload: warmup is -1, expected at least 0."),
    ({"warmup": 1.5}, TypeError, "@workload: warmup is 1.5, expected a whole number."),
    ({"timeout_s": 0}, ValueError, "@workload: timeout_s is 0, expected seconds above 0."),
    (
        {"timeout_s": float("nan")},
        ValueError,
        "@workload: timeout_s is nan, expected seconds above 0.",
    ),
    (
        {"timeout_s": float("inf")},
        ValueError,
        "@workload: timeout_s is inf, expected seconds above 0.",
    ),
    ({"timeout_s": "10"}, TypeError, "@workload: timeout_s is '10', expected a number of seconds."),
    ({"timeout_s": True}, TypeError, "@workload: timeout_s is True, expected a number of seconds."),
    (
        {"budgets": 0.05},
        TypeError,
        "@workload: budgets is 0.05, expected fractions by metric name.",
    ),
    (
        {"pass_env": "TOKEN"},
        TypeError,
        "@workload: pass_env is the string 'TOKEN', expected a list of variable names.",
    ),
]


@pytest.mark.parametrize(("arguments", "error", "message"), WRONG_VALUES)
def test_a_wrong_value_is_refused_where_it_is_written(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as refused:
        workload(**arguments)
    assert str(refused.value) == message


def bare(function: object) -> object:
    return workload(function)  # type: ignore[arg-type]


def test_a_mark_without_parentheses_is_reported_as_such() -> None:
    with pytest.raises(TypeError) as refused:
        bare(loop)
    assert str(refused.value) == (
        "@workload on loop: used without parentheses. Write @workload(steps=30, warmup=10)."
    )
    with pytest.raises(TypeError, match=r"^@workload: 30 needs a name\. Write .*steps=30"):
        bare(30)


def without_steps() -> None: ...


async def coroutine(steps: Steps) -> None: ...


def generator(steps: Steps) -> Iterator[int]:
    yield from steps


async def asynchronous(steps: Steps) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (
            without_steps,
            (
                "@workload on without_steps: it takes no argument 'steps'. Write def "
                "without_steps(steps): ..."
            ),
        ),
        (Pretender, "@workload on Pretender: it is a type, expected a plain function."),
        pytest.param(
            functools.partial(loop),
            f"@workload on {functools.partial(loop)!r}: it is a partial, expected a plain "
            f"function.",
            id="partial",  # its text holds an address, another in each process of pytest-xdist
        ),
        (
            coroutine,
            (
                "@workload on coroutine: it is a coroutine function, of which calling runs "
                "nothing. Write a plain function."
            ),
        ),
        (
            generator,
            (
                "@workload on generator: it is a generator function, of which calling runs "
                "nothing. Write a plain function."
            ),
        ),
        (
            asynchronous,
            (
                "@workload on asynchronous: it is an asynchronous generator function, of which "
                "calling runs nothing. Write a plain function."
            ),
        ),
    ],
)
def test_what_cannot_be_a_workload_is_refused(
    candidate: Callable[..., object], message: str
) -> None:
    with pytest.raises(TypeError) as refused:
        workload()(candidate)
    assert str(refused.value).partition(" at 0x")[0] == message.partition(" at 0x")[0]
    assert declaration_of(candidate) is None


TRAIN = "@workload()\ndef train(steps): ...\n"


@pytest.mark.parametrize(
    "source",
    [
        TRAIN + "also = train\n" + TRAIN,
        TRAIN + "train = None\n" + TRAIN,
        "def train(steps): ...\n" + TRAIN,
        "for _ in range(2):\n" + textwrap.indent(TRAIN, "    "),
        "for _ in range(2):\n    def made():\n"
        + textwrap.indent(TRAIN, "        ")
        + "    made()\n",
    ],
)
def test_a_name_may_be_used_again_where_no_workload_is_lost(source: str) -> None:
    held: dict[str, Any] = {"workload": workload}
    exec(compile(source, "loops.py", "exec"), held)
    assert "train" not in held or declaration_of(held["train"]) is not None


def test_a_second_workload_of_one_name_in_a_file_is_refused() -> None:
    with pytest.raises(TypeError) as refused:
        exec(compile(f"import time\n{TRAIN}\n{TRAIN}", "loops.py", "exec"), {"workload": workload})
    assert str(refused.value) == (
        "@workload on train: it takes the place of the workload of that name in line 2, which "
        "would not be measured. Rename one of them."
    )


def test_files_of_workloads_are_those_that_pytest_would_come_by(tmp_path: Path) -> None:
    found = ("a.py", "b.YML", "deep/d.yaml", "deep/_er/c.py")
    spared = (
        "_a.py",
        ".b.py",
        "conftest.py",
        "_c.yaml",
        ".d.yml",
        "e.PY",
        "f.txt",
        ".g/a.py",
        "build/a.py",
        "h.egg/a.py",
    )
    for name in (*found, *spared, "env/pyvenv.cfg", "env/lib/a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder.py").mkdir()
    assert [file.relative_to(tmp_path).as_posix() for file in workload_files(tmp_path)] == list(
        found
    )
    assert list(workload_files(tmp_path / "nowhere")) == []


def test_an_author_imports_all_from_the_package() -> None:
    assert perfgate.workload is workload
    assert perfgate.Steps is Steps
    assert sorted(perfgate.__all__) == ["Steps", "__version__", "workload"]


def test_a_function_in_a_class_is_no_workload() -> None:
    def make() -> type:
        class Loops:
            @workload()
            def run(self, steps: Steps) -> None: ...

        return Loops

    with pytest.raises(TypeError, match=r"Loops\.run"):
        make()


def test_a_function_within_a_method_is_one() -> None:
    class Maker:
        def make(self) -> Callable[..., None]:
            @workload()
            def run(steps: Steps) -> None: ...

            return run

    assert declaration_of(Maker().make()) is not None
