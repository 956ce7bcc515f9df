"""Which loaded modules betray that a run was not of its checkout's code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath

import pytest

from perfgate.execute.proof import Witness, prove_command, prove_measured, prove_worker, strays
from perfgate.execute.side_environment import PACKAGE
from perfgate.execute.witness import namespace
from perfgate.execute.worktree import Worktree
from perfgate.model.errors import CodeUnproven
from perfgate.model.workload import Workload

SHA = "0123456789ab" + "0" * 28
FUNCTION = Workload(
    id="mlp", source="workloads/mlp.py", nodeid="workloads/mlp.py::mlp", steps=4, warmup=1
)
AT = f"at commit {SHA[:12]}"
ENVIRONMENT = (
    "The baseline's code was to be measured.\n"
    "Let duet_setup make an environment of the checkout's own, and name its interpreter in duet_python."
)
SILENCE = (
    "A program that is not Python says nothing, nor does python -I, -S or -E, nor one that is killed.\n"
    'Leave such options out of the command, or judge by stored values: without --perfgate-against, with duet = "off".'
)


@pytest.fixture
def tree(tmp_path: Path) -> Worktree:
    """A checkout below a project, neither with files so far."""
    origin = tmp_path / "project"
    top = origin / ".perfgate" / "worktrees" / "0123456789ab-00000000" / "checkout"
    top.mkdir(parents=True)
    return Worktree(top=top, root=top, commit=SHA, origin=origin, origin_top=origin)


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


def told(
    tmp_path: Path, modules: Mapping[str, str], *, prefix: str = "usr", pid: int = 1
) -> Witness:
    """A witness of modules, by their files from the test's folder."""
    files = {name: str(tmp_path / file) for name, file in modules.items()}
    return Witness(pid=pid, prefixes=(str(tmp_path / prefix),), modules=files)


CHECKOUT = "project/.perfgate/worktrees/0123456789ab-00000000/checkout"
SITE = "usr/lib/python3/site-packages"


@pytest.mark.parametrize(
    ("there", "modules", "found"),
    [
        ([], {"proj.core": "project/src/proj/core.py"}, ["proj.core from src/proj/core.py"]),
        (
            [],
            {"proj._C": "project/build/_C.cpython-311.so"},
            ["proj._C from build/_C.cpython-311.so"],
        ),
        ([], {"__main__": "project/train.py"}, ["__main__ from train.py"]),
        (
            [],
            {"other": "project/.perfgate/worktrees/x/checkout/a.py"},
            ["other from .perfgate/worktrees/x/checkout/a.py"],
        ),
        (
            [],
            {
                "proj": f"{CHECKOUT}/src/proj/__init__.py",
                "sitecustomize": f"{CHECKOUT}/../worker/sitecustomize.py",
            },
            [],
        ),
        (
            [],
            {"torch": f"{SITE}/torch/__init__.py", "json": "usr/lib/python3/json/__init__.py"},
            [],
        ),
        (["proj/__init__.py"], {"proj": f"{SITE}/proj/__init__.py"}, ["proj"]),
        (["src/proj/__init__.py"], {"proj": f"{SITE}/proj/__init__.py"}, ["proj"]),
        (["proj.py"], {"proj": f"{SITE}/proj.py"}, ["proj"]),
        (
            ["space/proj/core.py"],
            {"space.proj.core": f"{SITE}/space/proj/core.py"},
            ["space.proj.core"],
        ),
        (["proj/_C.cpython-311.so"], {"proj._C": f"{SITE}/proj/_C.abi3.so"}, ["proj._C"]),
        # A folder that only bears the name of what is installed, and a file that bears one of the standard library's.
        (["datasets/load_mine.py"], {"datasets": f"{SITE}/datasets/__init__.py"}, []),
        (["types.py", "profile.py"], {"types": "usr/lib/python3/types.py"}, []),
        (["__main__.py"], {"__main__": "usr/bin/torchrun"}, []),
        # An environment inside the project, or inside the checkout.
        ([], {"torch": "project/.venv/lib/python3/site-packages/torch/__init__.py"}, []),
        (["proj.py"], {"proj": "project/.venv/lib/python3/site-packages/proj.py"}, ["proj"]),
        (["proj.py"], {"proj": f"{CHECKOUT}/.venv/lib/python3/site-packages/proj.py"}, []),
    ],
)
def test_modules_of_the_project_from_elsewhere_are_strays(
    tree: Worktree, tmp_path: Path, there: list[str], modules: dict[str, str], found: list[str]
) -> None:
    write(tree.root, *there)
    expected = [
        one if " from " in one else f"{one} from {tmp_path / modules[one]}" for one in found
    ]
    assert list(strays(told(tmp_path, modules), tree, own=None)) == expected


