"""How a project and perfgate are installed on a runner, as files say it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from perfgate.init import install
from perfgate.init.origin import Origin


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).write_text("", encoding="utf-8")


HATCH = {"project": {"dependencies": ["torch"]}, "build-system": {"build-backend": "hatchling"}}


@pytest.mark.parametrize(
    ("files", "pyproject", "words", "codes"),
    [
        ((), HATCH, ("-e", "."), []),
        ((), {"build-system": {"build-backend": "flit_core.buildapi"}}, ("-e", "."), []),
        (("requirements.txt",), {}, ("-r", "requirements.txt", "torch"), ["torch-not-named"]),
        (("requirements-gpu.txt",), HATCH, ("-r", "requirements-gpu.txt", "-e", "."), []),
        (
            ("requirements-a.txt", "requirements-b.txt", "uv.lock"),
            HATCH,
            ("-e", "."),
            ["files-not-installed"],
        ),
        (
            ("environment.yml",),
            {},
            ("torch",),
            ["files-not-installed", "installation-unknown", "torch-not-named"],
        ),
        (("setup.py",), {}, ("-e", "."), ["egg-info-not-ignored"]),
    ],
)
def test_what_pip_installs_is_what_the_files_say(
    tmp_path: Path,
    files: tuple[str, ...],
    pyproject: dict[str, object],
    words: tuple[str, ...],
    codes: list[str],
) -> None:
    touch(tmp_path, *files)
    found, notes = install.project_words(tmp_path, pyproject)
    assert (found, [one.code for one in notes]) == (words, codes)


def test_a_setuptools_project_that_ignores_egg_info_gets_no_note(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.egg-info/\n", encoding="utf-8")
    made = {"build-system": {"requires": ["setuptools"]}}
    assert install.project_words(tmp_path, made) == (("-e", "."), [])


@pytest.mark.parametrize(
    ("asked", "running", "chosen"),
    [
        (None, (3, 13), "3.13"),
        (">=3.9", (3, 12), "3.12"),
        (">=3.13", (3, 12), "3.13"),
        (">=3.11,<3.13", (3, 14), "3.12"),
        ("<3.13.2", (3, 14), "3.13"),
        ("<=3.12", (3, 14), "3.12"),
        ("==3.12.*", (3, 11), "3.12"),
        ("~=3.12.1", (3, 14), "3.12"),
        ("~=3.11", (3, 14), "3.14"),
        (">=3.10, !=3.12.0, <4", (3, 12), "3.12"),
        ("what is this", (3, 12), "3.12"),
        ("", (3, 12), "3.12"),
    ],
)
def test_the_running_python_is_taken_where_the_project_takes_it(
    tmp_path: Path, asked: str | None, running: tuple[int, int], chosen: str
) -> None:
    pyproject = {} if asked is None else {"project": {"requires-python": asked}}
    assert install.python_version(tmp_path, pyproject, running=running) == (chosen, [])


@pytest.mark.parametrize(
    ("pinned", "chosen"),
    [
        ("3.12\n", "3.12"),
        ("3.13.1", "3.13"),
        ("cpython-3.12.4\n3.11", "3.12"),
        ("pypy3.10", "3.14"),
        ("", "3.14"),
    ],
)
def test_a_pinned_python_comes_first(tmp_path: Path, pinned: str, chosen: str) -> None:
    (tmp_path / ".python-version").write_text(pinned, encoding="utf-8")
    assert install.python_version(tmp_path, {}, running=(3, 14)) == (chosen, [])


def test_a_python_too_old_for_perfgate_is_said(tmp_path: Path) -> None:
    asked = {"project": {"requires-python": "<3.11"}}
    python, (of_project,) = install.python_version(tmp_path, asked, running=(3, 12))
    (tmp_path / ".python-version").write_text("3.10", encoding="utf-8")
    pinned, (of_pin,) = install.python_version(tmp_path, {}, running=(3, 12))
    assert (python, pinned) == ("3.11", "3.11")
    assert (of_project.fields["asked"], of_pin.fields["asked"]) == ("<3.11", "3.10")


def test_names_of_files_are_no_part_of_the_shells_language() -> None:
    words = ("-r", "requirements-$(touch x);'\".txt")
    script = install.project_script(words, Origin(url="URL"))
    first, second = script.splitlines()
    assert first == 'python -m venv "$RUNNER_TEMP/venv"'
    pip = ["$RUNNER_TEMP/venv/bin/pip", "install", "-q"]
    assert shlex.split(second) == [*pip, *words, "perfgate[github] @ URL"]


@pytest.mark.parametrize(
    ("files", "pyproject", "named"),
    [
        ({}, {}, False),
        ({}, {"project": {"name": "x"}}, False),
        (
            {},
            {
                "project": {
                    "name": "x",
                    "dependencies": ["numpy", "torchvision", "pytorch-lightning"],
                }
            },
            False,
        ),
        ({}, {"project": {"name": "x", "dependencies": ["Torch >= 2.2"]}}, True),
        (
            {},
            {"project": {"name": "x", "dependencies": ["torch[opt]; sys_platform == 'linux'"]}},
            True,
        ),
        ({}, {"project": {"name": "x", "dynamic": ["dependencies"]}}, True),
        ({}, {"build-system": {}}, True),
        ({"requirements.txt": "numpy\ntorch==2.6.0 # CUDA 12.4\n"}, {}, True),
        ({"requirements.txt": "torch-geometric\n"}, {}, False),
        ({"requirements.txt": "-r others.txt\n"}, {}, True),
    ],
    ids=str,
)
def test_torch_is_installed_where_the_project_does_not_name_it(
    tmp_path: Path, files: Mapping[str, str], pyproject: Mapping[str, object], named: bool
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    words, _ = install.project_words(tmp_path, pyproject)
    assert (words[-1] != "torch") is named
