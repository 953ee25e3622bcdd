"""The tree run > frame > compile > graph."""

from __future__ import annotations

from dynamo.trace.model import Item, Run
from tui.rows import tree_rows
from tui.widgets.row_pane import RowPane


class CompileTree(RowPane):
    """Its cursor decides what the other panes show."""

    HELP = "what was compiled: the script, its frames, the compiles of each frame, their graphs. enter closes and opens a branch."

    def __init__(self) -> None:
        super().__init__("1 tree", "tree")
        self.items: list[Item] = []
        self._folded: set[str] = set()
        self._model = Run()

    def show(self, run: Run) -> None:
        self._model = run
        pairs = tree_rows(run, self._folded)
        self.items = [item for item, _ in pairs]
        self.show_rows([row for _, row in pairs])

    @property
    def item(self) -> Item:
        return self.items[self.cursor]

    def action_fold(self) -> None:
        self._folded ^= {self.item.key}
        self.show(self._model)
