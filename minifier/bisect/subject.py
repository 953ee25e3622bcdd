"""A graph that is run several ways on the same inputs, random numbers and global state: eager, compiled, float64, with other rounding."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from dynamo.graph.lazy import forward_of, lazy_module
from inductor.targets.cpu.host import spoil_arenas
from minifier.compare import generators
from minifier.compare.modes import Draws, Exact, Noisy, NoReference, Recorded, widened
from minifier.compare.verdict import Sample

Call = Callable[..., Any]
SEED = 20_000
AFTERWARDS = " afterwards"  # the end of the name of what is left in an input or a buffer
MOST_KEPT = 5_000_000  # numbers of one run that are kept for the next question
MOST_SPOILT, SPOILT = 1 << 22, 4  # bytes of a block, and blocks of each size, that are spoilt before compiled code runs


@dataclass(frozen=True)
class Seen:
    """What one run gave: results, gradients, what it left in inputs and buffers."""

    names: tuple[str, ...]
    values: tuple[Any, ...]


@dataclass
class Drawn:
    """One draw of inputs: what runs start from."""

    number: int
    inputs: list[Any]
    states: generators.States
    draws: Draws = field(default_factory=Draws)
    eager: Seen | None = None
    exact: list[Any] | None = None
    problem: str = ""  # why there is no float64 run
    noisy: dict[tuple[int, float], list[Any]] = field(default_factory=dict)


class Subject:
    """`gm` with inputs as it was called with. Nothing that is run here changes them, the graph, or the state of the generator.

    `gradients`: where results need them, gradients of a fixed random sum of all results are results too. `numbers` are the draws that
    are made: 0 is the inputs as they are, others have the elements of each float in another order, and parts of them where all are equal.
    """

    def __init__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], *, gradients: bool = True) -> None:
        self.gm, self.gradients = duplicate(gm), gradients
        self.forward = forward_of(self.gm)
        self.inputs = copied(inputs)
        self.grads = [isinstance(i, torch.Tensor) and i.requires_grad for i in inputs]
        self.placeholders = [str(n.target) for n in gm.graph.nodes if n.op == "placeholder"]
        self.states = generators.states()
        self.sizes = frozenset(_bytes(n.meta.get("val")) for n in gm.graph.nodes)
        self._drawn: dict[int, Drawn | None] = {}
        self._weights: dict[int, torch.Tensor] = {}

    # draws of inputs

    def drawn(self, number: int) -> Drawn | None:
        """A draw with what eager gives on it, or None where eager refuses such inputs."""
        if number not in self._drawn:
            one = Drawn(number, self._redrawn(number), self.states if number == 0 else generators.seeded(SEED + number))
            try:
                self._eager(one)
            except (RuntimeError, ValueError, IndexError, TypeError):
                if number == 0:
                    raise
                self._drawn[number] = None
            else:
                self._drawn[number] = one
        return self._drawn[number]

    def _redrawn(self, number: int) -> list[Any]:
        if number == 0:
            return self.inputs
        generator = torch.Generator().manual_seed(SEED + number)
        made = copied(self.inputs)
        for value in made:
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 1:
                flat = value.detach().reshape(-1)
                order = torch.randperm(value.numel(), generator=generator).to(value.device)
                if bool((flat == flat[0]).all()):  # any order of them is the same
                    flat = torch.where(flat == 0, 1.0, flat) * (order + 1) / len(order)
                with torch.no_grad():
                    value.copy_(flat[order].view(value.shape))
        return made

    def problem(self) -> str:
        """Why some draw has no float64 run, or ''."""
        return next((d.problem for d in self._drawn.values() if d is not None and d.problem), "")

    # runs

    def _eager(self, one: Drawn) -> None:
        recorded = Recorded()
        one.eager = self._run(self.forward, one, self._own(), recorded)
        one.draws = recorded.draws

    def compiled(self, call: Call, one: Drawn) -> Seen:
        """What compiled code gives on a draw. It knows parameters and buffers by identity, so they are put back afterwards.

        Memory that it gets holds no results of an earlier run, so that reading what was never written shows.
        """
        for device in generators.devices_of(self.inputs):
            spoil(self.sizes, device)
        spoil_arenas()
        with self._unchanged():
            return self._run(call, one, None)

    def exact(self, one: Drawn) -> list[Any] | None:
        """The results in float64, or None where that can't be run (`one.problem`)."""
        if one.exact is None and not one.problem:
            try:
                with _default_dtype(torch.float64):
                    one.exact = list(self._run(self.forward, one, self._own(widened), Exact(one.draws), widened).values)
            except (RuntimeError, TypeError, ValueError, NotImplementedError) as e:
                one.problem = str(e).splitlines()[0] if str(e) else type(e).__name__
        return one.exact

    def noisy(self, one: Drawn, seed: int, amplitude: float) -> list[Any]:
        """The results with other rounding; those of eager where the program can't be run so."""
        if (seed, amplitude) in one.noisy:
            return one.noisy[seed, amplitude]
        assert one.eager is not None
        try:
            found = list(self._run(self.forward, one, self._own(), Noisy(one.draws, seed, amplitude)).values)
        except (NoReference, RuntimeError, IndexError, ValueError):
            found = list(one.eager.values)
        if sum(v.numel() for v in found if isinstance(v, torch.Tensor)) < MOST_KEPT:
            one.noisy[seed, amplitude] = found
        return found

    def sample(self, call: Call, number: int) -> Sample | None:
        """Compiled code beside eager on one draw; None where eager refuses the draw. Raises what compiled code raises."""
        one = self.drawn(number)
        if one is None:
            return None
        assert one.eager is not None
        found = self.compiled(call, one)
        return Sample(one.eager.names, one.eager.values, found.values, lambda: self.exact(one), lambda s, a: self.noisy(one, s, a))

    def _run(
        self,
        call: Call,
        one: Drawn,
        own: dict[tuple[str, str], Any] | None,
        mode: AbstractContextManager[Any] | None = None,
        change: Callable[[Any], Any] | None = None,
    ) -> Seen:
        """One run on copies of the inputs, each made by `change`, with `own` parameters; `mode` sees the run and nothing around it."""
        values = copied(one.inputs)
        if change is not None:
            values = [change(v) if isinstance(v, torch.Tensor) else v for v in values]
        for value, grad in zip(values, self.grads, strict=True):
            if grad:
                value.requires_grad_()
        before = generators.states()
        generators.put_back(one.states)
        given = list(values)
        try:
            with self._swapped(own), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with mode or nullcontext():
                    results = tree_leaves(call(*given))
                    gradients = self._gradients(results, values)
                names, gave = [f"result {i}" for i in range(len(results))], [kept(r) for r in results]
                for name, gradient in gradients:
                    names.append(name)
                    gave.append(kept(gradient))
                for name, value in self._left(values):
                    names.append(name)
                    gave.append(kept(value))
        finally:
            generators.put_back(before)
        return Seen(tuple(names), tuple(gave))

    def _gradients(self, results: Sequence[Any], values: Sequence[Any]) -> list[tuple[str, Any]]:
        if not self.gradients:
            return []
        leaves = [(f"gradient of {n}", v) for n, v in zip(self.placeholders, values, strict=True) if _needs(v) and v.is_leaf]
        leaves += [(f"gradient of {n}", p) for n, p in self.gm.named_parameters() if _needs(p)]
        roots = [(i, r) for i, r in enumerate(results) if _needs(r) and not any(r is leaf for _, leaf in leaves)]
        if not leaves or not roots:
            return []
        weights = [self._weight(r, i) for i, r in roots]
        found = torch.autograd.grad([r for _, r in roots], [v for _, v in leaves], weights, allow_unused=True)
        pairs = zip(leaves, found, strict=True)
        return [(name, torch.zeros_like(leaf) if gradient is None else gradient) for (name, leaf), gradient in pairs]

    def _weight(self, result: torch.Tensor, number: int) -> torch.Tensor:
        """What the gradient of a result is weighted with: the same numbers in every run, which every dtype holds."""
        if number not in self._weights:
            generator = torch.Generator().manual_seed(SEED + number)
            with _disable_current_modes():
                self._weights[number] = torch.randn(result.shape, generator=generator, dtype=torch.float32).to(torch.bfloat16)
        with _disable_current_modes():
            return self._weights[number].to(result.device, result.dtype)

    def _left(self, values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        for name, value in zip(self.placeholders, values, strict=True):
            if isinstance(value, torch.Tensor):
                yield name + AFTERWARDS, value
        for name, buffer in self.gm.named_buffers():
            yield name + AFTERWARDS, buffer

    # parameters and buffers

    def _places(self) -> Iterator[tuple[tuple[str, str], dict[str, Any], str]]:
        for path, module in self.gm.named_modules():
            for kind, table in (("p", module._parameters), ("b", module._buffers)):
                for name, value in table.items():
                    if value is not None:
                        yield (path, kind + name), table, name

    def _own(self, change: Callable[[Any], Any] | None = None) -> dict[tuple[str, str], Any]:
        """Copies of parameters and buffers; what is one tensor stays one."""
        made: dict[int, Any] = {}
        own = {}
        for key, table, name in self._places():
            value = table[name]
            if id(value) not in made:
                copy = value.detach().clone() if change is None else change(value.detach()).clone()
                made[id(value)] = copy.requires_grad_(value.requires_grad)
            own[key] = made[id(value)]
        return own

    @contextmanager
    def _swapped(self, own: dict[tuple[str, str], Any] | None) -> Iterator[None]:
        if own is None:
            yield
            return
        places = list(self._places())
        before = [table[name] for _, table, name in places]
        for key, table, name in places:
            table[name] = own[key]
        try:
            yield
        finally:
            for (_, table, name), value in zip(places, before, strict=True):
                table[name] = value

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        held = {id(table[name]): table[name] for _, table, name in self._places()}
        before = [(value, value._version, value.detach().clone()) for value in held.values()]
        try:
            yield
        finally:
            with torch.no_grad():
                for value, version, content in before:
                    if value._version != version or not torch.equal(value.nan_to_num(), content.nan_to_num()):
                        value.copy_(content)


def duplicate(gm: torch.fx.GraphModule, further: Sequence[str] = ()) -> torch.fx.GraphModule:
    """Another module with the same graph and the same parameters and buffers, and with `further` nodes, by name, as more results.

    A backend may change the graph that it is given.
    """
    graph = Graph()
    copies: dict[Node, Node] = {}
    output = graph.graph_copy(gm.graph, copies)
    for old, new in copies.items():
        new.meta = dict(old.meta)
    if further:
        by_name = {old.name: new for old, new in copies.items()}
        output = (*(output if isinstance(output, (tuple, list)) else (output,)), *(by_name[n] for n in further))
    graph.output(output).meta = dict(next(iter(reversed(gm.graph.nodes))).meta)
    module = lazy_module(gm, graph)
    module.meta.update(gm.meta)
    return module


def copied(values: Sequence[Any]) -> list[Any]:
    """Copies that share memory as the originals do, without history. Generators are copied with their state."""
    memory: dict[int, torch.Tensor] = {}
    return [_copy(v, memory) for v in values]


def _copy(value: Any, memory: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Generator):
        generator = torch.Generator(value.device)
        generator.set_state(value.get_state())
        return generator
    if not isinstance(value, torch.Tensor):
        return value
    plain = value.detach()
    if plain.layout is not torch.strided or type(plain) not in (torch.Tensor, torch.nn.Parameter) or plain.is_conj() or plain.is_neg():
        return plain.clone()
    storage = plain.untyped_storage()
    key = storage.data_ptr() or id(value)
    if key not in memory:
        memory[key] = torch.empty(0, dtype=torch.uint8, device=plain.device).set_(storage).clone()
    made = torch.empty(0, dtype=plain.dtype, device=plain.device)
    return made.set_(memory[key].untyped_storage(), plain.storage_offset(), plain.shape, plain.stride())


def kept(value: Any) -> Any:
    """What a run gave, as it is now."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def spoil(sizes: Collection[int], device: torch.device) -> None:
    """Fill free memory with NaN: the blocks of such sizes (bytes) that the allocator hands out next are some of those freed last."""
    with _disable_current_modes():
        blocks = [torch.full((n,), 255, dtype=torch.uint8, device=device) for n in sizes if 0 < n <= MOST_SPOILT for _ in range(SPOILT)]
    blocks.clear()


def _bytes(value: Any) -> int:
    """Of a fake tensor; 0 where its sizes are not known."""
    if not isinstance(value, torch.Tensor) or not all(isinstance(n, int) for n in value.shape):
        return 0
    return value.numel() * value.element_size()


def _needs(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
