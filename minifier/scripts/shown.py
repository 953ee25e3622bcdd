"""Candidates that count only if their repros show the failure, each in a new interpreter."""

from __future__ import annotations

import shutil
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from minifier.engine import Candidate, Kind, Outcome, Signature, Transport, Verdict
from minifier.places import REPRO
from minifier.scripts.repro import write_script
from minifier.scripts.setting import ScriptSetting
from minifier.verify import Bounds, once


class Shown(Transport):
    """Scripts under one setting, asked in the processes of a transport which stays open, and what fails there once more as its reader would
    run it. The warmed process has loaded what a new interpreter loads while a script runs: where the script can tell (a mode that sees
    torch's own calls at import, a look at `sys.modules`), a smaller one may fail there alone."""

    def __init__(self, inner: Transport, setting: ScriptSetting, folder: Path) -> None:
        self.inner, self.jobs = inner, inner.jobs
        self._setting = setting
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="shown-", dir=folder))
        self._pool = ThreadPoolExecutor(inner.jobs, thread_name_prefix="shown")
        self._asked: dict[Future[Outcome], Future[Outcome]] = {}

    def submit(self, candidate: Candidate) -> Future[Outcome]:
        asked = self.inner.submit(candidate)
        run = self._pool.submit(self._confirmed, candidate, asked)
        self._asked[run] = asked
        run.add_done_callback(lambda done: self._asked.pop(done, None))
        return run

    def cancel(self, run: Future[Outcome]) -> None:
        asked = self._asked.get(run)
        run.cancel()
        if asked is not None:
            self.inner.cancel(asked)

    def calibrated(self, seconds: float) -> None:
        self.inner.calibrated(seconds)

    def confines(self, memory: int | None) -> None:
        self.inner.confines(memory)

    def close(self) -> None:
        """End what runs; the transport that was given stays open."""
        for run in list(self._asked):
            self.cancel(run)
        self._pool.shutdown(cancel_futures=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _confirmed(self, candidate: Candidate, asked: Future[Outcome]) -> Outcome:
        outcome = asked.result()
        if outcome.verdict is not Verdict.INTERESTING:
            return outcome
        place = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            signature = outcome.signature or Signature(Kind.PREDICATE)
            write_script(candidate.payload.decode(), self._setting, signature, place)
            is_shown, how = once(place / REPRO, signature, Bounds())
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return outcome if is_shown else replace(outcome, verdict=Verdict.BORING, signature=None, detail=f"in a new interpreter: {how}")
