"""Which stage fails: eager, capture, ahead-of-time graphs, code generation. Each rung runs what the next one stands on."""

from __future__ import annotations

from minifier.ladder.patience import Patience
from minifier.ladder.probe import Posed
from minifier.ladder.rungs import Found, Ladder
from minifier.ladder.runs import Ended, ScriptFailed, recorded_run, run_compiled, run_in_eager

__all__ = ["Ended", "Found", "Ladder", "Patience", "Posed", "ScriptFailed", "recorded_run", "run_compiled", "run_in_eager"]
