"""What `perfgate init` shows of each file, of differences, and of what comes next. Returns, never
prints."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from perfgate.init.project import InstalledTool, ProjectFacts
from perfgate.init.scaffold import GPU, File, FileState
from perfgate.model.note import Severity, note
from perfgate.words.escape import escape
from perfgate.words.say import fact, message


def init_text(
    project: ProjectFacts, tool: InstalledTool, files: Sequence[File], written: Sequence[File]
) -> str:
    """Show what was written and what was left, with the differences, and what comes next."""
    states = ["written" if one in written else _left(one) for one in files]
    lines = [*_title(project, tool), *_rows(states, files)]
    for file in (one for one in files if one.differs):
        lines += ["", *_difference(file, tool)]
    lines += ["", *_next_steps(project)]
    left = tuple(str(one.path) for one in files if one.differs and one not in written)
    notes = [*([note("scaffold-left", files=left)] if left else []), *project.notes]
    lines += ["", *(line for one in notes for line in message(one).splitlines())] if notes else []
    return _printable(lines)


def check_text(
    project: ProjectFacts, tool: InstalledTool, files: Sequence[File], lacking: int
) -> str:
    """Show of each file whether it is up to date."""
    lines = [*_title(project, tool), *_rows([one.state.value for one in files], files), ""]
    found = [one for one in project.notes if one.severity is Severity.WARN]
    if lacking:
        found.append(note("scaffold-lacks", files=len(files), lacking=lacking))
    for one in found or [note("scaffold-complete")]:
        lines += message(one).splitlines()
    return _printable(lines)


def _title(project: ProjectFacts, tool: InstalledTool) -> list[str]:
    how = f" (branch {project.branch}, Python {tool.python})" if project.top else ""
    return [f"perfgate init in {project.root}{how}", ""]


def _rows(words: Sequence[str], files: Sequence[File]) -> list[str]:
    wide = max(map(len, words))
    return [f"  {word:<{wide}}  {file.path}" for word, file in zip(words, files, strict=True)]


def _left(file: File) -> str:
    return "there already" if file.state is FileState.SAME else file.state.value


def _difference(file: File, tool: InstalledTool) -> list[str]:
    there, meant = file.there.splitlines(), file.text.splitlines()
    names = {"fromfile": str(file.path), "tofile": f"{file.path} of perfgate init {tool.version}"}
    return list(difflib.unified_diff(there, meant, **names, lineterm="", n=1))


def _next_steps(project: ProjectFacts) -> list[str]:
    around = (project.root, *project.root.parents)
    is_repository = any((folder / ".git").exists() for folder in around)
    # So that the baseline knows its commit.
    code = "next-once-committed" if is_repository else "next-steps"
    steps = [note(code, root=str(project.root))]
    if project.top is not None:
        steps.append(note("next-on-github", label=GPU))
    return [line for one in steps for line in fact(one).splitlines()]


def _printable(lines: Sequence[str]) -> str:
    """Lines as a text, without what would steer a terminal: names of files and branches are
    anybody's."""
    return "".join(escape(line.replace("\t", "    ")) + "\n" for line in lines)
