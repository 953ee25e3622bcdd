"""The oracle for scripts, in the child: without a compiler first, which must work, then with it, which may not."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import torch

from minifier import children, stands
from minifier.engine import Kind, Outcome, Signature, Verdict
from minifier.isolation.child import failure, renew_random, renew_threads, stage
from minifier.programs import run_file
from minifier.scripts.setting import ScriptSetting

STAGE = "run"


def warm() -> None:
    """Load what nearly every script needs."""
    torch.set_num_threads(1)
    if torch.distributed.is_available():
        importlib.import_module("torch.distributed.tensor")  # `assert_close` loads it, which takes longer than most scripts
    setting = ScriptSetting.from_environment()
    stands.of(setting.engine).warm(setting.backend)


def ask(path: Path) -> Outcome:
    """Judge the candidate at `path`."""
    return _judged(path, ScriptSetting.from_environment())


def ask_fresh(path: Path) -> Outcome:
    """The same where torch's compiler uses nothing again that it compiled for an earlier call."""
    return _judged(path, replace(ScriptSetting.from_environment(), is_fresh=True))


def ask_under_inductor(path: Path) -> Outcome:
    """The same with the backend `inductor`, whatever the script asks for."""
    return _judged(path, replace(ScriptSetting.from_environment(), backend="inductor"))


def _judged(path: Path, setting: ScriptSetting) -> Outcome:
    stage("eager", counts=False)
    if not _works_in_eager(path, setting):
        return Outcome(Verdict.INVALID, detail="fails in eager too")
    stage(STAGE, counts=True)
    caught: list[Outcome] = []  # failures that the script goes on after, or ends itself with an exit code of its own
    stands.of(setting.engine).watch(lambda error: caught.append(_raised(error, path)))
    try:
        children.take_part("minifier.whole:begin", [str(path)], engine=setting.engine, backend=setting.backend)
        stands.of(setting.engine).enter(setting.backend, setting.is_fresh)
        run(path, setting)
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
        if code and not caught:
            return Outcome(Verdict.INTERESTING, Signature(Kind.EXIT, code=code, stage=STAGE))
    except Exception as e:  # noqa: BLE001  # this is what is looked for
        return _raised(e, path)
    return caught[0] if caught else Outcome(Verdict.BORING)


def _raised(error: BaseException, path: Path) -> Outcome:
    return Outcome(Verdict.INTERESTING, signature_of(error, path.name), detail=f"{type(error).__name__}: {error}"[:2000])


def signature_of(error: BaseException, script: str) -> Signature:
    """The place where an error is raised says nothing of one that carries an id, as all of them are raised there, nor of one that the
    script itself raises: what its own check says is the failure, and the script has another name as a repro."""
    found = failure(error, STAGE)
    broke = getattr(error, "broke", None)
    if broke is None:
        return replace(found, frame="") if found.frame.startswith(f"{script}:") else found
    return replace(found, frame="", message=f"{broke.reason.title} [{broke.id}]")


def run(path: Path, setting: ScriptSetting) -> None:
    """Run a script as Python would, under its own name."""
    sys.argv[:] = [setting.name, *setting.args]
    sys.path.insert(0, setting.folder)
    for entry in os.listdir(setting.data) if setting.data else ():
        if not os.path.lexists(entry):
            os.symlink(os.path.join(setting.data, entry), entry)
    run_file(str(path), str(path))


def _works_in_eager(path: Path, setting: ScriptSetting) -> bool:
    """In a fork, which takes with it whatever the script leaves."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    code = 1
    try:
        renew_threads()
        renew_random()
        os.environ.update(stands.OFF)
        children.take_part("minifier.whole:begin", [str(path)], engine=setting.engine, backend="")
        stands.of(setting.engine).switch_off()
        run(path, setting)
        code = 0
    except SystemExit as e:
        code = int(bool(e.code))
    except BaseException:  # noqa: BLE001  # all that counts is that it does not work
        code = 1
    finally:
        sys.stdout.flush()
        os._exit(code)
