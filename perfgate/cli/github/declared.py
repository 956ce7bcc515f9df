"""`perfgate github declared`: what a project declares, for the gate that compares two states of it."""

from __future__ import annotations

from pathlib import Path

import click

from perfgate.cli.arguments import PATH
from perfgate.model.workload import Declared


@click.command(hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("root", type=PATH)
@click.argument("out", type=PATH)
@click.argument("options", nargs=-1)
def declared(root: Path, out: Path, options: tuple[str, ...]) -> None:
    """Collect the workloads of the project at ROOT with pytest's OPTIONS, and write their declarations to OUT."""
    from perfgate.plugin.listing import declared as declared_in  # noqa: PLC0415 - slow to import, for no other command

    found = declared_in(root, options=options)
    lines = ",\n".join(Declared.model_dump_json(one) for one in found)
    out.write_text(f"[{lines}]\n", encoding="utf-8")
