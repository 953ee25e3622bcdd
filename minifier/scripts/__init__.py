"""Whole scripts as what is minimised: failures of capture, and what any command says of a script."""

from __future__ import annotations

from minifier.scripts.reduce import reduce_source, reduce_under_command, spec_for
from minifier.scripts.setting import ScriptSetting

__all__ = ["ScriptSetting", "reduce_source", "reduce_under_command", "spec_for"]
