"""Kernels of models compiled for GPUs that aren't there: `python -m tests.inductor.triton.cubins --jobs 6 [NAME]...`.

Every text is compiled once, by processes side by side, whichever models have it. Prints what each model adds, and what is wrong with it.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import torch

from inductor.targets.triton import build
from inductor.targets.triton.comments import without_comments
from inductor.targets.triton.library import Kernel
from inductor.targets.triton.machine import PROCESSORS
from inductor.targets.triton.worker import Refused
from tests.gpu import models as measured
from tests.inductor.triton.pretend import kernel_files
from tests.inductor.triton.seam import spills_of
from tests.models.zoo import MODELS

CAPABILITIES = (80, 90)
MAY_SPILL = ("column", "scan", "transpose")  # of kinds of kernels; the table chooses them for other reasons
SIZED = ("resnet18", "densenet121", "resnext101_32x8d", "bert")  # measured models, at the sizes of the baselines


@dataclass
class Checked:
    """Texts that are known to compile, and what the others lack. `spilling`: how many do, of kinds that may."""

    seen: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    spilling: Counter[str] = field(default_factory=Counter)

    def add(self, files: Iterable[str], jobs: int) -> int:
        """Compile what is new; how many that were."""
        texts = {without_comments(t): t for t in files}
        new = [t for key, t in texts.items() if key not in self.seen]
        self.seen |= texts.keys()
        with ThreadPoolExecutor(jobs) as threads:
            for kind, faults in zip(map(kind_of, new), threads.map(faults_of, new), strict=True):
                if kind.startswith(MAY_SPILL):
                    self.spilling[kind] += any("spilled" in f for f in faults)
                    faults = [f for f in faults if "spilled" not in f]
                self.wrong += faults
        return len(new)


def kind_of(text: str) -> str:
    """The kind of kernel, from the first line of its file: `k3: row, 16 x 32, 4 warps.`"""
    return text.partition(": ")[2].partition(",")[0]


def faults_of(text: str) -> list[str]:
    """What is wrong with a kernel's code for either kind of GPU."""
    head, found = text.partition("import torch")[0], []
    if "\nKERNEL = None\n" in text:
        return [f"it has no Triton form\n{head}"]
    for capability in CAPABILITIES:
        try:
            image = build.ask(Kernel(text), capability)
        except Refused as why:
            found.append(f"sm_{capability}: {why}\n{head}")
            continue
        if image.shared > PROCESSORS[capability].shared - 1024:
            found.append(f"sm_{capability}: {image.shared} bytes of shared memory\n{head}")
        registers, spills = spills_of(image.texts["ptx"], capability)
        if spills:
            found.append(f"sm_{capability}: {registers} registers, {spills} bytes spilled\n{head}")
    return found


def files_of(name: str) -> list[str]:
    """The kernels of `MODEL evaluation` or `MODEL training` at the sizes of the baselines, or of a training step of the zoo's."""
    torch.manual_seed(0)
    model, _, way = name.rpartition(" ")
    if model in measured.MODELS and way in ("evaluation", "training"):
        row = measured.MODELS[model]
        args = tuple(t.to(row.dtype) if t.is_floating_point() else t for t in row.inputs())
        with torch.set_grad_enabled(way == "training"):
            return kernel_files(row.make().to(row.dtype).train(way == "training"), args, {})
    zoo = next(m for m in MODELS if m.name == name)
    given, named = zoo.inputs()
    return kernel_files(zoo.make().train(), given, named)


NAMES = [*(f"{m} {way}" for m in SIZED for way in ("evaluation", "training")), *(m.name for m in MODELS if m.required)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--jobs", type=int, default=1, help="processes that compile beside each other")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    checked = Checked()
    for name in given.names:
        began = time.perf_counter()
        files = files_of(name)
        traced, before = time.perf_counter() - began, len(checked.wrong)
        new = checked.add(files, given.jobs)
        print(f"{name}: {len(files)} kernels, {new} new ({traced:.0f} s to trace, {time.perf_counter() - began:.0f} s)", flush=True)
        print("".join(f"  {w}\n" for w in checked.wrong[before:]), end="", flush=True)
    print(f"{len(checked.seen)} kernels for sm_80 and sm_90, {len(checked.wrong)} wrong; may spill and do: {dict(checked.spilling)}")
    return int(bool(checked.wrong))


if __name__ == "__main__":
    sys.exit(main())
