"""The process an oracle runs in. It says what it finds on a pipe of its own, so that nothing a program prints can be taken for an answer.

An oracle is a function of the path of a candidate. It returns a bool or an Outcome, and calls `stage` when what it does begins to count:
what happens to the process while the reference runs makes a candidate invalid, not interesting.
"""

from __future__ import annotations

import atexit
import faulthandler
import importlib
import json
import os
import random
import resource
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

from minifier.engine.signature import Kind, Signature, chain_of, exception_names, frame_name, normalised
from minifier.engine.transport import Outcome, Verdict
from minifier.isolation.linux import data_bytes
from minifier.isolation.standing import tell_when_asked
from minifier.isolation.wire import Request, plain, request_of

_answers = -1


def stage(name: str, counts: bool) -> None:
    """What the oracle does from now on. If the process ends meanwhile, that is the failure if `counts`, else the candidate is invalid."""
    _say({"stage": name, "counts": counts})


def failure(error: BaseException, stage: str = "") -> Signature:
    """The signature of an exception. One that tells of a backend's (`inner_exception`) is raised in one place whatever that raised."""
    chain = chain_of(error)
    frames = traceback.extract_tb(getattr(getattr(error, "inner_exception", error), "__traceback__", None))
    frame = frame_name(Path(frames[-1].filename).name, frames[-1].name) if frames else ""
    if any(isinstance(e, MemoryError) for e in chain):
        return Signature(Kind.MEMORY, stage=stage)
    return Signature(Kind.EXCEPTION, exception_names(chain), normalised(str(error)), frame, stage=stage)


def renew_threads() -> None:
    """In a forked process, before it computes: after a fork torch makes its pool of threads anew when one is first asked for, and where the
    threads of the autograd engine are the first to ask, all at once, some find no pool and the process aborts."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(torch.get_num_threads())


def renew_random() -> None:
    """In a forked process: seeds of its own, as a new interpreter has them, not the state that all forks of the warmed process share."""
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.seed()


def begin(request: Request, answers: int, faults: int) -> NoReturn:
    """Become the oracle's process: own session, limits, folder, environment. Never returns."""
    os.chdir(request.folder)
    os.environ.update(request.environment)
    tempfile.tempdir = None
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if request.command:
        _limit_memory(request)
        path = str(Path(request.folder, request.name))
        os.execvp(request.command[0], [*request.command, path])
    if request.fresh:
        for fd in (answers, faults):
            os.set_inheritable(fd, True)
        os.execv(sys.executable, [sys.executable, "-m", "minifier.isolation.child", json.dumps(plain(request)), str(answers), str(faults)])
    run(request, answers, faults)


def run(request: Request, answers: int, faults: int) -> NoReturn:
    """Ask the oracle, say what it said, and end as a program ends: with its own atexit functions."""
    global _answers
    _answers = answers
    faulthandler.enable(faults, all_threads=False)
    tell_when_asked(faults)
    atexit._clear()  # those of the warmed process are not the candidate's
    _limit_memory(request)
    renew_threads()
    renew_random()
    code = 0
    try:
        module, _, name = request.oracle.partition(":")
        answer = getattr(importlib.import_module(module), name)(Path(request.folder, request.name))
        _say(_plain(answer if isinstance(answer, Outcome) else Outcome(Verdict.INTERESTING if answer else Verdict.BORING)))
        _say({"stage": "exit", "counts": True})
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 1
    except BaseException as e:  # noqa: BLE001  # whatever a candidate raises is an answer
        text = traceback.format_exc()
        sys.stderr.write(text)
        _say(_plain(Outcome(Verdict.OTHER, failure(e), detail=text[-2000:])))
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _limit_memory(request: Request) -> None:
    if request.memory is not None:
        limit = data_bytes() + request.memory
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _say(value: dict[str, Any]) -> None:
    """On the pipe to the keeper; an oracle that is called elsewhere has none."""
    if _answers < 0:
        return
    os.write(_answers, (json.dumps(value) + "\n").encode())


def _plain(outcome: Outcome) -> dict[str, Any]:
    signature = None if outcome.signature is None else outcome.signature.to_json()
    return {"verdict": outcome.verdict.value, "signature": signature, "detail": outcome.detail}


if __name__ == "__main__":
    # `stage` must write where this process says it does, also to whoever imports this file by its name
    importlib.import_module("minifier.isolation.child").run(request_of(json.loads(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]))
