"""What the stages screen shows, as rows. Knows the model, nothing of Textual."""

from __future__ import annotations

import re

from dynamo.trace.artefacts import Artefact, artefacts, decision_lines, line_places
from dynamo.trace.model import Item, Run
from tui.highlight import spans
from tui.rows import Row, clean, compiles_of

DECISIONS = "decisions"
_REFUSED = re.compile(r"^\S+ +\S+ +\S+ +refused ")


def choices(run: Run, item: Item) -> list[Artefact]:
    """What there is to see of a tree item: texts of the stages, then the decisions, compile by compile."""
    wanted = {c.id for c in compiles_of(run, item)}
    texts = [a for a in artefacts(run) if a.compile_id in wanted]
    out: list[Artefact] = []
    for compiled in compiles_of(run, item):
        out += [a for a in texts if a.compile_id == compiled.id]
        if compiled.decisions:
            text = "".join(f"{line}\n" for line in decision_lines(compiled.decisions))
            title = f"{len(compiled.decisions)} decisions"
            out.append(Artefact(f"{DECISIONS} {compiled.id}", DECISIONS, compiled.id, "", title, "text", text))
    return out


def list_rows(found: list[Artefact]) -> list[Row]:
    width = max((len(a.stage) for a in found), default=0)
    rows = [Row(f"{a.stage:<{width}}  {a.graph_id or a.compile_id}  {a.title}", key=a.key) for a in found]
    return rows or [Row("nothing was recorded here yet", look="dim")]


def first_own_line(rows: list[Row]) -> int:
    """Where a generated text begins to be about the program: its first lines are the same for every graph."""
    return next((i for i, row in enumerate(rows) if row.places), 0)


def artefact_rows(run: Run, artefact: Artefact | None) -> list[Row]:
    """The text line by line, with colours and the user lines it came from."""
    if artefact is None:
        return [Row("no text", look="dim")]
    lines = [clean(line) for line in artefact.text.rstrip("\n").split("\n")]
    places = line_places(run, artefact)
    coloured = spans("\n".join(lines), artefact.language)
    looks = ["break" if artefact.stage == DECISIONS and _REFUSED.match(line) else "plain" for line in lines]
    return [
        Row(line, places[i] if i < len(places) else frozenset(), looks[i], f"{artefact.key} {i}", coloured[i])
        for i, line in enumerate(lines)
    ]
