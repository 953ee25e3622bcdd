"""The user's source file."""

from __future__ import annotations

from dynamo.trace.model import Item, Place, Run, short
from tui.rows import source_rows
from tui.widgets.row_pane import ItemPane, RowPane


class SourcePane(ItemPane):
    """Shows one file at a time; a mark in another file brings that file in."""

    HELP = "the source as the run read it. a line with ✗ breaks the graph. moving marks the graph nodes, guards and breaks of the line."

    def __init__(self) -> None:
        super().__init__("2 source", "source")
        self.file = ""
        self._wanted = ""
        self._model = Run()

    def show(self, run: Run, item: Item) -> None:
        self._model = run
        file, line = item.place
        if file == self._wanted:
            self.show_rows(source_rows(run, self.file))
            return
        self._wanted = file
        self._open(file)
        with self.prevent(RowPane.Moved):
            self.cursor = line - 1

    def _open(self, file: str) -> None:
        self.file = file
        self.border_title = f"2 source {short(file)}"
        self.show_rows(source_rows(self._model, file))

    def mark(self, places: frozenset[Place]) -> None:
        files = {file for file, _ in places}
        if files and self.file not in files:
            self._open(min(files))
        super().mark(places)