def test_an_interpreter_below_the_project_is_not_the_project(
    tree: Worktree, tmp_path: Path
) -> None:
    modules = {"json": "project/env/lib/python3/json/__init__.py"}
    assert strays(told(tmp_path, modules, prefix="project/env"), tree, own=None) == ()
    assert strays(told(tmp_path, modules, prefix="project"), tree, own=None) != ()


def test_links_are_followed_before_anything_is_said(tree: Worktree, tmp_path: Path) -> None:
    write(tmp_path / "project", "src/proj.py")
    (tmp_path / "link").symlink_to(tmp_path / "project")
    assert strays(told(tmp_path, {"proj": "link/src/proj.py"}), tree, own=None) == (
        "proj from src/proj.py",
    )


def test_files_of_the_project_that_were_executed_by_their_path_are_strays(
    tree: Worktree, tmp_path: Path
) -> None:
    write(tmp_path / "project", "lib/body.py", "perfgate/execute/worker/steps.py")
    files = (
        "project/lib/body.py",
        f"{CHECKOUT}/lib/body.py",
        f"{CHECKOUT}/../worker/sitecustomize.py",
        "project/env/lib/python3/x.py",
        "project/.venv/lib/python3/site-packages/x.py",
        "project/perfgate/execute/worker/steps.py",
        f"{SITE}/torch/hub.py",
        "project/proj.py",
    )
    made = told(tmp_path, {"proj": "project/proj.py"}, prefix="project/env")
    made = replace(made, executed=tuple(str(tmp_path / file) for file in files))
    own = tree.origin / "perfgate"
    assert strays(made, tree, own=own) == ("proj from proj.py", "lib/body.py")


def test_what_is_vendored_in_a_folder_of_that_name_is_the_projects(
    tree: Worktree, tmp_path: Path
) -> None:
    mine = replace(tree, vendored=frozenset({PurePath("vendor/site-packages")}))
    file = "vendor/site-packages/eng/__init__.py"
    there, here = (
        told(tmp_path, {"eng": f"{CHECKOUT}/{file}"}),
        told(tmp_path, {"eng": f"project/{file}"}),
    )
    assert strays(there, mine, own=None) == ()
    assert strays(here, mine, own=None) == (f"eng from {file}",)
    named = COMMAND.model_copy(update={"command": ("python", "-m", "eng")})
    prove_command(named, mine, (there,))
    assert "no file of that commit was loaded" in unproven(tree, there, workload=named)


def test_neighbours_in_a_monorepo_are_the_projects_too(tree: Worktree, tmp_path: Path) -> None:
    mono = Worktree(
        top=tree.top,
        root=tree.top / "services" / "train",
        commit=SHA,
        origin=tree.origin / "services" / "train",
        origin_top=tree.origin_top,
    )
    write(mono.root, "proj.py")
    found = strays(
        told(tmp_path, {"core": "project/libs/core.py", "proj": f"{SITE}/proj.py"}), mono, own=None
    )
    assert found == ("core from libs/core.py", f"proj from {tmp_path / SITE / 'proj.py'}")


@pytest.mark.parametrize(
    ("source", "more", "is_stray"),
    [
        ("project", {}, True),
        ("project/libs/core", {}, True),
        ("project", {"editable": True}, True),
        ("elsewhere", {}, False),
        ("elsewhere", {"editable": True}, False),
        (CHECKOUT, {}, False),
    ],
)
def test_what_was_installed_from_the_repository_is_its_own_in_any_layout(
    tree: Worktree, tmp_path: Path, source: str, more: dict[str, bool], is_stray: bool
) -> None:
    info = tmp_path / SITE / "proj-1.dist-info"
    write(tmp_path / SITE, "proj-1.dist-info/RECORD", "proj_ops.cpython-311.so")
    (info / "direct_url.json").write_text(
        json.dumps({"url": (tmp_path / source).as_uri(), "dir_info": more})
    )
    (info / "RECORD").write_text(
        "proj_ops.cpython-311.so,,\nproj-1.dist-info/RECORD,,\n../../../bin/proj,,\n"
    )
    modules = {"proj_ops": f"{SITE}/proj_ops.cpython-311.so", "torch": f"{SITE}/torch/__init__.py"}
    assert bool(strays(told(tmp_path, modules), tree, own=None)) is is_stray


