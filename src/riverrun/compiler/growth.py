"""Steps whose state grows for as long as there are new keys, and with what."""

from __future__ import annotations

from riverrun.kernels.program import PlacedStep, Program


def growing(program: Program) -> dict[str, str]:
    """By step, what its state grows with; those that feed others come first."""
    found: dict[str, str] = {}
    tables: list[str] = []
    for step in program.steps:
        fed_by = _tables_before(step, program)
        why = step.does.grows([name for name in tables if name in fed_by])
        if why is not None:
            found[step.name] = why
        if why is not None or step.does.leaves_rows():
            tables.append(step.name)
    return found


def _tables_before(step: PlacedStep, program: Program) -> set[str]:
    """The steps whose changes come into this one."""
    into = [branch for branch in program.branches if branch.target in step.input_edges]
    return {branch.origin.name for branch in into if branch.form == "changes"}
