"""A list of rows with a cursor. Draws only what is visible, so long files and graphs cost nothing."""

from __future__ import annotations

import itertools

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dynamo.trace.model import STATUSES, Item, Place, Run
from tui.keys import KEYS
from tui.rows import Row, clean, marked, matching

CURSOR, RESTING, MARK = "▶", "▷", "•"
_SHIFT = 8
_LOOKS = {
    "plain": Style(),
    "dim": Style(dim=True),
    "title": Style(bold=True),
    **{word: Style(color=status.colour) for word, status in STATUSES.items() if word != "ok"},
    "ok": Style(),
}


class RowPane(ScrollView, can_focus=True):
    """Rows, a cursor, marks from other panes, and search. Subclasses say what the rows are."""

    DEFAULT_CSS = """
    RowPane { border: round $panel-lighten-2; scrollbar-size: 1 1; background: $surface; }
    RowPane:focus { border: heavy $accent; }
    RowPane > .row--cursor { background: $primary-darken-2; color: auto 100%; }
    RowPane > .row--marked { background: $warning 20%; }
    RowPane > .row--match { text-style: underline; }
    """
    COMPONENT_CLASSES = {"row--cursor", "row--marked", "row--match"}
    BINDINGS = [Binding(k.keys, k.action, k.footer or k.text, show=bool(k.footer)) for k in KEYS if k.scope == "pane"]
    HELP = ""

    cursor: reactive[int] = reactive(0, repaint=True)

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, pane: RowPane) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, title: str, pane_id: str) -> None:
        super().__init__(id=pane_id)
        self.border_title = title
        self.rows: list[Row] = []
        self.marks: set[int] = set()
        self.matches: list[int] = []
        self.pattern = ""
        self._width = 0

    def show_rows(self, rows: list[Row]) -> None:
        """Replace the rows; the cursor stays on the row with the same key if there is one. Equal rows are not drawn again."""
        if rows == self.rows:
            self.mark(frozenset())
            return
        old = self.row
        self.rows = rows
        self._width = max((cell_len(row.text) for row in rows), default=0) + 2
        self.virtual_size = Size(self._width, len(rows))
        self.marks.clear()
        self.matches = matching(rows, self.pattern) if self.pattern else []
        keys = {row.key: index for index, row in enumerate(rows) if row.key}
        wanted = keys.get(old.key, self.cursor) if old is not None and old.key else self.cursor
        with self.prevent(RowPane.Moved):
            self.cursor = wanted
        self.refresh()

    @property
    def row(self) -> Row | None:
        return self.rows[self.cursor] if 0 <= self.cursor < len(self.rows) else None

    def mark(self, places: frozenset[Place]) -> None:
        """Mark the rows that share one of the places and bring the first of them into view."""
        found = marked(self.rows, places)
        if found:
            self._amid(found[0])
        if self.marks != {*found}:
            self.marks = {*found}
            self.refresh()

    def search(self, pattern: str) -> int:
        """Find rows; the cursor stays. Returns how many there are."""
        self.pattern = pattern
        self.matches = matching(self.rows, pattern) if pattern else []
        self.refresh()
        return len(self.matches)

    def next_match(self, step: int, *, here: bool = False) -> bool:
        """Go to the nearest match behind (or before) the cursor, or with `here` at it. False: there is none."""
        after = [i for i in self.matches if (i - self.cursor) * step >= (0 if here else 1)]
        if after:
            self.cursor = after[0 if step > 0 else -1]
        return bool(after)

    def edge_match(self, step: int) -> None:
        """Go to the first match, or backwards to the last."""
        if self.matches:
            self.cursor = self.matches[0 if step > 0 else -1]

    def validate_cursor(self, value: int) -> int:
        return max(0, min(value, len(self.rows) - 1))

    def watch_cursor(self, old: int, new: int) -> None:
        self._into_view(new)
        if old != new:
            self.post_message(self.Moved(self))

    def _into_view(self, index: int) -> None:
        self.scroll_to_region(Region(self.scroll_offset.x, index, 1, 1), animate=False, force=True)

    def _amid(self, index: int) -> None:
        """Bring a row into view with rows before and after it, if it isn't in view already."""
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if not top <= index < top + height:
            self.scroll_to(y=max(0, index - height // 3), animate=False, force=True)

    def action_move(self, step: int) -> None:
        self.cursor += step

    def action_page(self, step: int) -> None:
        self.cursor += step * max(1, self.scrollable_content_region.height - 1)

    def action_edge(self, step: int) -> None:
        self.cursor = 0 if step < 0 else len(self.rows) - 1

    def action_shift(self, step: int) -> None:
        self.scroll_to(x=self.scroll_offset.x + step * _SHIFT, animate=False)

    def action_fold(self) -> None:
        """Only the tree has branches."""

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        if inside is not None:
            self.cursor = self.scroll_offset.y + inside.y

    def render_line(self, y: int) -> Strip:
        scroll_x, scroll_y = self.scroll_offset
        index = y + scroll_y
        width = self.scrollable_content_region.width
        base = self.rich_style
        if index >= len(self.rows):
            return Strip.blank(width, base)
        row = self.rows[index]
        style = base + _LOOKS[row.look]
        gutter = " "
        if index in self.marks:
            gutter, style = MARK, style + self.get_component_rich_style("row--marked", partial=True)
        if index in self.matches:
            style += self.get_component_rich_style("row--match", partial=True)
        parts = coloured(row, style)
        if index == self.cursor and not self.has_focus:
            gutter = RESTING
        elif index == self.cursor:
            # one colour that can be read on the bar, whatever the row's own are
            gutter, style = CURSOR, style + self.get_component_rich_style("row--cursor")
            parts = [Segment(clean(row.text), style)]
        text = Strip(parts).crop_extend(scroll_x, scroll_x + width - 1, style)
        return Strip.join([Strip([Segment(gutter, style)]), text])


def coloured(row: Row, style: Style) -> list[Segment]:
    """The text of a row in its colours. Spans may overlap: the last one that covers a character decides."""
    if not row.spans:
        return [Segment(clean(row.text), style)]
    edges = sorted({0, len(row.text), *(edge for start, end, _ in row.spans for edge in (start, end) if edge <= len(row.text))})
    out = []
    for start, end in itertools.pairwise(edges):
        covering = [part for first, last, part in row.spans if first <= start and end <= last]
        out.append(Segment(row.text[start:end], style + covering[-1] if covering else style))
    return out


class ItemPane(RowPane):
    """A pane about one item of the tree."""

    def show(self, run: Run, item: Item) -> None:
        """Fill the rows."""
        raise NotImplementedError
