"""Handing a repro over: write it aside, see it fail in new interpreters, and only then put it where the user looks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from minifier.beside import data_beside, importing, modules_beside
from minifier.bundle import MANIFEST, Manifest, fits, pack
from minifier.engine import Kind, Signature
from minifier.issue import issue_text
from minifier.places import BUNDLE, FILES, ISSUE, REFUSED, REPRO, TEST, TRIAL
from minifier.state import versions
from minifier.verify import Bounds, Rate, measured
from minifier.warmed import Warmed

HANGING = 60.0  # seconds that a repro which never ends is watched
Write = Callable[[Path, str], None]
Measure = Callable[[Path], Rate]

_TEST = '''"""Fails as long as {name} shows its failure: {title}."""

import subprocess
import sys
from pathlib import Path


def test_{word}():
    script = Path(__file__).with_name("{name}")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout={seconds:g})
    assert done.returncode == 0, done.stdout + done.stderr
'''


@dataclass(frozen=True)
class Draft:
    """A repro that is not certified yet. `write` puts it into a folder, with a remark for its docstring. `culprit` is asked for the part at
    fault once the repro is certified, `warmed` runs it beside new interpreters, `data` has what it may read."""

    write: Write
    signature: Signature
    stage: str
    graph: str = ""
    setting: dict[str, Any] | None = None
    rate: float = 1.0
    bounds: Bounds = field(default_factory=Bounds)
    measure: Measure | None = None
    culprit: Callable[[], str] = str
    warmed: Warmed | None = None
    data: Path | None = None
    backend: str = ""


@dataclass(frozen=True)
class Delivered:
    """What was written; empty where the repro did not show its failure. `refused` is where one that didn't lies."""

    rate: Rate
    repro: str = ""
    bundle: str = ""
    refused: str = ""


def deliver(draft: Draft, folder: Path, wants_test: bool = False) -> Delivered:
    """Certify a repro and hand it over with an issue text and a bundle. Raises OSError."""
    trial = folder / TRIAL
    shutil.rmtree(trial, ignore_errors=True)
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    draft.write(trial, "")
    seen = draft.measure or (lambda repro: measured(repro, draft.signature, draft.rate, draft.bounds, draft.warmed))
    rate = seen(trial / REPRO)
    refused = folder / REFUSED
    shutil.rmtree(refused, ignore_errors=True)
    if not rate.hits:
        trial.rename(refused)
        return Delivered(rate, refused=str(refused))
    shutil.rmtree(trial)
    return _handed_over(draft, rate, folder, wants_test)


def _handed_over(draft: Draft, rate: Rate, folder: Path, wants_test: bool) -> Delivered:
    found = versions()
    with_what = ", ".join(f"{name} {version}" for name, version in found.items())
    draft.write(folder, f"Seen in {rate} runs, each in a new process, with {with_what}.")
    text = (folder / REPRO).read_text()
    manifest = Manifest(
        main=REPRO,
        signature=draft.signature,
        stage=draft.stage,
        graph=draft.graph,
        rate=(rate.hits, rate.runs),
        versions=found,
        setting=draft.setting,
        memory=draft.bounds.memory,
        seconds=draft.bounds.seconds,
    )
    (folder / ISSUE).write_text(issue_text(manifest, text, draft.culprit()))
    if wants_test:
        title = str(draft.signature).replace("\\", "/").replace('"', "'")
        (folder / TEST).write_text(_TEST.format(name=REPRO, title=title, word="repro", seconds=draft.bounds.seconds))
    inputs = sorted(f"inputs/{p.name}" for p in (folder / "inputs").glob("*.safetensors") if p.name in text)
    modules = modules_beside(f"{text}\n{importing(draft.backend)}", folder)
    own = (REPRO, ISSUE, *([TEST] if wants_test else []), *modules, *inputs)
    data = [] if draft.data is None else [f for f in data_beside(text, draft.data) if f not in own and fits(f)]
    files = (*own, *data)
    (folder / MANIFEST).write_text(replace(manifest, files=files).text())
    pack(folder, folder / BUNDLE)
    return Delivered(rate, str(folder / REPRO), str(folder / BUNDLE))


def bounds_for(signature: Signature, memory: int | None, seconds: float | None = None) -> Bounds:
    """What a run of a repro may use. Memory is limited only where the failure is about it."""
    is_about_memory = signature.kind is Kind.MEMORY or "alloc" in signature.message or "memory" in signature.message
    return Bounds(seconds or Bounds().seconds, memory if is_about_memory else None)
