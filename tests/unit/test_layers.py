"""The house of DESIGN, held to the imports that are written: who may import whom, and where outward
packages live."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import pytest

import perfgate
from perfgate import cli

PACKAGE = Path(perfgate.__file__).parent

LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"perfgate", "workload"}),
    frozenset({"words"}),
    frozenset({"model"}),
    frozenset({"system"}),
    frozenset({"machine", "profilers", "metrics", "judge", "explain", "render"}),
    frozenset({"execute", "store"}),
    frozenset({"gate", "bless", "views"}),
    frozenset({"plugin", "github", "init", "doctor", "demo", "selftest"}),
    frozenset({"cli"}),
    frozenset({"__main__"}),
)
"""The rooms from within to without: each imports those of lower levels, none of its own."""

APART: Mapping[str, frozenset[str]] = {
    "perfgate": frozenset({"workload"}),
    "render": frozenset({"model", "words"}),
    "bless": frozenset(
        {"model", "words", "system", "judge", "explain", "store", "render", "perfgate"}
    ),
    "views": frozenset(
        {
            "model",
            "words",
            "system",
            "profilers",
            "metrics",
            "explain",
            "render",
            "execute",
            "store",
        }
        | {"bless", "perfgate"}
    ),
    "cli": frozenset.union(*LEVELS) - {"__main__", "worker"},
    **{room: frozenset({"model", "words"}) for room in ("metrics", "judge", "explain")},
}
"""Rooms that import less than their level lets them, or something besides them."""

MAY_IMPORT: Mapping[str, frozenset[str]] = {
    room: APART.get(room, frozenset[str]().union(*LEVELS[:level]))
    for level, rooms in enumerate(LEVELS)
    for room in rooms
}
DOORS = frozenset({"cli", "plugin", "__main__"})

MODULES_MAY_IMPORT: Mapping[str, frozenset[str]] = {
    "perfgate": frozenset({"perfgate.workload"}),
    "perfgate.workload": frozenset(),
    "perfgate.model.options": frozenset(),
    "perfgate.plugin": frozenset({"perfgate.model.options", "perfgate.workload"}),
    "perfgate.plugin.worker_side": frozenset(
        {
            "perfgate.execute.worker",
            "perfgate.model.note",
            "perfgate.model.order",
            "perfgate.plugin",
            "perfgate.workload",
        }
    ),
}
"""Modules that are loaded where little may be: by every pytest, and inside a profiled workload."""

HOMES: Mapping[str, frozenset[str]] = {
    "_pytest": frozenset({"plugin"}),
    "click": frozenset({"cli"}),
    "github": frozenset({"github"}),
    "iniconfig": frozenset({"execute"}),
    "jinja2": frozenset({"render"}),
    "markupsafe": frozenset({"render"}),
    "numpy": frozenset({"model", "profilers", "metrics", "judge", "bless"}),
    "nvtx": frozenset({"execute", "selftest", "init"}),
    "perfgate_hold": frozenset({"execute"}),  # a copy of execute/script_hold.py, in a run
    "psutil": frozenset({"system", "machine"}),
    "pydantic": frozenset({"model", "store", "plugin", "github", "bless"}),
    "pynvml": frozenset({"machine"}),
    "pytest": frozenset({"plugin"}),
    "requests": frozenset({"github"}),
    "rich": frozenset({"render", "plugin"}),
    "scipy": frozenset({"judge"}),
    "sqlite3": frozenset({"profilers"}),
    "subprocess": frozenset({"profilers", "system", "doctor"}),
    "torch": frozenset({"execute", "selftest", "init"}),
    "yaml": frozenset({"model"}),
}
"""Outward packages, and the parts of the house that may touch them. One that is not here has no
home yet."""


@dataclass(frozen=True, kw_only=True)
class Module:
    """One file of the package, with what it imports."""

    name: str
    path: Path
    imports: frozenset[str]
    """Full names of modules; of perfgate's own, the modules that names are taken from."""

    @property
    def part(self) -> str:
        """The part of the house that it belongs to."""
        return part_of(self.name)


