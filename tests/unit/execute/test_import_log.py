"""What interpreters log at their end: real ones, with the import log as their `sitecustomize`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from perfgate.execute import import_log
from perfgate.execute.folder import ImportLog, read_import_logs


@pytest.fixture
def env(tmp_path: Path) -> Mapping[str, str]:
    """An environment in which interpreters log."""
    (tmp_path / "pin").mkdir()
    shutil.copyfile(import_log.__file__, tmp_path / "pin" / "sitecustomize.py")
    (tmp_path / "helper.py").touch()
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(tmp_path / "pin"),
        import_log.FOLDER: str(tmp_path / "imports"),
    }


def run(code: str, env: Mapping[str, str], tmp_path: Path, *options: str) -> str:
    (tmp_path / "script.py").write_text(code)
    command = [sys.executable, *options, "script.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    return done.stdout


def logs(tmp_path: Path) -> tuple[ImportLog, ...]:
    return read_import_logs(tmp_path / "imports")


def own(log: ImportLog, tmp_path: Path) -> set[str]:
    return {Path(file).name for file in log.files if Path(file).parent == tmp_path}


@pytest.mark.parametrize(
    "last",
    [
        "",
        "import sys; sys.exit(3)",
        "import os; os._exit(0)",
        "import os; os.chdir('/')",
        "import multiprocessing, os; os.fork() or os._exit(0); os.wait()",
        "import threading; threading.Thread(target=print).start()",
    ],
    ids=["its end", "sys.exit", "os._exit", "elsewhere", "a fork", "a thread"],
)
def test_a_script_logs_its_file_and_its_modules_however_it_ends(
    env: Mapping[str, str], tmp_path: Path, last: str
) -> None:
    run(f"import helper\n{last}\n", env, tmp_path)
    (log,) = logs(tmp_path)
    assert own(log, tmp_path) == {"script.py", "helper.py"}


FORKED = {
    "its own end": "m.get_context('fork').Process(target=work)\nc.start(); c.join()",
    "the end of a pool": "m.get_context('fork').Pool(1)\nc.apply(work); c.terminate(); c.join()",
}


@pytest.mark.parametrize("ending", FORKED.values(), ids=FORKED)
@pytest.mark.parametrize("loads", ["helper", "json"])
def test_a_forked_child_logs_if_it_loads_anything_itself(
    env: Mapping[str, str], tmp_path: Path, ending: str, loads: str
) -> None:
    code = f"import json, multiprocessing as m\ndef work():\n    import {loads}\nc = {ending}\n"
    run(code, env, tmp_path)
    loaded = [log for log in logs(tmp_path) if "helper.py" in own(log, tmp_path)]
    assert len(loaded) == (loads == "helper")


def test_a_pool_whose_worker_waits_ends_at_once(env: Mapping[str, str], tmp_path: Path) -> None:
    code = (
        "import multiprocessing, time\npool = multiprocessing.get_context('fork').Pool(1)\n"
        "pool.apply_async(time.sleep, (60,)); time.sleep(0.2)\n"
        "began = time.monotonic(); pool.terminate(); pool.join()\n"
        "print(time.monotonic() - began < 30)\n"
    )
    assert run(code, env, tmp_path) == "True\n"


@pytest.mark.parametrize("listens", [False, True])
def test_sigterm_is_only_listened_to_where_it_is_the_end_of_a_run(
    env: Mapping[str, str], tmp_path: Path, listens: bool
) -> None:
    (tmp_path / "script.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    env = {**env, import_log.ON_SIGTERM: "1"} if listens else env
    command = [sys.executable, "script.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait(timeout=30) == -signal.SIGTERM
    assert len(logs(tmp_path)) == int(listens)


def test_the_users_own_sitecustomize_runs_also_inside_the_run_of_another_gate(
    env: Mapping[str, str], tmp_path: Path
) -> None:
    shutil.copytree(tmp_path / "pin", tmp_path / "outer")
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "sitecustomize.py").write_text("print('from the user')\n")
    paths = (env["PYTHONPATH"], str(tmp_path / "outer"), str(tmp_path / "users"))
    assert run("", {**env, "PYTHONPATH": os.pathsep.join(paths)}, tmp_path) == "from the user\n"
    assert str(tmp_path / "users" / "sitecustomize.py") in logs(tmp_path)[0].files


def test_a_folder_that_cannot_be_written_or_is_not_named_does_not_fail_the_run(
    env: Mapping[str, str], tmp_path: Path
) -> None:
    assert run("print(1)", {**env, import_log.FOLDER: "/dev/null/x"}, tmp_path) == "1\n"
    assert run("print(1)", {**env, import_log.FOLDER: ""}, tmp_path) == "1\n"


def test_a_module_that_imports_itself_lazily_is_left_asleep(
    env: Mapping[str, str], tmp_path: Path
) -> None:
    lazy = (
        "import sys, types\nclass Lazy(types.ModuleType):\n"
        "    def __getattr__(self, name): print('woken by', name)\n"
        "sys.modules['lazy'] = Lazy('lazy')\n"
    )
    assert run(lazy, env, tmp_path) == ""


BY_PATH = {
    "a specification": (
        "from importlib.util import spec_from_file_location as of, module_from_spec as made\n"
        "s = of('body', 'lib/body.py'); m = made(s); s.loader.exec_module(m)"
    ),
    "runpy": "import runpy; runpy.run_path('lib/body.py')",
    "a module that is gone": "import lib.body, sys; del sys.modules['lib.body']",
    "a fork": (
        "import os, runpy\n"
        "if os.fork() == 0:\n    runpy.run_path('lib/body.py'); os._exit(0)\nos.wait()"
    ),
}


@pytest.mark.parametrize("code", BY_PATH.values(), ids=BY_PATH)
def test_files_that_are_executed_by_their_path_are_logged_and_those_that_are_read_are_not(
    env: Mapping[str, str], tmp_path: Path, code: str
) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("body", "unread"):
        (tmp_path / "lib" / f"{name}.py").touch()
    env = {**env, "PYTHONWARNINGS": "ignore"}
    run(f"open('lib/unread.py').read()\n{code}\n", env, tmp_path)
    files = {file for log in logs(tmp_path) for file in log.files}
    assert str(tmp_path / "lib" / "body.py") in files
    assert str(tmp_path / "lib" / "unread.py") not in files


def test_a_traceback_is_what_it_would_be(env: Mapping[str, str], tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "script.py").write_text("import broken\n")
    command = [sys.executable, "script.py"]
    shown = [
        subprocess.run(
            command, cwd=tmp_path, env=one, capture_output=True, text=True, check=False
        ).stderr
        for one in (env, {"PATH": env["PATH"]})
    ]
    assert "ZeroDivisionError" in shown[0]
    assert shown[0] == shown[1]


def test_what_is_no_whole_log_is_passed_over(tmp_path: Path) -> None:
    for name, text in {"1.json": "{", "2.json": "[]", "3.json": '{"pid": 1}', "4": "half"}.items():
        (tmp_path / name).write_text(text)
    whole = {"pid": 5, "files": ["/a.py"]}
    (tmp_path / "5.json").write_text(json.dumps(whole))
    assert [log.pid for log in read_import_logs(tmp_path)] == [5]
    assert read_import_logs(tmp_path / "none") == ()
