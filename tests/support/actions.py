"""GitHub Actions without GitHub: expressions, the events that start workflows, and a runner of
`run:` steps.

A step runs as the runner runs it: its script in a file, by `bash --noprofile --norc -eo pipefail`,
in an environment of its own, with the files by which it speaks to the runner.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import yaml
from support.repository import run_git

from perfgate.model.document import GateDocument
from perfgate.model.document_text import read_document

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
ACTION = ROOT / ".github" / "actions" / "perfgate" / "action.yml"

Yaml = Mapping[str, Any]


class _Loader(yaml.SafeLoader):
    """YAML 1.2's booleans: `on` is a key of workflows, not True."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"true|false"), list("tf"))


def load(file: Path) -> Yaml:
    """A workflow or action as data."""
    loaded = yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader)
    assert isinstance(loaded, dict), file
    return loaded


def inputs_of_action(**given: str) -> dict[str, str]:
    """What the action is given: these, and of the others their defaults."""
    defaults = {name: declared["default"] for name, declared in load(ACTION)["inputs"].items()}
    named = {name.replace("_", "-"): text for name, text in given.items()}
    return {**defaults, "python": sys.executable, **named}


# Expressions

_TOKEN = re.compile(
    r"(?P<text>'(?:[^']|'')*')|(?P<call>\w+(?=\())|(?P<name>[A-Za-z_][\w-]*(?:\.[\w*-]+)*)"
    r"|(?P<sign>&&|\|\||!(?!=))"
)
_PYTHON = {"&&": " and ", "||": " or ", "!": " not ", "true": "True", "false": "False"}
_PLACE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)


class _Text(str):
    """A text as `==` compares it: whatever the case of its letters."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __ne__(self, other: object) -> bool:
        return not self == other


def evaluated(text: str, known: Mapping[str, Any], state: str = "success") -> Any:  # noqa: ANN401
    """What one expression of GitHub Actions comes to, by Python's own grammar.

    Args:
        text: the expression.
        known: contexts: `github`, `inputs`, `steps`, ... A name that is missing in one of them is
            null, here an empty text; a context that is missing is an error.
        state: of the steps before it: `success`, `failure` or `cancelled`.
    """

    def python(token: re.Match[str]) -> str:
        if token.lastgroup == "text":
            return f"text({token[0][1:-1].replace(chr(39) * 2, chr(39))!r})"
        if token.lastgroup == "name" and token[0] not in _PYTHON:
            return f"looked_up({token[0]!r})"
        return _PYTHON.get(token[0], token[0])

    def looked_up(name: str) -> object:
        first, *rest = name.split(".")
        value: Any = known[first]
        for part in rest:
            value = value.get(part) if isinstance(value, Mapping) else None
        return _Text(value or "") if value is None or isinstance(value, str) else value

    functions = {
        "text": _Text,
        "looked_up": looked_up,
        "always": lambda: True,
        **{name: partial(state.__eq__, name) for name in ("cancelled", "failure", "success")},
        "startsWith": lambda whole, head: whole.lower().startswith(head.lower()),
        "contains": lambda held, one: one in held,
        "fromJSON": json.loads,
        "format": lambda form, *given: form.format(*given),
    }
    return eval(f"({_TOKEN.sub(python, text)})", {"__builtins__": {}}, functions)


def text_of(value: object) -> str:
    """A value within a text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def filled(text: object, known: Mapping[str, Any]) -> str:
    """A text with its expressions in it."""
    return _PLACE.sub(lambda place: text_of(evaluated(place[1], known)), text_of(text))


def condition(text: str, known: Mapping[str, Any], *, state: str = "success") -> bool:
    """What an `if:` comes to; without a function of the state it asks for success as well."""
    bare = _PLACE.fullmatch(text.strip())
    inner = bare[1] if bare else text
    asks = re.search(r"\b(?:always|cancelled|failure|success)\(\)", inner)
    return (bool(asks) or state == "success") and bool(evaluated(inner, known, state))


# Steps


@dataclass(frozen=True, kw_only=True)
class Done:
    """What came of a step."""

    status: int
    log: str
    outputs: Mapping[str, str]
    ending_s: float = 0.0
    """From the signal of a cancellation to its end."""

    @property
    def commands(self) -> list[str]:
        """The commands that the runner takes from the log: what lies between stop-commands and its
        token is none."""
        token, found = None, []
        for line in self.log.splitlines():
            if token is not None:
                token = None if line == f"::{token}::" else token
            elif line.startswith("::stop-commands::"):
                token = line.removeprefix("::stop-commands::")
            elif line.startswith("::"):
                found.append(line)
        assert token is None, "the runner would take no command any more"
        return found