@pytest.mark.parametrize(
    ("name", "note", "is_stray"),
    [
        ("odd", {}, True),
        ("odd", {"url": "https://a.b/odd-1-py3-none-any.whl", "archive_info": {}}, True),
        ("odd", {"url": "file:///a/clone", "dir_info": {}}, True),
        ("odd", {"url": "file:///a/clone", "dir_info": {"editable": True}}, True),
        ("other", {"url": "file:///a/clone", "dir_info": {"editable": True}}, False),
        (
            "odd",
            {"url": f"file:///{CHECKOUT}/dist/odd-1-py3-none-any.whl", "archive_info": {}},
            False,
        ),
        ("other", {}, False),
        (
            "other",
            {"url": "file:///project/dist/odd-1-py3-none-any.whl", "archive_info": {}},
            False,
        ),
    ],
)
def test_what_bears_the_name_of_a_project_of_the_repository_is_its_own_in_any_layout(
    tree: Worktree, tmp_path: Path, name: str, note: dict[str, str], is_stray: bool
) -> None:
    write(tmp_path / SITE, "Odd-1.dist-info/RECORD", "odd/core.py")
    (tmp_path / SITE / "Odd-1.dist-info" / "RECORD").write_text("odd/core.py,,\n")
    told_of = json.dumps(note).replace("file:///p", f"{tmp_path.as_uri()}/p")
    (tmp_path / SITE / "Odd-1.dist-info" / "direct_url.json").write_text(told_of)
    mine = replace(tree, names=frozenset({name}))
    modules = {"odd.core": f"{SITE}/odd/core.py", "torch": f"{SITE}/torch/__init__.py"}
    assert bool(strays(told(tmp_path, modules), mine, own=None)) is is_stray


FINDERS = {
    "_editable_skbc_fast.pth": "import _editable_skbc_fast\n",
    "__editable__.fast-1.pth": "import __editable___fast_1_finder; __editable___fast_1_finder.install()\n",
    "_fast.pth": "# a comment\n/projects/fast/src\n",
}


def test_compiled_code_of_an_installation_in_place_is_the_projects_and_what_leads_to_it_is_not(
    tree: Worktree, tmp_path: Path
) -> None:
    """As scikit-build-core and maturin leave it."""
    site, info = tmp_path / SITE, "fast-1.dist-info"
    modules = (
        "fast.cpython-311.so",
        "space/fast/_c.abi3.so",
        "_editable_skbc_fast.py",
        "__editable___fast_1_finder.py",
    )
    write(site, *modules, "space/other/_c.abi3.so", f"{info}/RECORD")
    for name, text in FINDERS.items():
        (site / name).write_text(text)
    record = (
        *modules,
        *FINDERS,
        "missing.pth",
        f"{info}/RECORD",
        f"{info}/METADATA",
        "../../../bin/fast",
    )
    (site / info / "RECORD").write_text("".join(f"{name},sha256=x,1\n" for name in record))
    url = (tmp_path / "project").as_uri()
    (site / info / "direct_url.json").write_text(
        json.dumps({"url": url, "dir_info": {"editable": True}})
    )
    loaded = {
        "fast": f"{SITE}/fast.cpython-311.so",
        "space.fast._c": f"{SITE}/space/fast/_c.abi3.so",
        "space.other._c": f"{SITE}/space/other/_c.abi3.so",
        "_editable_skbc_fast": f"{SITE}/_editable_skbc_fast.py",
        "__editable___fast_1_finder": f"{SITE}/__editable___fast_1_finder.py",
    }
    assert strays(told(tmp_path, loaded), tree, own=None) == (
        f"fast from {site}/fast.cpython-311.so",
        f"space.fast._c from {site}/space/fast/_c.abi3.so",
    )


