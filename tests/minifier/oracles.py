"""Oracles that do what candidates do: the name of the behaviour is the candidate."""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

from dynamo.peer import patient
from minifier.engine import Kind, Outcome, Signature, Verdict
from minifier.isolation.child import failure, stage

IS_WARM: list[int] = []


def warm() -> None:
    IS_WARM.append(os.getpid())


class _Cuda:
    @staticmethod
    def is_initialized() -> bool:
        return True


def touch_gpu() -> None:
    """What a process looks like that has."""
    warm()
    module = types.ModuleType("torch")
    module.cuda = _Cuda()  # type: ignore[attr-defined]  # stands for torch
    sys.modules["torch"] = module


def warm_torchs_compiler() -> None:
    """It makes fake tensors, after which a torch that knows GPUs and has none starts eight threads for the first backward."""
    import torch  # other oracles are warmed without it

    torch.set_num_threads(1)
    patient.warm("aot_eager")


def warm_with_a_header() -> None:
    """As where torch's compiler has compiled one for the first time."""
    home = Path(tempfile.gettempdir(), "torchinductor_me", "precompiled_headers")
    home.mkdir(parents=True, exist_ok=True)
    header = home / "b.h.gch"
    header.write_text(header.read_text() + " again" if header.exists() else "compiled")


def warm_with_a_variable() -> dict[str, str]:
    return {"FOUND_OUT": "yes"}


def variable(path: Path) -> bool:
    """Whether a child has what the warmed process has found out."""
    return os.environ.get("FOUND_OUT") == "yes"


def warm_for_long() -> None:
    warm()
    hangs()


def crash() -> None:
    ctypes.string_at(0)


def refuse() -> None:
    raise LookupError("no such model")


def other(path: Path) -> bool:
    return bool(IS_WARM)


def behave(path: Path) -> bool | Outcome:
    """Do what the candidate says, after everything began to count."""
    said = path.read_text()
    if said.startswith("reference "):
        stage("eager", counts=False)
        said = said.removeprefix("reference ")
    else:
        stage("compiled", counts=True)
    print("said", said, flush=True)
    result = globals()[said]()
    return result if isinstance(result, (bool, Outcome)) else False


def ok() -> bool:
    return False


def fails() -> bool:
    return True


def raises() -> Outcome:
    try:
        _inner()
    except ValueError as e:
        return Outcome(Verdict.INTERESTING, failure(e, "compiled"))
    return Outcome(Verdict.BORING)


def _inner() -> None:
    raise ValueError("12 of relu_3") from KeyError("k")


def escapes() -> None:
    raise ImportError("a mistake of the harness")


def segfaults() -> None:
    ctypes.string_at(0)


def aborts() -> None:
    os.abort()


def hangs() -> None:
    while True:
        time.sleep(1)


def rests() -> bool:
    """Takes its time in one place, as what waits for a compiler does, and ends."""
    time.sleep(4)
    return False


def waits_for_work() -> bool:
    """Waits in one place for something that has work to do, and ends."""
    subprocess.run([sys.executable, "-c", "import time\nend = time.monotonic() + 4\nwhile time.monotonic() < end: pass"], check=True)
    return False


def hangs_with_family() -> None:
    """Grandchildren in sessions of their own, one of them a daemon, ignoring what can be ignored."""
    script = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    subprocess.Popen([sys.executable, "-c", script, "minifier-family"], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-c", script, "minifier-family"])
        os._exit(0)
    hangs()


def ignores_sigterm() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    hangs()


def takes_memory() -> None:
    kept = [bytearray(1 << 20) for _ in range(4000)]
    print(len(kept))


def family_takes_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, resource.getrlimit(resource.RLIMIT_DATA))
    for _ in range(8):
        if os.fork() == 0:
            kept = bytearray(os.urandom(1 << 10)) * (60 << 10)
            time.sleep(100)
            print(len(kept))
    time.sleep(100)


def exits_three() -> None:
    os._exit(3)


def exits_zero() -> None:
    os._exit(0)


def leaves() -> None:
    sys.exit(4)


def exits_in_atexit() -> None:
    atexit.register(os._exit, 7)


def hangs_in_atexit() -> None:
    atexit.register(hangs)


def talks_much() -> bool:
    for _ in range(3000):
        print("x" * 1000)
        print("y" * 1000, file=sys.stderr)
    return True


def lies() -> bool:
    """Looks like an answer, on a stream that is none."""
    print('{"verdict": "interesting", "signature": null, "detail": ""}')
    return False


def leaves_files() -> bool:
    Path("here").write_text("x")
    Path(os.environ["TMPDIR"], "there").write_text("x")
    return True


def draws() -> Outcome:
    """Random numbers, as a script draws them that sets no seed."""
    numpy, torch = importlib.import_module("numpy"), sys.modules["torch"]
    return Outcome(Verdict.BORING, detail=f"{random.random()} {numpy.random.rand()} {torch.rand(()).item()}")


def is_warm() -> bool:
    return bool(IS_WARM) and IS_WARM[0] != os.getpid()


def is_let_alone() -> bool:
    """Whether garbage is looked for, and not in what the warmed process has loaded."""
    return gc.isenabled() and gc.get_freeze_count() > 1000


def is_fresh() -> bool:
    return not IS_WARM


def leaves_daemon() -> bool:
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
    return True


def wrong_value() -> Outcome:
    return Outcome(Verdict.INTERESTING, Signature(Kind.ACCURACY, accuracy="value"))


def goes_backward() -> bool:
    import torch  # other oracles run without it

    x = torch.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    return x.grad is None


LOST: list[str] = []


def uses_device() -> bool:
    """As every call of CUDA in a process whose context is gone."""
    if LOST:
        _say_lost()
    return False


def loses_device() -> Outcome:
    LOST.append("CUDA error: an illegal memory access was encountered")
    try:
        uses_device()
    except RuntimeError as e:
        return Outcome(Verdict.INTERESTING, failure(e, "run"))
    return Outcome(Verdict.BORING)


def _say_lost() -> None:
    raise RuntimeError(LOST[0])
