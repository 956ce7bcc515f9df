"""`perfgate merge`: one verdict and one page of several gates."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from perfgate.cli.common import printable, screen
from perfgate.gate import Closing
from perfgate.merging import find_gates, merge, merged_page
from perfgate.model.errors import EXIT_SHUT
from perfgate.plugin.outputs import Form, Outputs
from perfgate.render.document import GateDocument
from perfgate.render.merged import merged_text

FILE = click.Path(path_type=Path)


@click.command("merge")
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=FILE)
@click.option("--expect", type=click.IntRange(min=1), metavar="N", help="How many gates there should be.")
@click.option("--json", type=FILE, metavar="FILE", help="Write verdicts and measurements to FILE as JSON.")
@click.option("--html", type=FILE, metavar="FILE", help="Write a page with plots and timelines to FILE.")
@click.option("--page-data", type=FILE, metavar="FILE", help="Write what such a page is made of to FILE as JSON.")
@click.option("--markdown", type=FILE, metavar="FILE", help="Append verdicts to FILE as Markdown.")
@click.option("--junit", type=FILE, metavar="FILE", help="Write verdicts to FILE as JUnit XML.")
def merge_gates(folders: tuple[Path, ...], *, expect: int | None, **files: Path | None) -> None:
    """Make one verdict of gates that were measured apart.

    Each FOLDER holds the perfgate.json of a gate (pytest --perfgate-json), and the page.json of --perfgate-page-data
    where there is one, or folders that do.
    """
    given = {form: file for form in Form if (file := files[form.replace("-", "_")]) is not None}
    outputs = Outputs(files=given, flag="--")
    refusal = outputs.refusal()
    if refusal:
        raise click.UsageError(refusal)
    found, empty = find_gates(folders)
    merged = merge(found, empty=empty, expect=expect, at=datetime.now(UTC))
    closing = Closing(opens=merged.opens_gate, shut_by=merged.shut_by)
    closing = outputs.write(partial(_closed, merged), closing, partial(merged_page, found=found))
    width, colour = screen()
    told = merged_text(_closed(merged, closing), width=width, colour=colour)
    click.echo(printable(told), nl=False)
    if not closing.opens:
        sys.exit(EXIT_SHUT)


def _closed(merged: GateDocument, closing: Closing) -> GateDocument:
    """The document with what became of it while it was written."""
    update = {"opens_gate": closing.opens, "exit_status": closing.exit_status, "shut_by": closing.shut_by}
    return merged.model_copy(update=update)
