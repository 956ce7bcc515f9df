"""Which copies of a project's code are as good as its files, and which are stale."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from support.repository import Repository

from perfgate.execute.copies import executed_code, hold_to_project, loaded_code, neighbours
from perfgate.execute.proof import Witness
from perfgate.execute.side_environment import PACKAGE
from perfgate.model.errors import CodeStale
from perfgate.model.workload import Workload

FUNCTION = Workload(
    id="mlp", source="workloads/mlp.py", nodeid="workloads/mlp.py::mlp", steps=4, warmup=1
)
SITE = "venv/lib/python3.11/site-packages"
NAMED = '[project]\nname = "My.Proj"\n'
NEW, OLD = "WORD = 'new'\n", "WORD = 'old'\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A project with a package in `src`, one beside it, and a script."""
    made = Repository(tmp_path / "project")
    made.commit(
        {
            "src/proj/core.py": NEW,
            "helpers.py": NEW,
            "pyproject.toml": NAMED,
            ".gitignore": "*_gen.py\n",
        }
    )
    return made


def installed(tmp_path: Path, files: Mapping[str, str], site: str = SITE) -> None:
    for name, text in files.items():
        file = tmp_path / site / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def distribution(
    name: str, *files: str, source: Path | None = None, editable: bool = False
) -> dict[str, str]:
    """What pip leaves beside some files."""
    info = f"{name}-1.dist-info"
    told = {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\n"}
    told[f"{info}/RECORD"] = (
        "".join(f"{file},sha256=x,1\n" for file in files) + f"{info}/RECORD,,\n"
    )
    if source is not None:
        note = {"url": source.as_uri(), "dir_info": {"editable": True} if editable else {}}
        told[f"{info}/direct_url.json"] = json.dumps(note)
    return told


def told(tmp_path: Path, modules: Mapping[str, str]) -> Witness:
    files = {name: str(tmp_path / file) for name, file in modules.items()}
    return Witness(pid=1, prefixes=(str(tmp_path / "venv"), str(tmp_path / "usr")), modules=files)


def held(repository: Repository, tmp_path: Path, modules: Mapping[str, str]) -> dict[str, str]:
    return hold_to_project(FUNCTION, repository.root, [told(tmp_path, modules)], env=repository.env)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


CORE = {"proj.core": f"{SITE}/proj/core.py"}


def test_a_stale_copy_is_refused_with_both_files_and_what_to_do(
    repository: Repository, tmp_path: Path
) -> None:
    installed(tmp_path, {"proj/core.py": OLD, **distribution("my-proj", "proj/core.py")})
    with pytest.raises(CodeStale) as caught:
        held(repository, tmp_path, CORE)
    assert str(caught.value) == (
        f"mlp: proj.core was loaded from {tmp_path}/{SITE}/proj/core.py, which differs from the project's "
        "src/proj/core.py. A gate measures what is in the project.\n"
        "Install it so that its own files are loaded (pip install -e .), or install it again (pip install .)."
    )


def test_a_fresh_copy_is_as_good_as_the_files_and_is_told_as_these(
    repository: Repository, tmp_path: Path
) -> None:
    installed(
        tmp_path,
        {"proj/core.py": NEW, **distribution("my-proj", "proj/core.py", source=repository.root)},
    )
    assert held(repository, tmp_path, CORE) == {"src/proj/core.py": sha(NEW)}


@pytest.mark.parametrize(
    ("files", "modules"),
    [
        ({"helpers.py": OLD}, {"helpers": f"{SITE}/helpers.py"}),
        ({"proj/core/__init__.py": OLD}, {"proj.core": f"{SITE}/proj/core/__init__.py"}),
        ({"proj/core.py": OLD}, {"__main__": f"{SITE}/proj/core.py"}),
        ({"proj/old.py": OLD}, {"proj.old": f"{SITE}/proj/old.py"}),
        ({"my_proj/core.py": OLD}, {"my_proj.core": f"{SITE}/my_proj/core.py"}),
    ],
    ids=[
        "beside the packages",
        "a package since",
        "run by name",
        "left over",
        "by the project's own name",
    ],
)
def test_a_copy_is_stale_whatever_its_form(
    repository: Repository, tmp_path: Path, files: dict[str, str], modules: dict[str, str]
) -> None:
    repository.write({"src/proj/old.py": NEW, "my_proj/core.py": NEW})
    names = ("helpers.py", "proj/core.py", "proj/core/__init__.py")
    installed(tmp_path, {**files, **distribution("my-proj", *names)})
    with pytest.raises(CodeStale):
        held(repository, tmp_path, modules)


@pytest.mark.parametrize(
    "modules",
    [{"proj.core": "proj/core.py"}, {"__main__": "proj/core.py"}, {"helpers": "helpers.py"}],
)
@pytest.mark.parametrize(
    "config", [{}, {"pyproject.toml": "[tool.perfgate]\n"}], ids=["named", "without a name"]
)
def test_a_copy_that_nobody_installed_is_held_to_the_project_as_well(
    repository: Repository, tmp_path: Path, modules: dict[str, str], config: dict[str, str]
) -> None:
    """A folder that was copied, in front of the project on PYTHONPATH."""
    repository.write(config)
    (name, file), *_ = modules.items()
    own = file if name == "helpers" else f"src/{file}"
    installed(tmp_path, {"proj/__init__.py": "", "proj/core.py": NEW, "helpers.py": NEW}, "app")
    assert held(repository, tmp_path, {name: f"app/{file}"}) == {own: sha(NEW)}
    installed(tmp_path, {file: OLD}, "app")
    with pytest.raises(CodeStale) as caught:
        held(repository, tmp_path, {name: f"app/{file}"})
    assert str(caught.value) == (
        f"mlp: {name} was loaded from {tmp_path}/app/{file}, which differs from the project's {own}. "
        "A gate measures what is in the project.\n"
        "Take its folder off PYTHONPATH, or install the project so that its own files are loaded (pip install -e .)."
    )


@pytest.mark.parametrize(
    ("site", "more"),
    [
        ("hub/dino_main", {"hubconf.py": ""}),
        ("shared/src", {"../pyproject.toml": '[project]\nname = "shared"\n'}),
        ("usr/lib/python3/dist-packages", distribution("other", "else.py")),
        ("usr/lib/python3", {}),
    ],
    ids=[
        "a repository of torch.hub",
        "another project",
        "beside the system's packages",
        "the system's own",
    ],
)
def test_what_is_known_to_be_of_others_is_no_copy(
    repository: Repository, tmp_path: Path, site: str, more: dict[str, str]
) -> None:
    installed(tmp_path, {"helpers.py": OLD, **more}, site)
    assert held(repository, tmp_path, {"helpers": f"{site}/helpers.py"}) == {}


def test_what_another_repository_tracks_is_no_copy_and_what_merely_lies_in_it_may_be_one(
    repository: Repository, tmp_path: Path
) -> None:
    other = Repository(tmp_path / "research")
    other.commit({"helpers.py": OLD})
    other.write({"proj/core.py": OLD})
    assert held(repository, tmp_path, {"helpers": "research/helpers.py"}) == {}
    with pytest.raises(CodeStale):
        held(repository, tmp_path, {"proj.core": "research/proj/core.py"})


def test_a_script_of_ones_own_elsewhere_is_no_copy(repository: Repository, tmp_path: Path) -> None:
    installed(tmp_path, {"helpers.py": OLD}, "bin")
    assert held(repository, tmp_path, {"__main__": "bin/helpers.py"}) == {}


def test_what_building_the_project_left_tells_its_top_level_names(
    repository: Repository, tmp_path: Path
) -> None:
    installed(tmp_path, {"proj/core.py": OLD})
    assert held(repository, tmp_path, CORE) == {}
    repository.write(
        {"src/p.egg-info/PKG-INFO": "Name: p\n", "src/p.egg-info/top_level.txt": "proj\n"}
    )
    with pytest.raises(CodeStale):
        held(repository, tmp_path, CORE)


def test_what_cannot_be_read_is_only_stale_where_the_project_installed_it(
    repository: Repository, tmp_path: Path
) -> None:
    """In an archive, or deleted since."""
    installed(tmp_path, {"app.pyz": "an archive", "clone/pyproject.toml": NAMED}, ".")
    for site in ("app.pyz", "clone"):
        assert held(repository, tmp_path, {"helpers": f"{site}/helpers.py"}) == {}
    installed(tmp_path, {"helpers.py": OLD}, "clone")
    with pytest.raises(CodeStale):
        held(repository, tmp_path, {"helpers": "clone/helpers.py"})
    installed(tmp_path, distribution("my-proj", "proj/core.py"))
    with pytest.raises(CodeStale):
        held(repository, tmp_path, CORE)


def test_another_clone_is_stale_and_another_project_on_the_path_is_not(
    repository: Repository, tmp_path: Path
) -> None:
    installed(
        tmp_path,
        {"src/proj/core.py": OLD, "pyproject.toml": NAMED.replace("My.P", "my-p")},
        "clone",
    )
    with pytest.raises(CodeStale):
        held(repository, tmp_path, {"proj.core": "clone/src/proj/core.py"})
    installed(
        tmp_path, {"helpers.py": OLD, "pyproject.toml": '[project]\nname = "shared"\n'}, "shared"
    )
    assert held(repository, tmp_path, {"helpers": "shared/helpers.py"}) == {}


def linked(repository: Repository, tmp_path: Path) -> Repository:
    """Another working tree, as `git worktree add` makes it."""
    repository.git("worktree", "add", "--quiet", "-b", "feature", str(tmp_path / "linked"))
    return beside(repository, tmp_path / "linked")


def cloned(repository: Repository, tmp_path: Path) -> Repository:
    repository.git("clone", "--quiet", str(repository.top), str(tmp_path / "clone"))
    return beside(repository, tmp_path / "clone")


def beside(repository: Repository, root: Path) -> Repository:
    made = Repository.__new__(Repository)
    made.__dict__.update({**repository.__dict__, "top": root, "root": root})
    return made


@pytest.mark.parametrize("other", [linked, cloned])
@pytest.mark.parametrize("file", ["src/proj/core.py", "python/odd/core.py", "train.py"])
def test_code_of_another_working_tree_or_clone_is_stale_in_any_layout_and_under_any_name(
    repository: Repository,
    tmp_path: Path,
    other: Callable[[Repository, Path], Repository],
    file: str,
) -> None:
    repository.commit({file: OLD, "pyproject.toml": "[tool.perfgate]\n"})
    here = other(repository, tmp_path)
    for name in ("odd.core", "__main__"):
        assert held(here, tmp_path, {name: f"project/{file}"}) == {file: sha(OLD)}
    here.write({file: NEW})
    for name in ("odd.core", "__main__"):
        with pytest.raises(CodeStale) as caught:
            held(here, tmp_path, {name: f"project/{file}"})
    assert str(caught.value) == (
        f"mlp: __main__ was loaded from {tmp_path}/project/{file}, which differs from the project's {file}. "
        "A gate measures what is in the project.\n"
        "Let PYTHONPATH lead to this working tree, and install from it (pip install -e .)."
    )


def test_of_another_working_tree_only_counterparts_of_files_that_git_does_not_ignore_are_stale(
    repository: Repository, tmp_path: Path
) -> None:
    here = linked(repository, tmp_path)
    here.write({"x_gen.py": NEW, "helpers.py": NEW, "conftest.py": NEW})
    site = "project/.venv/lib/python3.11/site-packages"
    repository.write({"x_gen.py": OLD, "conftest.py": OLD, "scratch.py": OLD})
    installed(tmp_path, {"helpers.py": OLD}, site)
    modules = {name: f"project/{name}.py" for name in ("x_gen", "conftest", "scratch")}
    assert held(here, tmp_path, {**modules, "helpers": f"{site}/helpers.py"}) == {}


def test_a_working_tree_inside_another_is_another_too(
    repository: Repository, tmp_path: Path
) -> None:
    repository.git("worktree", "add", "--quiet", "-b", "feature", "lib/feature")
    inner = beside(repository, repository.root / "lib" / "feature")
    inner.write({"helpers.py": OLD})
    for of, file in ((repository, "project/lib/feature/helpers.py"), (inner, "project/helpers.py")):
        with pytest.raises(CodeStale):
            held(of, tmp_path, {"helpers": file})
    for of, file in ((inner, "project/lib/feature/helpers.py"), (repository, "project/helpers.py")):
        assert held(of, tmp_path, {"helpers": file}) == {}


@pytest.mark.parametrize("folder", ["build/lib", "build/lib.linux-x86_64-cpython-311"])
def test_what_building_the_project_left_in_it_is_a_copy(
    repository: Repository, tmp_path: Path, folder: str
) -> None:
    repository.write({".gitignore": "/build/\n/third_party/\n", f"{folder}/proj/core.py": NEW})
    modules = {"proj.core": f"project/{folder}/proj/core.py"}
    assert held(repository, tmp_path, modules) == {"src/proj/core.py": sha(NEW)}
    repository.write({f"{folder}/proj/core.py": OLD})
    with pytest.raises(CodeStale, match=r"src/proj/core\.py"):
        held(repository, tmp_path, modules)
    repository.write({"third_party/helpers.py": OLD, f"{folder}/other.py": OLD})
    files = {"helpers": "project/third_party/helpers.py", "other": f"project/{folder}/other.py"}
    assert held(repository, tmp_path, files) == {}
    repository.write({".gitignore": ""})
    assert held(repository, tmp_path, modules) == {}


def test_a_project_that_was_merged_into_a_repository_is_no_clone_of_it(
    repository: Repository, tmp_path: Path
) -> None:
    library = Repository(tmp_path / "library")
    library.commit({"tools.py": OLD})
    repository.git("fetch", "--quiet", str(library.root), "main")
    repository.git(
        "merge", "--quiet", "--allow-unrelated-histories", "-m", "a library", "FETCH_HEAD"
    )
    repository.commit({"tools.py": NEW})
    assert held(repository, tmp_path, {"tools": "library/tools.py"}) == {}
    assert held(library, tmp_path, {"tools": "project/tools.py"}) == {}


def test_a_stale_library_of_a_monorepo_is_told_from_the_root_of_its_service(tmp_path: Path) -> None:
    service = Repository(tmp_path / "project", within="apps/train")
    library = "libs/core/src/corelib/core.py"
    service.commit({"train.py": NEW, f"../../{library}": NEW})
    note = distribution("corelib", "corelib/core.py", source=service.top / "libs" / "core")
    installed(tmp_path, {"corelib/core.py": NEW, **note})
    modules = {"corelib.core": f"{SITE}/corelib/core.py"}
    assert held(service, tmp_path, modules) == {}
    installed(tmp_path, {"corelib/core.py": OLD})
    with pytest.raises(CodeStale, match=rf"differs from the project's \.\./\.\./{library}\."):
        held(service, tmp_path, modules)


@pytest.mark.parametrize("layout", ["python", "lib/inner"])
def test_what_was_installed_from_the_project_is_held_to_it_in_any_layout(
    repository: Repository, tmp_path: Path, layout: str
) -> None:
    repository.commit({f"{layout}/odd/core.py": NEW, "examples/odd/core.py": "1\n"})
    note = distribution("odd", "odd/core.py", "odd/made.py", source=repository.root)
    installed(tmp_path, {"odd/core.py": NEW, "odd/made.py": OLD, **note})
    modules = {"odd.core": f"{SITE}/odd/core.py", "odd.made": f"{SITE}/odd/made.py"}
    assert held(repository, tmp_path, modules) == {f"{layout}/odd/core.py": sha(NEW)}
    installed(tmp_path, {"odd/core.py": OLD})
    with pytest.raises(CodeStale, match=r"odd/core\.py"):
        held(repository, tmp_path, modules)


@pytest.mark.parametrize(
    "note", [None, {"archive_info": {}}, {"vcs_info": {"vcs": "git", "commit_id": "1"}}]
)
@pytest.mark.parametrize("config", ["pyproject.toml", "python/pyproject.toml", "python/setup.py"])
def test_what_bears_the_name_of_a_project_is_held_to_it_in_any_layout(
    tmp_path: Path, config: str, note: Mapping[str, object] | None
) -> None:
    repository = Repository(tmp_path / "project")
    repository.commit({"python/odd/core.py": NEW, config: NAMED})
    installed(tmp_path, {"odd/core.py": NEW, **distribution("my_proj", "odd/core.py")})
    if note is not None:
        installed(
            tmp_path,
            {"my_proj-1.dist-info/direct_url.json": json.dumps({"url": "https://a.b/c", **note})},
        )
    modules = {"odd.core": f"{SITE}/odd/core.py"}
    assert held(repository, tmp_path, modules) == {"python/odd/core.py": sha(NEW)}
    installed(tmp_path, {"odd/core.py": OLD})
    with pytest.raises(CodeStale, match=r"python/odd/core\.py"):
        held(repository, tmp_path, modules)


def test_a_projects_name_vouches_for_no_files_around_it_and_for_no_others_distribution(
    repository: Repository, tmp_path: Path
) -> None:
    named = NAMED.replace("My.Proj", "odd")
    repository.commit(
        {
            "third_party/odd/pyproject.toml": named,
            "python/odd/core.py": NEW,
            "lib/other/core.py": NEW,
        }
    )
    files = ("helpers.py", "odd/core.py")
    installed(tmp_path, {**dict.fromkeys(files, OLD), **distribution("odd", *files)})
    installed(tmp_path, {"other/core.py": OLD, **distribution("other", "other/core.py")})
    modules = {"helpers": "helpers.py", "odd.core": "odd/core.py", "other.core": "other/core.py"}
    assert (
        held(repository, tmp_path, {name: f"{SITE}/{file}" for name, file in modules.items()}) == {}
    )


@pytest.mark.parametrize(
    ("own", "files", "modules"),
    [
        ({}, {"torch/core.py": OLD}, {"torch.core": f"{SITE}/torch/core.py"}),
        ({}, {"proj/_C.cpython-311.so": OLD}, {"proj._C": f"{SITE}/proj/_C.cpython-311.so"}),
        ({}, {"proj/new.py": OLD}, {"proj.new": f"{SITE}/proj/new.py"}),
        (
            {"src/datasets/load.py": NEW},
            {"datasets/load.py": OLD},
            {"datasets.load": f"{SITE}/datasets/load.py"},
        ),
        (
            {"src/proj/_version.py": NEW},
            {"proj/_version.py": OLD},
            {"proj._version": f"{SITE}/proj/_version.py"},
        ),
        (
            {"proj/build_info.py": NEW},
            {"proj/build_info.py": OLD},
            {"proj.build_info": f"{SITE}/proj/build_info.py"},
        ),
        (
            {"proj/_git_info.py": NEW},
            {"proj/_git_info.py": OLD},
            {"proj._git_info": f"{SITE}/proj/_git_info.py"},
        ),
        (
            {"src/proj/x_gen.py": NEW},
            {"proj/x_gen.py": OLD},
            {"proj.x_gen": f"{SITE}/proj/x_gen.py"},
        ),
        ({"conftest.py": NEW}, {"conftest.py": OLD}, {"conftest": f"{SITE}/conftest.py"}),
        ({}, {"impl/core.py": OLD}, {"helpers": f"{SITE}/impl/core.py"}),
    ],
    ids=[
        "not the project's",
        "compiled",
        "not in the project",
        "another project's",
        "a version",
        "a build",
        "a revision",
        "generated",
        "a conftest",
        "another name",
    ],
)
def test_what_differs_and_is_no_copy_of_the_projects_code_passes(
    repository: Repository,
    tmp_path: Path,
    own: dict[str, str],
    files: dict[str, str],
    modules: dict[str, str],
) -> None:
    repository.write(own)
    of_project = distribution(
        "my-proj", *(file for file in files if file.startswith("proj/")), "conftest.py"
    )
    installed(tmp_path, {**files, **distribution("datasets", "datasets/load.py"), **of_project})
    versions = {"src/proj/_version.py", "proj/build_info.py", "proj/_git_info.py"}
    assert set(held(repository, tmp_path, modules)) <= versions


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("__version__ = '0'\n" + NEW, "__version__ = '1.2'\n" + NEW),
        (NEW, NEW.replace("\n", "\r\n")),
    ],
)
def test_what_a_build_writes_in_another_way_is_no_difference(
    repository: Repository, tmp_path: Path, ours: str, theirs: str
) -> None:
    repository.write({"src/proj/core.py": ours})
    installed(tmp_path, {})
    (tmp_path / SITE / "proj").mkdir(parents=True)
    (tmp_path / SITE / "proj" / "core.py").write_bytes(theirs.encode())
    assert held(repository, tmp_path, CORE) == {"src/proj/core.py": sha(ours)}


