"""From the first failure of a cluster to a certified repro, through the same door as `minify`."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

from minifier import minify as door
from minifier.engine import Kind, Listener
from minifier.fuzz.draw.scripts import raising
from minifier.fuzz.types import CERTIFIED, FLAKY, UNCERTIFIED, Cluster, Wish
from minifier.isolation import IsolationError, Limits
from minifier.places import ISSUE, TEST

SCRIPT = "program.py"
_ASIDE = ("recorded-", "ladder", "graph-", "source")
_STATUS = {door.REPRODUCED: CERTIFIED, door.FLAKY: FLAKY}


def reduced(cluster: Cluster, wish: Wish, folder: Path, tell: door.Tell, listener: Listener) -> None:
    """Write the program that failed to `folder`, reduce it, and say in the cluster what came of it."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / SCRIPT
    text = cluster.first.drawn.script
    script.write_text(raising(text) if cluster.first.eager_raises else text)
    began = time.monotonic()
    is_wrong = cluster.first.signature.kind is Kind.ACCURACY and not cluster.first.eager_raises
    cluster.stage, cluster.shown = cluster.first.stage, str(cluster.first.signature)
    backend = dict(wish.target.shorter).get(cluster.first.stage, wish.target.backend)
    report = _minified(script, backend, is_wrong, wish, folder, tell, listener)
    if is_wrong and report.status in (door.NOTHING, door.UNREAD):  # no graph alone is wrong; the script may be, which says so by failing
        report = _minified(script, backend, False, wish, folder, tell, listener)
    cluster.seconds = round(time.monotonic() - began, 1)
    cluster.status = _STATUS.get(report.status, UNCERTIFIED)
    cluster.tried = report.tried
    if report.repro:
        cluster.shown, cluster.op_nodes = report.shown, report.op_nodes
        cluster.stage = cluster.first.stage if report.stage == door.STAGE_OF_SCRIPT else report.stage
        cluster.repro, cluster.bundle = report.repro, report.bundle
        cluster.issue, cluster.test = str(folder / ISSUE), str(folder / TEST)
        for left in folder.iterdir():  # by which it was found; the repro is complete without
            if left.name.startswith(_ASIDE):
                shutil.rmtree(left, ignore_errors=True)
    if report.is_interrupted:
        raise KeyboardInterrupt


def _minified(script: Path, backend: str, accuracy: bool, wish: Wish, folder: Path, tell: door.Tell, listener: Listener) -> door.Report:
    limits = replace(Limits(), timeout=wish.timeout)
    plan = door.Plan(folder, wish.jobs, wish.reduction or None, limits=limits)
    wanted = door.Wish(str(script), backend=backend, accuracy=accuracy, folder=folder, plan=plan, engine=wish.target.engine, pytest=True)
    try:
        return door.minify(wanted, tell, listener)
    except (door.ScriptFailed, IsolationError) as e:
        return door.Report(door.NOT_REPRODUCED, tried=(f"{type(e).__name__}: {e}"[:500],))
