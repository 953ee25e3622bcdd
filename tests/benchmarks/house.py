"""What putting the house in order did to the product's lines: `python -m tests.benchmarks.house [--write]`.

`house.txt` lists the commits since 871fc82 whose change is one of structure: where code stands, what imports what, tables and names, what
nothing reads. All others belong to other issues. Lines are those of Python, stubs and C of the product, added less removed; a file that
moved counts what changed in it. The first commits have both kinds of change in one: they are rows marked `mixed`, with what they
added in files that `sizes.LATER` names, which are other issues', beside the rest.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.sizes import ENDINGS, LATER, PACKAGES, ROOT

SINCE = "871fc82"
LIST = Path(__file__).with_name("house.txt")
LONGEST = 72
MIXED = "mixed"


@dataclass(frozen=True)
class Commit:
    """One commit and the lines it added less those it removed, by file."""

    name: str
    subject: str
    lines: dict[str, int]

    @property
    def net(self) -> int:
        return sum(self.lines.values())

    @property
    def of_others(self) -> int:
        """Lines in files that other issues asked for."""
        return sum(count for file, count in self.lines.items() if is_of_others(file))


def is_of_others(file: str) -> bool:
    paths = [path for new, old in LATER.values() for path in f"{new} {old}".split()]
    return any(file == path or file.startswith(f"{path}/") for path in paths)


def counts(file: str) -> bool:
    return file.endswith(ENDINGS) and file.split("/")[0] in PACKAGES


def history(since: str) -> list[Commit]:
    """The commits behind a revision, oldest first."""
    command = ["git", "log", "--reverse", "--numstat", "-z", "-M", "--format=%x01%h%x02%s%x02", f"{since}..HEAD"]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [parsed(entry) for entry in text.split("\x01")[1:]]


def parsed(entry: str) -> Commit:
    name, subject, rest = entry.split("\x02")
    lines: dict[str, int] = {}
    for file, count in changes([field.strip("\n") for field in rest.split("\0")]):
        lines[file] = lines.get(file, 0) + count
    return Commit(name, subject, {file: count for file, count in lines.items() if counts(file)})


def changes(fields: list[str]) -> Iterator[tuple[str, int]]:
    """(file, added less removed); a move has its two names behind it."""
    left = iter(fields)
    for field in left:
        if not field:
            continue
        added, removed, file = field.split("\t")
        if not file:
            next(left)
            file = next(left)
        if added != "-":  # no text
            yield file, int(added) - int(removed)


def listed() -> dict[str, str]:
    """Subject -> `mixed` or the net lines, as the list has it."""
    rows = [line.split(maxsplit=2) for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return {subject: mark for _, mark, subject in rows}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.house", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put names and lines of commits into the list, found by subject")
    options = parser.parse_args()
    rows, commits = listed(), history(SINCE)
    missing = rows.keys() - {c.subject for c in commits}
    if missing:
        print(f"house.txt: no commit since {SINCE} is called {sorted(missing)[0]!r}; mend the row", file=sys.stderr)
        return 1
    mixed = [c for c in commits if rows.get(c.subject) == MIXED]
    own = [c for c in commits if c.subject in rows and rows[c.subject] != MIXED]
    others = [c for c in commits if c.subject not in rows]
    if options.write:
        head = [line for line in LIST.read_text().splitlines() if line.startswith("#")]
        body = [f"{c.name} {MIXED if c in mixed else f'{c.net:+d}'} {c.subject}" for c in commits if c.subject in rows]
        LIST.write_text("\n".join([*head, *body]) + "\n")
    for commit in own:
        print(f"{commit.name} {commit.net:+6,} {commit.subject}")
    more, less = [c.net for c in own if c.net > 0], [c.net for c in own if c.net < 0]
    print(f"\n{len(own)} commits of the house alone: {sum(more):+,} {sum(less):+,} = {sum(more) + sum(less):+,} lines")
    for commit in mixed:
        rest = commit.net - commit.of_others
        print(f"{commit.name} {commit.net:+6,}: {commit.of_others:+,} in files of other issues, {rest:+,} elsewhere: {commit.subject}")
    print(f"{len(others)} commits of other issues: {sum(c.net for c in others):+,} lines")
    longest = max([*own, *mixed], key=lambda c: len(c.subject))
    print(f"longest subject: {len(longest.subject)}: {longest.subject}")
    for commit in (c for c in [*own, *mixed] if len(c.subject) > LONGEST):
        print(f"over {LONGEST}: {commit.name} {commit.subject}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
