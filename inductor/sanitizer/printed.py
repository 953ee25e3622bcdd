"""A printed Triton kernel on what its loops are run on: bounds and races of its text, and that it stores what the loops store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from inductor.ir.nest import Program
from inductor.sanitizer.faults import PRINTED, Fault, lines_of
from inductor.targets.triton import guarded
from inductor.targets.triton.guarded import Region, Stray
from inductor.targets.triton.kernel import TritonKernel
from inductor.targets.triton.library import Kernel

LEFT_OUT, TOO_MUCH = "left out", "out of place"


class Printed:
    """One kernel under guard. `found` is told of its faults."""

    def __init__(self, plan: TritonKernel, text: str, program: Program, found: Callable[[Fault], None]) -> None:
        self.plan, self.text, self.program, self.found = plan, text, program, found
        self.kernel = Kernel(text, interpreted=True)
        self.names = (*plan.reads, *plan.writes)

    def run(self, content: Mapping[str, torch.Tensor], stored: Mapping[str, torch.Tensor], scattered: set[str]) -> None:
        """`content`: what the buffers hold before it; `stored`: the elements that the loops store there."""
        module, facts = self.kernel.module, self.kernel.facts
        if module.KERNEL is None:
            return
        memory: dict[str, torch.Tensor] = {}
        for name in self.names:
            old = self.plan.over.get(name, "")
            memory[name] = memory[old] if old in memory else content[old if old in content else name].cpu().clone()
        table = self.plan.table
        for positions, numbers, grid in facts.launches(len(self.names)):
            names = [self.names[k] for k in positions] if table is None else list(self.names)  # which it knows by their addresses
            regions: list[Region] = []
            for k, name in enumerate(names):
                twin = next((r for r in regions if r.content is memory[name]), None)
                regions.append(twin or Region(k, memory[name], name in scattered))
            given = [regions[k] for k in positions] if table is not None else list(regions)
            if facts.takes_bad:
                regions.append(Region(len(regions), torch.zeros(1, dtype=torch.int32), is_scattered=True))
                given.append(regions[-1])
            strays, is_whole = guarded.launch(module, str(module.__file__), regions, numbers, grid[0], given)
            for stray in strays:
                self.report(stray, names)
            if table is not None and table.writes(numbers):
                continue
            for name, region in zip(names, regions, strict=False):
                self.compare(name, region, stored.get(name), is_whole)

    def compare(self, name: str, region: Region, stored: torch.Tensor | None, is_whole: bool) -> None:
        """What was stored against what the loops store."""
        if name not in self.plan.writes or region.is_scattered or stored is None:
            return
        here = torch.from_numpy((region.stores != guarded.NOBODY) | (region.adds != guarded.NOBODY))[: stored.numel()]
        wanted = stored.cpu()[: here.numel()]
        for kind, wrong in ((LEFT_OUT, wanted & ~here), (TOO_MUCH, here & ~wanted)):
            if bool(wrong.any()) and (is_whole or kind is TOO_MUCH):
                what = "no program stores it" if kind is LEFT_OUT else "stored, which no loop does"
                self.tell(kind, name, what, int(wrong.nonzero()[0]), "the end", lines_of(self.plan.origins))

    def report(self, stray: Stray, names: Sequence[str]) -> None:
        name = names[stray.parameter] if stray.parameter < len(names) else "bad"
        place = "program " + " and ".join(map(str, stray.programs))
        self.tell(stray.kind, name, stray.access, stray.element, place, self.user_lines(stray.access))

    def tell(self, kind: str, buffer: str, access: str, element: int, place: str, lines: tuple[str, ...]) -> None:
        size = self.program.buffers[buffer].size if buffer in self.program.buffers else 1
        self.found(Fault(kind, PRINTED, self.plan.name, buffer, access, element, int(size), place, lines))

    def user_lines(self, access: str) -> tuple[str, ...]:
        """The comment above the line of an access says which they are."""
        wanted, comment = access.split("`")[1], ""
        for line in map(str.strip, self.text.splitlines()):
            comment = line.removeprefix("# ") if line.startswith("# ") else comment
            if line == wanted:
                return tuple(comment.split("; ")) if comment else lines_of(self.plan.origins)
        return lines_of(self.plan.origins)