class Machine:
    """A runner: a workspace with a repository, a folder for temporary files, and the files of its
    steps."""

    def __init__(self, folder: Path, workspace: Path, **env: str) -> None:
        self.workspace = workspace
        self.temp = folder / "temp"
        self.temp.mkdir(parents=True)
        self.summary = self.temp / "summary.md"
        self.ran = self.temp / "ran"
        """What stand-ins for other programs note."""
        self.event = self.temp / "event.json"
        self.event.write_text("{}", encoding="utf-8")
        (folder / "home").mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": "push",
            "GITHUB_EVENT_PATH": str(self.event),
            "GITHUB_JOB": "gate",
            "GITHUB_REPOSITORY": "ada/engine",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_RUN_ID": str(uuid.uuid4().int % 10**12 + 1),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_WORKSPACE": str(workspace),
            "RUNNER_NAME": "gpu-1",
            "RUNNER_TEMP": str(self.temp),
            **env,
        }
        self._steps = 0

    def run(
        self,
        step: Yaml,
        known: Mapping[str, Any],
        *,
        interrupt: Callable[[], bool] | None = None,
        number: signal.Signals = signal.SIGINT,
        timeout_s: float = 240,
        **env: str,
    ) -> Done:
        """Run a `run:` step to its end.

        Args:
            step: the step as the file has it.
            known: the contexts of its expressions.
            interrupt: send the step's process a signal as soon as this says yes, as the runner does
                at a cancellation.
            number: that signal.
            timeout_s: a step that takes longer is an error.
            env: more of the environment.
        """
        self._steps += 1
        signalled: float | None = None
        output, log = self.temp / f"output-{self._steps}", self.temp / f"log-{self._steps}"
        script = self.temp / f"script-{self._steps}.sh"
        script.write_text(step["run"], encoding="utf-8")
        output.touch()
        given = {name: filled(value, known) for name, value in step.get("env", {}).items()}
        with log.open("wb") as stream:
            process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
                cwd=self.workspace / filled(step.get("working-directory", "."), known),
                env={**self.env, "GITHUB_OUTPUT": str(output), **env, **given},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
            try:
                if interrupt is not None:
                    deadline = time.monotonic() + timeout_s
                    while not interrupt():
                        assert process.poll() is None, log.read_text("utf-8")
                        assert time.monotonic() < deadline, log.read_text("utf-8")
                        time.sleep(0.02)
                    process.send_signal(number)
                    signalled = time.monotonic()
                status = process.wait(timeout=timeout_s)
                ended = time.monotonic()
            finally:
                if (
                    process.poll() is None
                ):  # the test itself failed: what it has started must not outlive it
                    self._end_all()
                process.kill()
                process.wait()
        return Done(
            status=status,
            log=log.read_text("utf-8"),
            outputs=read_outputs(output),
            ending_s=ended - (signalled or ended),
        )

    def git(self, *words: str) -> str:
        """What git says in the workspace."""
        return run_git(self.workspace, *words)

    def write(self, path: str, text: str) -> None:
        """Write a file of the workspace."""
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    @property
    def folder(self) -> Path:
        """Where a gate's files lie."""
        return self.workspace / ".perfgate" / "github"

    @property
    def document(self) -> GateDocument:
        """What the gate found."""
        return read_document((self.folder / "perfgate.json").read_text("utf-8"))

    def _end_all(self) -> None:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if (
                    process.environ().get("GITHUB_RUN_ID") == self.env["GITHUB_RUN_ID"]
                    and process.pid != os.getpid()
                ):
                    process.kill()

    @property
    def summary_text(self) -> str:
        """The job summary."""
        return self.summary.read_text(encoding="utf-8") if self.summary.exists() else ""


def packed(patterns: Sequence[str], workspace: Path) -> dict[str, bytes]:
    """What upload-artifact would pack: below what stands before the first wildcards."""
    files: list[Path] = []
    tops: list[Path] = []
    for pattern in patterns:
        parts = (workspace / pattern).parts
        wild = next((n for n, part in enumerate(parts) if re.search(r"[][*?]", part)), len(parts))
        top = Path(*parts[:wild])
        found = top.glob("/".join(parts[wild:])) if parts[wild:] else top.rglob("*")
        files += filter(Path.is_file, found)
        tops.append(top)
    common = Path(os.path.commonpath(tops))
    return {file.relative_to(common).as_posix(): file.read_bytes() for file in files}


def read_outputs(file: Path) -> dict[str, str]:
    """What a step wrote into GITHUB_OUTPUT, read as the runner reads it."""
    found: dict[str, str] = {}
    lines = iter(file.read_text(encoding="utf-8").splitlines())
    for line in lines:
        name, sign, delimiter = line.partition("<<")
        if not sign:
            name, sign, value = line.partition("=")
            assert sign, line
            found[name] = value
            continue
        held: list[str] = []
        for inner in lines:
            if inner == delimiter:
                break
            held.append(inner)
        else:
            raise AssertionError(f"{name}: its delimiter is missing")
        found[name] = "\n".join(held)
    return found


# Events


def pull_request(
    *, fork: bool = False, action: str = "synchronize", label: str | None = None
) -> dict[str, Any]:
    """The context `github` of a pull request's event."""
    owner = "mallory" if fork else "ada"
    event: dict[str, Any] = {
        "action": action,
        "pull_request": {
            "number": 7,
            "head": {"sha": "0" * 40, "repo": {"full_name": f"{owner}/engine"}},
        },
    }
    if label is not None:
        event["label"] = {"name": label}
    return {
        "event_name": "pull_request",
        "repository": "ada/engine",
        "ref": "refs/pull/7/merge",
        "event": event,
    }
