"""`dynamo-debug doctor`: what this installation found, for people and for bug reports."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata, util
from types import ModuleType
from typing import Any

from dynamo import config
from inductor.targets.cpu.compiler import NAMES, compiler
from tui import options
from tui.commands.verify import trial
from tui.console import put, put_json
from tui.exits import Exit

Facts = dict[str, Any]

_PACKAGES = ("dynamo-debug", "torch", "triton", "textual", "typer", "graphviz", "numpy")
_TERMINAL_VARIABLES = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "LANG", "LC_ALL", "TEXTUAL_THEME")
_TIMEOUT = 20


def doctor(as_json: options.AsJson = False) -> int:
    """Show versions, compilers, devices, configuration with its sources, and what the terminal can do."""
    facts = {name: find() for name, find in SECTIONS.items()}
    put_json(facts) if as_json else put(_text(facts))
    return Exit.OK


def _versions() -> Facts:
    found: Facts = {"python": f"{platform.python_version()} ({sys.executable})", "platform": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _compiler() -> Facts:
    command = compiler()
    if command is None:
        return {"c compiler": f"none found ($CC, {', '.join(NAMES)}); install gcc or set CC"}
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    first = (done.stdout or done.stderr).splitlines()
    return {"c compiler": " ".join(command), "version": first[0] if first else f"exit code {done.returncode}"}


def _installed() -> ModuleType:
    from tui.commands import installed  # noqa: PLC0415  # loads torch: a second that no other command of ours needs

    return installed


def _torch_facts() -> Facts:
    return dict(_installed().torch_facts())


def _tensors() -> Facts:
    if util.find_spec("dynamo._C") is None:
        return {"c extension": "not built; install the package, or run `make env` in a checkout"}
    return dict(trial().tensors())


def _torch_version() -> Facts:
    return dict(_installed().torch_version())


def _config() -> Facts:
    return {row.name: {"value": row.value, "default": row.default, "source": row.source, "env": row.env} for row in config.rows()}


def _machine() -> Facts:
    if util.find_spec("dynamo._C") is None:
        return {"facts": "not read; the package is not built"}
    return dict(trial().machine_facts())


def _terminal() -> Facts:
    size = shutil.get_terminal_size()
    found: Facts = {"stdout": "terminal" if sys.stdout.isatty() else "no terminal: `tui` prints its plain form"}
    found["size"] = f"{size.columns}x{size.lines}"
    found["encoding"] = sys.stdout.encoding
    found.update({name: os.environ[name] for name in _TERMINAL_VARIABLES if name in os.environ})
    return found


SECTIONS: dict[str, Callable[[], Facts]] = {
    "versions": _versions,
    "compiler": _compiler,
    "devices": _torch_facts,
    "tensors": _tensors,
    "machine": _machine,
    "torch": _torch_version,
    "config": _config,
    "terminal": _terminal,
}


def _text(facts: dict[str, Facts]) -> str:
    lines = []
    for section, rows in facts.items():
        width = max((len(name) for name in rows), default=0)
        lines += ["", section]
        lines += [f"  {name:<{width}}  {_value(value)}" for name, value in rows.items()]
    return "\n".join(lines[1:]) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        env = f", ${value['env']}" if value["env"] else ""
        return f"{value['value']!r}  ({value['source']}{env})"
    return str(value)