@pytest.mark.parametrize(
    ("config", "is_stale"),
    [
        ({"pyproject.toml": '[tool.poetry]\nname = "my_proj"\n'}, True),
        ({"setup.cfg": "[metadata]\nname = my-proj\n"}, True),
        ({"setup.py": "setup(name='my-proj')\n"}, True),
        ({"setup.py": "setup(**told)\n"}, False),
        ({"setup.py": "setup(name=NAME)\n", "my_proj.egg-info/PKG-INFO": "Name: my_proj\n"}, True),
        ({"setup.py": "setup(name=NAME)\n", "src/other.egg-info/PKG-INFO": "Name: other\n"}, False),
        ({"setup.py": "setup(name='other')\n"}, False),
        ({"pyproject.toml": "[tool.perfgate]\n"}, False),
        ({"pyproject.toml": "broken"}, False),
    ],
)
def test_a_project_is_known_by_the_name_that_it_is_installed_as(
    tmp_path: Path, config: dict[str, str], is_stale: bool
) -> None:
    repository = Repository(tmp_path / "project")
    repository.commit({"proj/core.py": NEW, **config})
    installed(tmp_path, {"proj/core.py": OLD, **distribution("my-proj", "proj/core.py")})
    if is_stale:
        with pytest.raises(CodeStale):
            held(repository, tmp_path, CORE)
    else:
        assert held(repository, tmp_path, CORE) == {}