@pytest.mark.parametrize(
    "note", ["{", "[]", "{}", '{"dir_info": {}}', '{"url": 1, "dir_info": {}}']
)
def test_a_broken_note_of_an_installation_says_nothing(
    tree: Worktree, tmp_path: Path, note: str
) -> None:
    write(tmp_path / SITE, "x-1.dist-info/RECORD")
    (tmp_path / SITE / "x-1.dist-info" / "direct_url.json").write_text(note)
    assert strays(told(tmp_path, {"x": f"{SITE}/x.py"}), tree, own=None) == ()


def test_the_worker_must_run_the_perfgate_of_the_gate_even_where_the_project_holds_one(
    tree: Worktree, tmp_path: Path
) -> None:
    write(tree.root, "perfgate/__init__.py")
    own = tree.origin / "perfgate"
    (tree.home / "worker").mkdir()
    (tree.home / "worker" / "perfgate").symlink_to(own)
    pinned = told(
        tmp_path,
        {"perfgate.execute.worker.steps": f"{CHECKOUT}/../worker/perfgate/execute/worker/steps.py"},
    )
    assert strays(pinned, tree, own=own) == ()
    older = told(tmp_path, {"perfgate": f"{CHECKOUT}/perfgate/__init__.py"})
    assert strays(older, tree, own=own) == (
        f"perfgate from {tree.top / 'perfgate' / '__init__.py'}",
    )
    assert strays(older, tree, own=None) == ()


# What is said of them


def unproven(
    tree: Worktree, *witnesses: Witness, workload: Workload = FUNCTION, code: tuple[str, ...] = ()
) -> str:
    prove = partial(prove_worker, pid=1, code=code) if workload.command is None else prove_command
    with pytest.raises(CodeUnproven) as caught:
        prove(workload, tree, witnesses)
    return str(caught.value)


def test_a_worker_that_said_all_is_proven(tree: Worktree, tmp_path: Path) -> None:
    mine = told(
        tmp_path,
        {"workloads.mlp": f"{CHECKOUT}/workloads/mlp.py", "perfgate": str(PACKAGE / "__init__.py")},
    )
    prove_worker(
        FUNCTION, tree, (mine, told(tmp_path, {}, pid=2)), pid=1, code=("workloads/mlp.py",)
    )


def test_a_workload_behind_a_link_within_the_commit_is_the_file_that_was_loaded(
    tree: Worktree, tmp_path: Path
) -> None:
    write(tree.root, "real/wl/mlp.py")
    (tree.root / "linked").symlink_to("real/wl")
    linked = FUNCTION.model_copy(update={"source": "linked/mlp.py"})
    prove_worker(linked, tree, (told(tmp_path, {}),), pid=1, code=("real/wl/mlp.py",))
    (tree.root / "elsewhere").symlink_to(tmp_path)
    away = FUNCTION.model_copy(update={"source": "elsewhere/mlp.py"})
    assert "elsewhere/mlp.py was not loaded from it" in unproven(
        tree, told(tmp_path, {}), workload=away, code=("mlp.py",)
    )


def test_the_first_strays_are_named_and_the_rest_counted(tree: Worktree, tmp_path: Path) -> None:
    many = told(tmp_path, {f"m{n}": f"project/m{n}.py" for n in range(5)})
    assert unproven(tree, many, many) == (
        f"mlp {AT}: code of the project was loaded from elsewhere "
        f"(m0 from m0.py, m1 from m1.py, m2 from m2.py and 2 more). {ENVIRONMENT}"
    )


def test_a_stray_of_a_commit_with_submodules_says_that_they_are_not_checked_out(
    tree: Worktree, tmp_path: Path
) -> None:
    write(tree.top, ".gitmodules")
    assert unproven(tree, told(tmp_path, {"m": "project/m.py"})).endswith(
        "in duet_python. Submodules are not checked out; duet_setup can do it, by "
        "`git submodule update --init --recursive`."
    )


def test_a_worker_that_said_nothing_is_unproven(tree: Worktree, tmp_path: Path) -> None:
    other = told(tmp_path, {}, pid=2)
    fact = "the worker did not say which code it loaded"
    assert unproven(tree, other, code=("workloads/mlp.py",)) == f"mlp {AT}: {fact}. {SILENCE}"


