"""What interpreters say of themselves at their end: real ones, with the witness as their `sitecustomize`."""

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

from perfgate.execute import witness
from perfgate.execute.proof import Witness, read_witnesses


@pytest.fixture
def env(tmp_path: Path) -> Mapping[str, str]:
    """An environment with a witness in it."""
    (tmp_path / "pin").mkdir()
    shutil.copyfile(witness.__file__, tmp_path / "pin" / "sitecustomize.py")
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(tmp_path / "pin"),
        witness.FOLDER: str(tmp_path / "witnesses"),
        witness.WHOLE: "1",
    }


def run(code: str, env: Mapping[str, str], tmp_path: Path, *options: str) -> str:
    (tmp_path / "script.py").write_text(code)
    command = [sys.executable, *options, "script.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    return done.stdout


def only(tmp_path: Path) -> Witness:
    (found,) = read_witnesses(tmp_path / "witnesses")
    return found


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
def test_a_script_tells_its_file_and_its_modules_however_it_ends(
    env: Mapping[str, str], tmp_path: Path, last: str
) -> None:
    (tmp_path / "helper.py").write_text("")
    run(f"import helper\n{last}\n", env, tmp_path)
    told = only(tmp_path)
    assert told.modules["__main__"] == str(tmp_path / "script.py")
    assert told.modules["helper"] == str(tmp_path / "helper.py")
    assert set(told.prefixes) == {sys.prefix, sys.base_prefix, sys.exec_prefix}


def test_a_script_that_raises_tells_as_well(env: Mapping[str, str], tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", "1/0"], cwd=tmp_path, env=env, capture_output=True, check=False
    )
    assert "__main__" not in only(tmp_path).modules


def test_a_child_tells_for_itself(env: Mapping[str, str], tmp_path: Path) -> None:
    run(
        "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'this'], stdout=-3)",
        env,
        tmp_path,
    )
    mains = {Path(told.modules["__main__"]).name for told in read_witnesses(tmp_path / "witnesses")}
    assert mains == {"script.py", "this.py"}


FORKED = {
    "multiprocessing's own end": "multiprocessing.get_context('fork').Process(target=work)\nc.start(); c.join()",
    "the end of a pool": "multiprocessing.get_context('fork').Pool(1)\nc.apply(work); c.terminate(); c.join()",
}


@pytest.mark.parametrize("ending", FORKED.values(), ids=FORKED)
@pytest.mark.parametrize("loads", ["helper", "json"])
def test_a_forked_child_tells_what_it_has_loaded_itself(
    env: Mapping[str, str], tmp_path: Path, ending: str, loads: str
) -> None:
    (tmp_path / "helper.py").write_text("")
    run(
        f"import json, multiprocessing\ndef work():\n    import {loads}\nc = {ending}\n",
        env,
        tmp_path,
    )
    told = [one.modules for one in read_witnesses(tmp_path / "witnesses")]
    assert [one["helper"] for one in told if "helper" in one] == [str(tmp_path / "helper.py")] * (
        loads == "helper"
    )


@pytest.mark.parametrize("moment", ["open", "rename"])
def test_sigterm_while_or_after_a_process_leaves_by_itself_makes_no_second_account(
    env: Mapping[str, str], tmp_path: Path, moment: str
) -> None:
    (tmp_path / "helper.py").write_text("")
    code = (
        "import builtins, multiprocessing, os, signal\n"
        "def work():\n"
        "    import helper\n"
        f"    where = {'builtins' if moment == 'open' else 'os'}\n"
        f"    {moment} = where.{moment}\n"
        f"    def ended_by_the_pool(*args, **kwargs):\n"
        f"        where.{moment} = {moment}\n"
        f"        done = {moment}(*args, **kwargs)\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        return done\n"
        f"    where.{moment} = ended_by_the_pool\n"
        "child = multiprocessing.get_context('fork').Process(target=work)\n"
        "child.start(); child.join(); print(child.exitcode)\n"
    )
    assert run(code, env, tmp_path) == f"{-signal.SIGTERM}\n"
    told = [one.modules for one in read_witnesses(tmp_path / "witnesses")]
    assert [one["helper"] for one in told if "helper" in one] == [str(tmp_path / "helper.py")]
    assert len(told) == 2
    assert not [left for left in (tmp_path / "witnesses").iterdir() if left.suffix != ".json"]


def test_a_pool_whose_worker_waits_ends_at_once(env: Mapping[str, str], tmp_path: Path) -> None:
    code = (
        "import multiprocessing, time\n"
        "pool = multiprocessing.get_context('fork').Pool(1)\n"
        "pool.apply_async(time.sleep, (60,)); time.sleep(0.2)\n"
        "began = time.monotonic(); pool.terminate(); pool.join()\n"
        "print(time.monotonic() - began < 30)\n"
    )
    assert run(code, env, tmp_path) == "True\n"


@pytest.mark.parametrize("told", [False, True])
def test_sigterm_is_only_listened_to_where_it_is_the_end_of_a_run(
    env: Mapping[str, str], tmp_path: Path, told: bool
) -> None:
    (tmp_path / "script.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    env = {**env, witness.ON_SIGTERM: "1"} if told else env
    command = [sys.executable, "script.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait(timeout=30) == -signal.SIGTERM
    assert len(read_witnesses(tmp_path / "witnesses")) == int(told)


def test_the_users_own_sitecustomize_runs_and_is_the_one_that_is_loaded(
    env: Mapping[str, str], tmp_path: Path
) -> None:
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "sitecustomize.py").write_text("print('from the user')\n")
    env = {**env, "PYTHONPATH": f"{env['PYTHONPATH']}:{tmp_path / 'users'}"}
    assert run("import sitecustomize as s; print(s.__file__)", env, tmp_path).splitlines() == [
        "from the user",
        str(tmp_path / "users" / "sitecustomize.py"),
    ]
    assert only(tmp_path).modules["sitecustomize"] == str(tmp_path / "users" / "sitecustomize.py")


def test_inside_the_run_of_another_gate_both_witnesses_hand_over(
    env: Mapping[str, str], tmp_path: Path
) -> None:
    shutil.copytree(tmp_path / "pin", tmp_path / "outer")
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "sitecustomize.py").write_text("print('from the user')\n")
    paths = (env["PYTHONPATH"], str(tmp_path / "outer"), str(tmp_path / "users"))
    assert run("", {**env, "PYTHONPATH": os.pathsep.join(paths)}, tmp_path) == "from the user\n"
    assert {one.modules["__main__"] for one in read_witnesses(tmp_path / "witnesses")} == {
        str(tmp_path / "script.py")
    }


def test_in_a_folder_that_was_deleted_the_users_own_sitecustomize_runs_too(
    env: Mapping[str, str], tmp_path: Path
) -> None:
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "sitecustomize.py").write_text("print('from the user')\n")
    (tmp_path / "gone").mkdir()
    env = {**env, "PYTHONPATH": f"{env['PYTHONPATH']}:{tmp_path / 'users'}"}
    script = f"rmdir '{tmp_path / 'gone'}'; exec '{sys.executable}' -c 'print(1)'"
    command = ["sh", "-c", script]
    done = subprocess.run(
        command, cwd=tmp_path / "gone", env=env, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("from the user\n1\n", "")
    assert only(tmp_path).modules["sitecustomize"] == str(tmp_path / "users" / "sitecustomize.py")


def test_without_a_folder_nothing_is_told(env: Mapping[str, str], tmp_path: Path) -> None:
    run("", {name: value for name, value in env.items() if name != witness.FOLDER}, tmp_path)
    assert not (tmp_path / "witnesses").exists()


def test_a_folder_that_cannot_be_written_does_not_fail_the_run(
    env: Mapping[str, str], tmp_path: Path
) -> None:
    assert run("print(1)", {**env, witness.FOLDER: "/dev/null/x"}, tmp_path) == "1\n"


def test_a_module_that_imports_itself_lazily_is_left_asleep(
    env: Mapping[str, str], tmp_path: Path
) -> None:
    lazy = (
        "import sys, types\n"
        "class Lazy(types.ModuleType):\n"
        "    def __getattr__(self, name): print('woken by', name)\n"
        "sys.modules['lazy'] = Lazy('lazy')\n"
    )
    assert run(lazy, env, tmp_path) == ""


@pytest.mark.parametrize("option", ["-I", "-S", "-E"])
def test_an_interpreter_that_does_not_look_says_nothing(
    env: Mapping[str, str], tmp_path: Path, option: str
) -> None:
    run("", env, tmp_path, option)
    assert read_witnesses(tmp_path / "witnesses") == ()


def test_it_costs_nothing_while_a_script_runs(env: Mapping[str, str], tmp_path: Path) -> None:
    """Threads, traces and hooks would; the only thing of it that is called before the end is its own start."""
    code = (
        "import signal, sys, threading\n"
        "print(threading.active_count(), sys.gettrace(), sys.getprofile(), signal.getsignal(signal.SIGTERM).name,"
        "      [finder for finder in sys.meta_path if 'sitecustomize' in str(finder)])\n"
    )
    assert run(code, env, tmp_path) == "1 None None SIG_DFL []\n"


BY_PATH = {
    "a specification": (
        "from importlib.util import spec_from_file_location as of, module_from_spec as made\n"
        "s = of('body', 'lib/body.py'); m = made(s); s.loader.exec_module(m)"
    ),
    "a loader": "from importlib.machinery import SourceFileLoader as L; L('body', 'lib/body.py').load_module()",
    "runpy": "import runpy; runpy.run_path('lib/body.py')",
    "a module that is gone": "import lib.body, sys; del sys.modules['lib.body']",
    "a fork": (
        "import os, runpy\nif os.fork() == 0:\n    runpy.run_path('lib/body.py'); os._exit(0)\nos.wait()"
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", BY_PATH.values(), ids=BY_PATH)
@pytest.mark.parametrize("again", [False, True], ids=["first", "from its cache"])
def test_files_that_are_executed_by_their_path_are_told(
    env: Mapping[str, str], tmp_path: Path, code: str, again: bool
) -> None:
    """A function of theirs may be all that is left at the end."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "body.py").write_text("")
    (tmp_path / "lib" / "unread.py").write_text("")
    env = {**env, "PYTHONWARNINGS": "ignore"}
    for _ in range(1 + again):
        shutil.rmtree(tmp_path / "witnesses", ignore_errors=True)
        run(f"open('lib/unread.py').read()\n{code}\n", env, tmp_path)
    told = {path for one in read_witnesses(tmp_path / "witnesses") for path in one.executed}
    assert str(tmp_path / "lib" / "body.py") in told
    assert not [path for path in told if path.endswith("unread.py")]


def test_a_traceback_through_a_noted_module_is_what_it_would_be(
    env: Mapping[str, str], tmp_path: Path
) -> None:
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


def test_of_what_may_keep_silent_nothing_is_touched_before_its_end(
    env: Mapping[str, str], tmp_path: Path
) -> None:
    """A command in the project: no loader, no fork, no signal; it says what it has loaded, and no more."""
    (tmp_path / "helper.py").write_text("")
    code = (
        "import importlib.machinery as m, io, os, signal, helper\n"
        "print('sitecustomize' in (m.SourceFileLoader.exec_module.__module__, io.open_code.__module__))\n"
        "if os.fork() == 0:\n    print(signal.getsignal(signal.SIGTERM).name, flush=True); os._exit(0)\n"
        "os.wait()\n"
    )
    env = {name: value for name, value in env.items() if name != witness.WHOLE}
    assert run(code, {**env, "PYTHONUNBUFFERED": "1"}, tmp_path).split() == ["False", "SIG_DFL"]
    told = only(tmp_path)
    assert (told.modules["helper"], told.executed) == (str(tmp_path / "helper.py"), ())
    shutil.rmtree(tmp_path / "witnesses")
    env = {**env, witness.EXECUTED: "1", "PYTHONUNBUFFERED": "1"}
    assert run(code, env, tmp_path).split() == ["True", "SIG_DFL"]
    assert str(tmp_path / "helper.py") in only(tmp_path).executed


def test_accounts_that_are_none_are_passed_over(tmp_path: Path) -> None:
    for name, text in {"1.json": "{", "2.json": "[]", "3.json": '{"pid": 1}', "4": "half"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "5.json").write_text(
        json.dumps({"pid": 5, "prefixes": ["/usr"], "modules": {"a": "/a.py"}})
    )
    assert read_witnesses(tmp_path) == (Witness(pid=5, prefixes=("/usr",), modules={"a": "/a.py"}),)
    assert read_witnesses(tmp_path / "none") == ()


def test_a_child_killed_before_its_end_leaves_no_half_account(
    env: Mapping[str, str], tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text("import time\nprint(flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "script.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    assert not (tmp_path / "witnesses").exists()