def test_a_foreign_wheels_tests_are_no_copy_of_a_project_whose_name_is_not_told(
    tmp_path: Path,
) -> None:
    repository = Repository(tmp_path / "project")
    repository.commit({"tests/__init__.py": NEW, "setup.py": "setup(name=NAME)\n"})
    installed(tmp_path, {"tests/__init__.py": OLD, **distribution("wheel", "tests/__init__.py")})
    modules = {"tests": f"{SITE}/tests/__init__.py"}
    assert held(repository, tmp_path, modules) == {}
    installed(tmp_path, distribution("wheel", "tests/__init__.py", source=repository.root))
    with pytest.raises(CodeStale):
        held(repository, tmp_path, modules)


def test_files_of_the_working_tree_are_never_copies(repository: Repository, tmp_path: Path) -> None:
    """The project's own, a neighbour's in a monorepo, and what is vendored; perfgate's where it gates itself."""
    repository.commit(
        {
            "libs/proj/core.py": OLD,
            "vendor/site-packages/helpers.py": OLD,
            "services/a/proj/core.py": NEW,
        }
    )
    service = Repository.__new__(Repository)
    service.__dict__.update({**repository.__dict__, "root": repository.root / "services" / "a"})
    for of, modules in (
        (
            repository,
            {
                "proj.core": "project/src/proj/core.py",
                "helpers": "project/vendor/site-packages/helpers.py",
            },
        ),
        (service, {"proj.core": "project/libs/proj/core.py"}),
    ):
        assert held(of, tmp_path, modules) == {}
    repository.write({"perfgate/execute/proof.py": ""})
    assert (
        held(
            repository, tmp_path, {"perfgate.execute.proof": str(PACKAGE / "execute" / "proof.py")}
        )
        == {}
    )