def test_a_worker_that_did_not_load_the_workload_is_unproven(
    tree: Worktree, tmp_path: Path
) -> None:
    assert unproven(tree, told(tmp_path, {}), code=("other.py",)) == (
        f"mlp {AT}: workloads/mlp.py was not loaded from it. {ENVIRONMENT}"
    )


COMMAND = Workload(
    id="train", source="w/train.yaml", command=("torchrun", "train.py", "c.yaml"), steps=4, warmup=0
)


def test_a_command_is_proven_by_the_process_that_ran_its_script(
    tree: Worktree, tmp_path: Path
) -> None:
    write(tree.root, "train.py", "c.yaml", "cfg/train.py")
    launcher = told(tmp_path, {"__main__": "usr/bin/torchrun"})
    prove_command(COMMAND, tree, (launcher, told(tmp_path, {"__main__": f"{CHECKOUT}/train.py"})))
    there = COMMAND.model_copy(update={"cwd": "cfg"})
    prove_command(there, tree, (told(tmp_path, {"__main__": f"{CHECKOUT}/cfg/train.py"}),))


def test_a_module_that_is_run_by_name_is_proven_by_its_file(tree: Worktree, tmp_path: Path) -> None:
    named = COMMAND.model_copy(update={"command": ("python", "-m", "proj.train", "x" * 5000)})
    prove_command(named, tree, (told(tmp_path, {"__main__": f"{CHECKOUT}/proj/train.py"}),))


def test_a_command_that_nobody_spoke_for_is_unproven(tree: Worktree) -> None:
    fact = "no Python process of its command said which code it loaded"
    assert unproven(tree, workload=COMMAND) == f"train {AT}: {fact}. {SILENCE}"


@pytest.mark.parametrize(
    ("measured", "elsewhere", "is_proven"),
    [
        ((2,), "", True),
        ((1, 2), "", True),
        ((2, 3), "", False),
        ((0,), "", True),
        ((3,), "pid:[1]", True),
    ],
    ids=["it spoke", "both", "a silent one", "unknown", "in a container"],
)
def test_the_process_that_took_the_steps_must_have_spoken(
    tree: Worktree, measured: tuple[int, ...], elsewhere: str, is_proven: bool
) -> None:
    spoke = [
        Witness(pid=pid, prefixes=(), modules={}, namespace=elsewhere or namespace())
        for pid in (1, 2)
    ]
    if is_proven:
        prove_measured(COMMAND, tree, spoke, measured=measured)
        return
    with pytest.raises(CodeUnproven) as caught:
        prove_measured(COMMAND, tree, spoke, measured=measured)
    fact = "process 3, which took the steps, did not say what it loaded"
    assert str(caught.value) == f"train {AT}: {fact}. {SILENCE}"


@pytest.mark.parametrize(
    "file", ["usr/bin/torchrun", f"{CHECKOUT}/.venv/lib/python3/site-packages/x.py"]
)
def test_a_command_that_loaded_nothing_of_the_commit_is_unproven(
    tree: Worktree, tmp_path: Path, file: str
) -> None:
    assert unproven(tree, told(tmp_path, {"x": file}), workload=COMMAND) == (
        f"train {AT}: no file of that commit was loaded. {ENVIRONMENT}"
    )


def test_a_script_that_no_process_ran_is_named(tree: Worktree, tmp_path: Path) -> None:
    write(tree.root, "train.py", "model.py")
    loaded = told(tmp_path, {"model": f"{CHECKOUT}/model.py"})
    assert unproven(tree, loaded, workload=COMMAND) == (
        f"train {AT}: no process said that it ran train.py. {SILENCE}"
    )


def test_a_script_beside_the_projects_root_that_no_process_ran_is_named(
    tree: Worktree, tmp_path: Path
) -> None:
    service = replace(tree, root=tree.top / "apps" / "train")
    write(tree.top, "tools/train.py", "apps/train/model.py")
    loaded = told(tmp_path, {"model": f"{CHECKOUT}/apps/train/model.py"})
    workload = COMMAND.model_copy(update={"command": ("python", "../../tools/train.py")})
    assert unproven(service, loaded, workload=workload) == (
        f"train {AT}: no process said that it ran ../../tools/train.py. {SILENCE}"
    )
