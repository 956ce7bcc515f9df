"""What `perfgate init` shows of each file, of differences, and of what comes next. Returns, never
prints."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from perfgate.init.project import ProjectFacts
from perfgate.init.scaffold import GPU, File, FileState
from perfgate.model.note import Severity, note
from perfgate.words.escape import escape
from perfgate.words.say import fact, message


def init_text(project: ProjectFacts, files: Sequence[File], written: Sequence[File]) -> str:
    """Show what was written and what was left, with the differences, and what comes next."""
    states = ["written" if one in written else _left(one) for one in files]
    lines = [*_title(project), *_rows(states, files)]
    for file in (one for one in files if one.differs):
        there, meant = file.there.splitlines(), file.text.splitlines()
        names = (str(file.path), f"{file.path} of perfgate init {project.tool.version}")
        lines += ["", *difflib.unified_diff(there, meant, *names, lineterm="", n=1)]
    # Committed, so that the baseline knows its commit.
    code = "next-once-committed" if project.is_repository else "next-steps"
    lines += ["", *fact(note(code, root=str(project.root))).splitlines()]
    if project.top is not None:
        lines += fact(note("next-on-github", label=GPU)).splitlines()
    left = tuple(str(one.path) for one in files if one.differs and one not in written)
    notes = [*([note("scaffold-left", files=left)] if left else []), *project.notes]
    lines += ["", *(line for one in notes for line in message(one).splitlines())] if notes else []
    return _printable(lines)


def check_text(project: ProjectFacts, files: Sequence[File], lacking: int) -> str:
    """Show of each file whether it is up to date."""
    lines = [*_title(project), *_rows([one.state.value for one in files], files), ""]
    found = [one for one in project.notes if one.severity is Severity.WARN]
    if lacking:
        found.append(note("scaffold-lacks", files=len(files), lacking=lacking))
    for one in found or [note("scaffold-complete")]:
        lines += message(one).splitlines()
    return _printable(lines)


def _title(project: ProjectFacts) -> list[str]:
    how = f" (branch {project.branch}, Python {project.tool.python})" if project.top else ""
    return [f"perfgate init in {project.root}{how}", ""]


def _rows(words: Sequence[str], files: Sequence[File]) -> list[str]:
    wide = max(map(len, words))
    return [f"  {word:<{wide}}  {file.path}" for word, file in zip(words, files, strict=True)]


def _left(file: File) -> str:
    return "there already" if file.state is FileState.SAME else file.state.value


def _printable(lines: Sequence[str]) -> str:
    """Lines as a text, without what would steer a terminal: names of files and branches are
    anybody's."""
    return "".join(escape(line.replace("\t", "    ")) + "\n" for line in lines)