def test_an_environment_in_the_project_holds_copies_too(
    repository: Repository, tmp_path: Path
) -> None:
    inside = "project/.venv/lib/python3.11/site-packages"
    repository.write({".venv/pyvenv.cfg": ""})
    installed(tmp_path, {"proj/core.py": OLD, **distribution("my-proj", "proj/core.py")}, inside)
    with pytest.raises(CodeStale):
        held(repository, tmp_path, {"proj.core": f"{inside}/proj/core.py"})


def test_the_standard_library_is_no_copy_of_files_that_bear_its_names(
    repository: Repository, tmp_path: Path
) -> None:
    repository.write({"types.py": NEW, "distutils/core.py": NEW})
    installed(tmp_path, {"types.py": OLD, "distutils/core.py": OLD}, "usr/lib/python3.9")
    modules = {
        "types": "usr/lib/python3.9/types.py",
        "distutils.core": "usr/lib/python3.9/distutils/core.py",
    }
    assert held(repository, tmp_path, modules) == {}


def test_without_git_copies_are_held_to_the_files_as_well(tmp_path: Path) -> None:
    installed(tmp_path, {"proj/core.py": OLD, **distribution("my-proj", "proj/core.py")})
    installed(tmp_path, {"proj/core.py": NEW, "pyproject.toml": NAMED}, "project")
    env = {"PATH": str(tmp_path), "GIT_CEILING_DIRECTORIES": str(tmp_path)}
    with pytest.raises(CodeStale):
        hold_to_project(FUNCTION, tmp_path / "project", [told(tmp_path, CORE)], env=env)


