"""A `sitecustomize` by which each Python process of a run logs, at its end, the files that its code
came from.

A copy of it is found by the interpreters of a run, which may be older than perfgate's own and have
nothing but their standard library; perfgate itself takes only names from here. It costs a run its
start and end, and none of its steps: so no audit hook, which the interpreter calls for each id()
and open() of a loop as well.
"""

from __future__ import annotations

import atexit
import os
import sys

FOLDER = "PERFGATE_IMPORT_LOG"
"""The variable with the folder that logs are written to; without it nothing happens."""
ON_SIGTERM = "PERFGATE_IMPORT_LOG_SIGTERM"
"""Set where a process may be ended by a signal, so that there is no end of the interpreter's own.
"""

HOLD = "PERFGATE_HOLD"
"""The variable with the folder of a run that is held: see `script_hold`."""


def log(cwd: str, opened: list[str]) -> str:
    """The files that this process has loaded or executed, as the text of a JSON object."""
    # At the end: their absence before is part of what is measured.
    import json  # noqa: PLC0415
    from importlib.util import source_from_cache  # noqa: PLC0415

    files: set[str] = set()  # no `set[str]()`: Python 3.8 knows none
    for path in opened:
        try:
            files.add(source_from_cache(path))
        except ValueError:  # no bytecode in a cache
            files.add(path)
    for name, module in list(sys.modules.items()):
        # Not getattr: it would wake up modules that import themselves lazily.
        names = getattr(module, "__dict__", {})
        file = names.get("__file__")
        if file is None and name == "__main__":
            # Python takes the name of its script away as soon as that has come to its end.
            file = getattr(names.get("__loader__"), "path", None)
        if isinstance(file, str):
            files.add(file)
    return json.dumps(
        {
            "pid": os.getpid(),
            "files": sorted({os.path.join(cwd, file) for file in files if file}),  # noqa: PTH118
        }
    )


def note_opened(noted: list[str]) -> None:
    """Note from now on each file that is opened to be executed: what is imported, by whichever
    name, and what `runpy` is given."""
    import _io  # noqa: PLC0415 - where importlib looks for it
    import io  # noqa: PLC0415

    opened = io.open_code

    def open_code(path: str) -> object:
        noted.append(str(path))
        return opened(path)

    io.open_code = _io.open_code = open_code  # type: ignore[assignment]


def watch(folder: str) -> None:
    """Write the log of this process into `folder` when it ends, on its own or by `os._exit`.

    A process forked from it, a loader's worker for example, does so as well if it has loaded
    anything by itself, also where SIGTERM ends it, as the end of a pool does.
    """
    cwd = os.getcwd()  # noqa: PTH109
    pid, leave = os.getpid(), os._exit
    opened: list[str] = []
    before_fork: list[int] = []
    # One log a process, however often it is asked: SIGTERM may come while or after it leaves by
    # itself.
    token = os.urandom(4).hex()

    def write() -> None:
        if os.getpid() != pid and [len(sys.modules), len(opened)] == before_fork:
            return
        try:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
            path = os.path.join(folder, f"{os.getpid()}-{token}")  # noqa: PTH118
            with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
                file.write(log(cwd, opened))
            os.rename(path, f"{path}.json")  # noqa: PTH104
        except Exception:  # noqa: BLE001, S110 - the run is the user's: it must not fail for this
            pass

    def exit_at_once(status: int) -> None:
        write()
        leave(status)

    def end_by_sigterm() -> None:
        import signal  # noqa: PLC0415

        def ended(number: int, _frame: object) -> None:
            write()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, ended)

    def forked() -> None:
        nonlocal token
        token = os.urandom(4).hex()
        before_fork[:] = [len(sys.modules), len(opened)]
        if "signal" in sys.modules:  # whoever ends processes by signals has it
            end_by_sigterm()

    os.register_at_fork(after_in_child=forked)
    note_opened(opened)
    atexit.register(write)
    os._exit = exit_at_once  # type: ignore[assignment]  # typed as a function that does not return
    if os.environ.get(ON_SIGTERM):
        end_by_sigterm()


def hand_over() -> None:
    """Run the `sitecustomize` that this one stands before."""
    from importlib.machinery import PathFinder  # noqa: PLC0415
    from importlib.util import module_from_spec  # noqa: PLC0415

    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    # Only behind it: before it may be that of another gate, inside whose run this is.
    behind = sys.path[sys.path.index(here) + 1 :] if here in sys.path else []
    spec = PathFinder.find_spec("sitecustomize", behind)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    if os.environ.get(HOLD):
        # The copy of script_hold.py next to this one.
        from perfgate_hold import ScriptHold  # type: ignore[import-not-found]

        ScriptHold(os.environ[HOLD]).start()  # first, so that it is the last at the end
    if os.environ.get(FOLDER):
        watch(os.environ[FOLDER])
    hand_over()
