"""Drawing in a process of its own: operators run in eager while programs are drawn, and what is drawn depends on what was loaded before."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from minifier.engine import Outcome, Verdict
from minifier.fuzz.draw.drawing import Block, drawn
from minifier.isolation import OracleSpec


def question(block: Block, to: Path) -> bytes:
    """What `ask` reads. The programs are written to the file `to`, as a list in JSON."""
    return json.dumps({"to": str(to.absolute()), "block": vars(block)}).encode()


def ask(path: Path) -> Outcome:
    """Draw the block that the file at `path` asks for."""
    asked = json.loads(path.read_bytes())
    block = asked["block"]
    found = drawn(Block(**{**block, "ops": tuple(block["ops"])}))
    to = Path(asked["to"])
    partial = to.with_suffix(".partial")
    partial.write_text(json.dumps(found))
    partial.rename(to)
    return Outcome(Verdict.BORING)


def warm() -> None:
    """One thread: teams of threads don't survive a fork."""
    torch.set_num_threads(1)


def spec(folder: Path) -> OracleSpec:
    """The oracle that draws. What Hypothesis keeps on disk goes below `folder`."""
    home = "minifier.fuzz.draw.asking"
    environment = {"OMP_NUM_THREADS": "1", "HYPOTHESIS_STORAGE_DIRECTORY": str(folder.absolute())}
    return OracleSpec(f"{home}:ask", warm=(f"{home}:warm",), name="block.json", environment=environment)
