"""How workflows install perfgate, read from their YAML, and which projects they gate."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from perfgate.init.install import NO_ORIGIN
from perfgate.model.note import Note, note

_BY_NAME: Final = re.compile(r"perfgate(?:\[[^\]]*\])?\s*(?:[=<>!~;].*)?", re.IGNORECASE)
"""A requirement that only an index can answer."""
_INSTALLER: Final = re.compile(r"(?:.*/)?(?:pip[\d.x]*|tool)")


def installing_faults(top: Path) -> tuple[Note, ...] | None:
    """Return what is wrong with how the workflows below a repository's top install perfgate; None
    without any."""
    files = sorted((top / ".github" / "workflows").glob("perfgate*.yml"))
    texts = [file.read_text("utf-8", errors="replace") for file in files if file.is_file()]
    return tuple(fault for text in texts for fault in faults_of(text)) if texts else None


def faults_of(text: str) -> tuple[Note, ...]:
    """Return what is wrong with how a workflow installs perfgate; or that it is no YAML."""
    try:
        document = _document(text)
    except (yaml.YAMLError, RecursionError):
        return (note("workflow-no-yaml"),)
    found = []
    for name, job in _jobs(document).items():
        granted = job.get("permissions", document.get("permissions"))
        may_write = granted == "write-all" or "write" in _mapping(granted).values()
        for step in _steps(job):
            codes = _codes(str(step.get("run", "")), may_write=may_write)
            found += [note(code, job=name) for code in codes]
    return tuple(found)


def gated_folders(text: str) -> frozenset[str]:
    """Return the projects that a workflow gates: what the action's working-directory is, `.` by
    default."""
    try:
        jobs = _jobs(_document(text)).values()
    except (yaml.YAMLError, RecursionError):
        return frozenset()
    gates = (
        step
        for job in jobs
        for step in _steps(job)
        if str(step.get("uses", "")).partition("@")[0].endswith("/actions/perfgate")
    )
    return frozenset(
        str(_mapping(step.get("with")).get("working-directory", ".")) for step in gates
    )


def _codes(script: str, *, may_write: bool) -> Iterator[str]:
    if NO_ORIGIN in script:
        yield "install-step-fails"
    for words in _pip_installs(script):
        if any(_BY_NAME.fullmatch(word) for word in words):
            yield "install-by-name"
        locked = "--require-hashes" in words or (
            "--no-deps" in words and not any(map(_is_by_name, words))
        )
        if may_write and not locked:
            yield "install-unlocked"


def _pip_installs(script: str) -> Iterator[Sequence[str]]:
    """The words behind `pip install` and its like, of each command of a script."""
    for line in re.sub(r"\\\n", " ", script).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            words = list(lexer)
        except ValueError:  # a quotation over several lines
            words = line.split()
        for before, word in itertools.pairwise(enumerate(words)):
            if word[1] == "install" and _INSTALLER.fullmatch(before[1]):
                behind = words[word[0] + 1 :]
                ends = (n for n, one in enumerate(behind) if one.startswith(tuple("#;&|()")))
                yield behind[: next(ends, None)]


def _is_by_name(word: str) -> bool:
    """Whether a word asks an index: no option, no path, and no address that holds a commit or a
    hash."""
    if word.startswith(("-", ".", "/", "$")):
        return False
    return not re.search(r"@[0-9a-f]{40}|sha256=[0-9a-f]{64}", word)


def _document(text: str) -> Mapping[str, object]:
    # Every scalar as text: `on` is no truth value here, and `false` may be written with quotes or
    # without.
    return _mapping(yaml.load(text, Loader=yaml.BaseLoader))


def _jobs(document: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    return {name: _mapping(job) for name, job in _mapping(document.get("jobs")).items()}


def _steps(job: Mapping[str, object]) -> list[Mapping[str, object]]:
    listed = job.get("steps")
    return [_mapping(step) for step in listed] if isinstance(listed, list) else []


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
