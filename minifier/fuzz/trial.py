"""One program in the child: eager first, then compiled, and whether what they gave differs by more than rounding does."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten

import dynamo
from dynamo import config
from dynamo.backends.registry import looked_up
from minifier import stands
from minifier.bisect.fuel import Search
from minifier.compare.evidence import Evidence
from minifier.compare.verdict import Kind as Judged
from minifier.compare.verdict import Verdict as Numbers
from minifier.compare.verdict import judge
from minifier.engine import Kind, Outcome, Signature, Verdict
from minifier.fuzz.types import Target
from minifier.isolation import OracleSpec
from minifier.isolation.child import failure, stage

VARIABLE = "DYNAMO_DEBUG_FUZZ"
JUDGE, CULPRIT = "judge", "culprit"
RUN = "run"
EAGER_RAISES = "eager raises "  # how the detail of an outcome begins where it does
# How `Signature` calls what a verdict found; anything else is a wrong value.
_CLASSES = {Judged.CLASS: "nan", Judged.STRUCTURE: "structure"}
_NUMBERS = re.compile(r"_?\d+")


@dataclass(frozen=True)
class Question:
    """A script, the backend it is tried under, and what is asked: whether it fails (`judge`), or which decision makes it fail."""

    script: str
    backend: str
    what: str = JUDGE

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def spec_for(target: Target) -> OracleSpec:
    """The oracle, warmed with what the backend needs."""
    home = "minifier.fuzz.trial"
    environment = {VARIABLE: json.dumps(target.to_json()), "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    # Most of the time is the C compiler's.
    environment |= {"DYNAMO_C_OPTIMIZE": os.environ.get("DYNAMO_C_OPTIMIZE", "1")}
    # Some operators of torch load sympy when they are called first: longer than all the rest of a program takes.
    return OracleSpec(f"{home}:ask", warm=("sympy", f"{home}:warm"), name="program.py", environment=environment)


_WARM = "import torch\ndef run(compile): return [compile(torch.neg)(torch.ones(3))]\ndef compiled(fn): return torch.compile(fn)\n"


def warm() -> None:
    """Compile one operator. A backend that fails on it is for the trials to judge. Raises UnknownBackend."""
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):  # asks for an accelerator, which a function mode sees once per process
        pass
    target = _target()
    if target.engine == "dynamo":
        looked_up(target.backend)
        _enter(target, target.backend)  # torch's compiler would keep this backend for good
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = loaded(_WARM, "warm.py")
        module.run(module.compiled)
    dynamo.reset()


def ask(path: Path) -> Outcome:
    """Judge the question at `path`."""
    stage("eager", counts=False)
    question = Question(**json.loads(path.read_bytes()))
    target = _target()
    place = path.with_name("drawn.py")
    place.write_text(question.script)
    trial = Trial(question.script, str(place))
    _enter(target, question.backend)
    if question.what == CULPRIT:
        return Outcome(Verdict.BORING, detail=trial.culprit())
    return trial.judged()


def _target() -> Target:
    return Target(**json.loads(os.environ[VARIABLE]))


def _enter(target: Target, backend: str) -> None:
    config.suppress_errors = False
    stands.of(target.engine).enter(backend)


def loaded(text: str, name: str) -> types.ModuleType:
    """The script as a module; it is kept, since functions need their module."""
    module = types.ModuleType("drawn")
    module.__file__ = name
    sys.modules["drawn"] = module
    exec(compile(text, name, "exec"), vars(module))
    return module


class Trial:
    """One program. Every run is of a module of its own and has its own filters of warnings, so that none sees what another left."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.raised: BaseException | None = None
        try:
            self.eager = self.flat(self.run("eager"))
        except Exception as e:  # noqa: BLE001  # compiled code has to raise the same
            self.raised = e

    def run(self, how: str, change: Callable[[Any], Any] | None = None) -> Any:
        """One run, `eager` or `compiled`. With `change` inputs are made outside of all modes and changed by it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = loaded(self.text, self.name)
            if change is not None and hasattr(module, "make"):
                module.make = _outside(module.make, change)  # type: ignore[attr-defined]  # the module of a program
            return module.run(getattr(module, how))

    def flat(self, values: Any) -> list[Any]:
        """Leaves, and how they are nested."""
        leaves, nesting = tree_flatten(values)
        return [str(nesting), *leaves]

    def judged(self) -> Outcome:
        """The outcome of one compiled run."""
        stage(RUN, counts=True)
        try:
            found = self.flat(self.run("compiled"))
        except Exception as e:  # noqa: BLE001  # this is what is looked for
            if self.raised is not None and type(e) is type(self.raised):
                return Outcome(Verdict.BORING, detail=type(e).__name__)
            there = f"{EAGER_RAISES}{type(self.raised).__name__}; " if self.raised is not None else ""
            return Outcome(Verdict.INTERESTING, failure(e, RUN), detail=f"{there}{type(e).__name__}: {e}"[:2000])
        stage("compare", counts=False)
        if self.raised is not None:
            text = f"{EAGER_RAISES}{type(self.raised).__name__}: {self.raised}; compiled code does not"
            return Outcome(Verdict.INTERESTING, Signature(Kind.ACCURACY, accuracy="exception", stage=RUN), detail=text[:2000])
        numbers = self.compared(found)
        if not numbers.is_finding:
            return Outcome(Verdict.BORING)
        return Outcome(
            Verdict.INTERESTING, Signature(Kind.ACCURACY, accuracy=_CLASSES.get(numbers.kind, "value"), stage=RUN), detail=numbers.text
        )

    def compared(self, found: list[Any]) -> Numbers:
        """Results beside those of eager, of eager in float64 and of eager with other rounding."""
        if found[0] != self.eager[0]:
            return Numbers(Judged.STRUCTURE, 1.0, f"results are nested as {found[0]:.100} instead of {self.eager[0]:.100}")

        def again(change: Callable[[Any], Any], mode: AbstractContextManager[Any]) -> list[Any]:
            with mode:
                return self.flat(self.run("eager", change))

        return judge([Evidence(again, self.eager).sample(found)])

    def culprit(self) -> str:
        """The decision of our compiler that makes the program fail, without its numbers; '' where no single one does."""
        signature = self.judged().signature
        if signature is None or signature.kind not in (Kind.ACCURACY, Kind.EXCEPTION):
            return ""

        def fails() -> bool:
            dynamo.reset()
            return self.judged().signature == signature

        found = Search(fails).run()
        if found is None or not found.verified:
            return ""
        return f"{found.stage}: {_NUMBERS.sub('', found.names[0].partition(': ')[2])}"


def _outside(make: Callable[..., torch.Tensor], change: Callable[[Any], Any]) -> Callable[..., torch.Tensor]:
    def made(*args: Any) -> torch.Tensor:
        with _no_modes():
            return change(make(*args))

    return made


@contextlib.contextmanager
def _no_modes() -> Iterator[None]:
    with _disable_current_modes():
        yield