def test_a_note_of_an_editable_installation_is_no_copy(
    repository: Repository, tmp_path: Path
) -> None:
    note = distribution("odd", "odd/core.py", source=repository.root, editable=True)
    installed(tmp_path, {"odd/core.py": OLD, **note})
    repository.commit({"python/odd/core.py": NEW})
    assert held(repository, tmp_path, {"odd.core": f"{SITE}/odd/core.py"}) == {}


def test_executed_code_is_what_git_tracks_below_the_root_and_is_no_module(tmp_path: Path) -> None:
    service = Repository(tmp_path / "project", within="apps/train")
    names = ("train.py", "model.py", "unread.py", "../../libs/core.py", "vendor/site-packages/a.py")
    service.commit(dict.fromkeys(names, ""))
    service.write({"generated.py": ""})
    files = [
        str(service.root / name)
        for name in (*names, "generated.py", "gone.py")
        if name != "unread.py"
    ]
    witness = Witness(
        pid=1, prefixes=(), modules={"model": str(service.root / "model.py")}, executed=tuple(files)
    )
    assert executed_code(service.root, witness, env=service.env) == {service.root / "train.py"}


def test_neighbours_in_a_monorepo_are_what_was_loaded_beside_the_root_and_git_tracks(
    tmp_path: Path,
) -> None:
    service = Repository(tmp_path / "mono", within="apps/train")
    names = ("train.py", "../../libs/core.py", "../../libs/unread.py", "../serve/app.py")
    service.commit(dict.fromkeys(names, ""))
    service.write({"../../libs/generated.py": "", "../../../other/x.py": ""})
    loaded = (
        "train.py",
        "../../libs/core.py",
        "../../libs/generated.py",
        "../../../other/x.py",
        "../../libs/_c.so",
    )
    modules = {name: str(service.root / name) for name in loaded}
    witness = Witness(
        pid=1, prefixes=(), modules=modules, executed=(str(service.root / "../serve/app.py"),)
    )
    found = neighbours(service.root, [witness], env=service.env)
    assert found == {service.top / "libs" / "core.py", service.top / "apps" / "serve" / "app.py"}
    assert neighbours(service.top, [witness], env=service.env) == set()