def part_of(module: str) -> str:
    """The part of the house, of the name of one of its modules; the package itself is one too."""
    return module.split(".")[1] if "." in module else module


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports_of(tree: ast.Module, known: frozenset[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            source = node.module or ""
            yield from (
                name if (name := f"{source}.{alias.name}") in known else source
                for alias in node.names
            )


@cache
def modules() -> tuple[Module, ...]:
    paths = sorted(PACKAGE.rglob("*.py"))
    known = frozenset(name_of(path) for path in paths)
    return tuple(
        Module(name=name_of(path), path=path, imports=frozenset(imports_of(tree_of(path), known)))
        for path in paths
    )


def test_every_part_of_the_house_has_its_row() -> None:
    assert {module.part for module in modules()} <= set(MAY_IMPORT)


def test_imports_point_inwards() -> None:
    outward = [
        f"{module.name} imports {imported}"
        for module in modules()
        for imported in sorted(module.imports)
        if imported.split(".")[0] == "perfgate"
        and part_of(imported) not in {module.part, *MAY_IMPORT[module.part]}
        and not (imported == "perfgate" and module.part in {"cli", "plugin"})  # for its version
    ]
    assert outward == []


@pytest.mark.parametrize("name", MODULES_MAY_IMPORT)
def test_what_must_be_light_imports_little_of_perfgate(name: str) -> None:
    (module,) = (module for module in modules() if module.name == name)
    assert {
        imported for imported in module.imports if imported.split(".")[0] == "perfgate"
    } == MODULES_MAY_IMPORT[name]


def test_every_outward_package_stays_at_home() -> None:
    strayed = [
        f"{module.name} imports {imported}"
        for module in modules()
        for imported in sorted(module.imports)
        if (package := imported.split(".")[0]) not in {"perfgate", "__future__"}
        and (package in HOMES or package not in sys.stdlib_module_names)
        and module.part not in HOMES.get(package, frozenset())
    ]
    assert strayed == []


def test_every_home_is_lived_in() -> None:
    """A home that nobody uses any more is a rule that nobody needs."""
    used = {
        (imported.split(".")[0], module.part) for module in modules() for imported in module.imports
    }
    given = {(package, part) for package, parts in HOMES.items() for part in parts}
    # The worker imports nvtx by name: it is not written as an import.
    assert given - used == {("nvtx", "execute")}


def test_no_module_imports_itself_by_way_of_others() -> None:
    inner = {
        module.name: {name for name in module.imports if name.split(".")[0] == "perfgate"}
        for module in modules()
    }
    while leaves := {
        name for name, imported in inner.items() if not imported & inner.keys() - {name}
    }:
        for leaf in leaves:
            del inner[leaf]
    assert sorted(inner) == []


def test_what_another_module_needs_is_public() -> None:
    private = [
        f"{module.name} imports {node.module}.{alias.name}"
        for module in modules()
        for node in ast.walk(tree_of(module.path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "perfgate"
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert private == []


def test_rooms_return_and_only_doors_print() -> None:
    printing = [
        f"{module.name}:{node.lineno}"
        for module in modules()
        for node in ast.walk(tree_of(module.path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"print", "input"}
    ]
    assert printing == []


def test_streams_of_the_process_are_touched_by_doors_only() -> None:
    touching = {
        module.name
        for module in modules()
        for node in ast.walk(tree_of(module.path))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) in {"sys.stdout", "sys.stderr", "sys.stdin"}
    }
    assert {name for name in touching if part_of(name) not in DOORS} == set()


def test_every_module_begins_by_saying_what_it_is() -> None:
    assert [
        module.name for module in modules() if not ast.get_docstring(tree_of(module.path))
    ] == []


def test_a_room_that_lists_its_files_lists_such_as_there_are() -> None:
    rooms = [(file.parent, file.read_text("utf-8")) for file in PACKAGE.rglob("__init__.py")]
    listed = [
        (room, name)
        for room, text in rooms
        for name in re.findall(r"^ *(\w+\.py) ", text, re.MULTILINE)
    ]
    assert listed
    assert [name for room, name in listed if not (room / name).is_file()] == []


# What is really loaded

HEAVY = ("click", "numpy", "nvtx", "psutil", "pydantic", "pynvml", "scipy", "torch", "yaml")
LOADED = f"sorted(name for name in {HEAVY!r} if name in sys.modules)"


def ask(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_package_is_light_to_import(tmp_path: Path) -> None:
    assert ask(tmp_path, "-c", f"import sys, perfgate; print({LOADED})") == "[]\n"


def test_what_runs_in_the_profiled_process_brings_nothing_heavy_but_its_records(
    tmp_path: Path,
) -> None:
    assert (
        ask(tmp_path, "-c", f"import sys, perfgate.execute.worker; print({LOADED})")
        == "['pydantic']\n"
    )


def test_a_pytest_without_a_gate_loads_three_small_modules(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n\ndef test_what_is_loaded(request):\n"
        f"    assert request.config.getoption('perfgate') is False\n    assert {LOADED} == []\n"
        "    own = sorted(name for name in sys.modules if name.split('.')[0] == 'perfgate')\n"
        "    assert own == ['perfgate', 'perfgate.model', 'perfgate.model.options', "
        "'perfgate.plugin', 'perfgate.workload']\n",
        encoding="utf-8",
    )
    # The entry point of the installed package; other plugins may load what they like.
    others = ("no:pytester", "no:hypothesispytest", "no:xdist", "no:timeout", "no:cacheprovider")
    out = ask(tmp_path, "-m", "pytest", "-q", *(word for name in others for word in ("-p", name)))
    assert "1 passed" in out


def test_the_shell_loads_what_its_command_needs_and_no_other(tmp_path: Path) -> None:
    code = (
        f"import sys; from perfgate.cli import main\ntry: main(['--version'])\n"
        f"except SystemExit: print({LOADED})"
    )
    assert ask(tmp_path, "-c", code).splitlines()[1:] == ["['click']"]


def test_every_command_of_the_shell_is_there_under_its_name() -> None:
    context = click.Context(cli.cli)
    found = {name: cli.cli.get_command(context, name) for name in cli.cli.list_commands(context)}
    assert {name: command is not None and command.name for name, command in found.items()} == {
        n: n for n in found
    }
    assert cli.cli.get_command(context, "merge_gates") is None
