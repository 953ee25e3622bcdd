"""One case in a process that has its fault on: `python -m minifier.corpus.one REQUEST FOLDER ANSWER`. The answer is a file of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
import time
from dataclasses import fields
from math import prod
from pathlib import Path
from typing import Any

from dynamo.surroundings.parent import end_with_parent
from minifier.engine import Event
from minifier.graph.ir import load
from minifier.graph.reduce import Plan
from minifier.isolation import Limits
from minifier.isolation.leftover import waiting
from minifier.isolation.linux import become_subreaper, below, end_all_below
from minifier.minify import Wish, minify

SETTLING = 1.0  # seconds that processes which are on their way out get


def main() -> None:
    request, folder, answer = json.loads(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    end_with_parent()
    become_subreaper()  # so that what outlives its parents is seen
    limits = Limits(timeout=request["timeout"], memory=request["memory"])
    given: dict[str, Any] = {
        "script": request["script"],
        "after": request["after"],
        "backend": request["backend"],
        "accuracy": request["accuracy"],
        "folder": folder,
        "plan": Plan(folder, request["jobs"], limits=limits),
        "engine": request["engine"],
    }
    known = {f.name for f in fields(Wish)}
    report = minify(Wish(**{k: v for k, v in given.items() if k in known}), _say, _quiet)
    found = {**vars(report), **measured(folder), "left": left_over()}
    partial = answer.with_suffix(".partial")
    partial.write_text(json.dumps(found))
    partial.rename(answer)


def measured(folder: Path) -> dict[str, int]:
    """What the journals of a reduction end at: elements of the largest input of the last graph, and lines of the last script."""
    found = {"elements": 0, "source_lines": 0}
    for path in sorted(folder.rglob("journal.sqlite"), key=lambda p: p.stat().st_mtime):
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as journal:
            best = journal.execute("select payload from best").fetchone()
        if best is None:
            continue
        text = bytes(best[0])
        if text.startswith(b"{"):
            found["elements"] = max((prod(i.spec.shape) for i in load(text).inputs), default=0)
        else:
            found["source_lines"] = sum(1 for line in text.decode().splitlines() if line.strip())
    return found


def left_over() -> int:
    """How many processes are still there when everything is done. They are ended."""
    end = time.monotonic() + SETTLING
    while (left := len(_living())) and time.monotonic() < end:
        time.sleep(0.05)
    end_all_below()
    return left


def _living() -> list[int]:
    """Processes below this one that are not just waiting, to be reaped or for its end."""
    found = []
    for pid in set(below(os.getpid())).difference(waiting()):
        with contextlib.suppress(OSError):
            if Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(pid)
    return found


def _say(text: str) -> None:
    print(text, flush=True)


def _quiet(event: Event) -> None:
    """Nobody watches."""


if __name__ == "__main__":
    main()