def test_the_code_of_a_project_is_its_files_that_are_not_installed_in_it(tmp_path: Path) -> None:
    names = (
        "train.py",
        "lib/m.py",
        ".venv/lib/python3/site-packages/a.py",
        "env/lib/b.py",
        ".perfgate/r/w/c.py",
        "d.so",
    )
    installed(tmp_path, dict.fromkeys(names, ""), "project")
    witness = Witness(
        pid=1,
        prefixes=(str(tmp_path / "project" / "env"),),
        modules={name: str(tmp_path / "project" / name) for name in (*names, "gone.py")},
    )
    root = tmp_path / "project"
    assert loaded_code(root, [witness], env={}) == {
        root / "train.py",
        root / "lib" / "m.py",
        root / "d.so",
    }


def test_vendored_files_and_archives_are_code_of_the_project(repository: Repository) -> None:
    repository.commit({"site-packages/x.py": "", "lib.zip": ""})
    repository.write({"other/site-packages/y.py": ""})
    names = ("site-packages/x.py", "lib.zip/a/b.py", "other/site-packages/y.py")
    witness = Witness(
        pid=1,
        prefixes=(),
        modules={},
        executed=tuple(str(repository.root / name) for name in names),
    )
    found = loaded_code(repository.root, [witness], env=repository.env)
    assert found == {repository.root / "site-packages/x.py", repository.root / "lib.zip"}
