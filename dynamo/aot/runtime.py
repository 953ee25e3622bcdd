"""What runs when a compiled graph is called: gather inputs, call the forward, hook the backward into autograd, restore aliasing."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_unflatten

from dynamo import config
from dynamo.aot import links
from dynamo.aot.again import Again, given_of, is_wanted, saved_of, set_aside, unchanged, version_of
from dynamo.aot.edges import graph_of, reaching, with_edges
from dynamo.aot.errors import DOUBLE_BACKWARD, REENTRANT
from dynamo.aot.facts import CutOff, Facts, Output, Place, ambient_mode, in_mode
from dynamo.aot.outputs import OfAnother, outputs_of
from dynamo.aot.several import Several, has_nan, keeps_graph
from dynamo.fake.convert import modes_off
from dynamo.graph.hooks import own_hooks, skip_missing
from dynamo.graph.invariant import watched
from dynamo.graph.rescue import KEEPS_INPUTS
from dynamo.surroundings.modes import leave

Tensor = torch.Tensor
Compiled = Callable[[list[Any]], Sequence[Any]]
Builder = Callable[[tuple[Any, ...], Sequence[Any]], Any]

_Key = torch._C.DispatchKey
_WRITABLE = torch._C._autograd.CreationMeta.DEFAULT
_IN_FUNCTION = torch._C._autograd.CreationMeta.IN_CUSTOM_FUNCTION
_FAR = 1 << 30
_BELOW = torch._C.DispatchKeySet(_Key.ADInplaceOrView)
for _key in ("AutogradFunctionality", "AutogradOther", "AutocastCPU", "AutocastCUDA"):
    _BELOW = _BELOW | torch._C.DispatchKeySet(getattr(_Key, _key))


# Makes a context: ops run without autograd, autocast and view tracking; the graph has all of that inside already.
below_autograd: Callable[[], Any] = partial(torch._C._ExcludeDispatchKeyGuard, _BELOW)


class _Refuse(torch.autograd.Function):
    """Passes gradients through, and refuses to be differentiated."""

    @staticmethod
    def forward(ctx: Any, reason: str, count: int, *tensors: Any) -> Any:
        ctx.reason = reason
        return tuple(t.view_as(t) for t in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(DOUBLE_BACKWARD.format(ctx.reason))


class _Backward:
    """What a pair does with the gradients that arrive.

    `again` differentiates where the backward graph can't. What only it needs is kept beside the saved tensors: changing such a
    tensor in place before a backward that doesn't read it is nobody's mistake.
    """

    def __init__(self, facts: Facts, backward: Compiled, again: Again, plan: links.Plan) -> None:
        self.backward = backward
        self.run: Compiled | None = None  # it may still be being built, so it is asked for when the first gradients arrive
        self.lays_out = True
        self.again, self.plan, self.several = again, plan, Several(facts, again)
        differentiable = [i for i, d in enumerate(facts.differentiable) if d]
        self.first = differentiable[0]
        self.tangents = [(i, *laid, laid[0] == row_major(laid[1])) for i, laid in zip(differentiable, facts.tangents, strict=True)]
        self.failing = [(differentiable[i], kind, message) for i, kind, message in facts.backward_errors]
        self.may_fail = {i for i, *_ in self.failing}
        self.met, self.reentrant = facts.met, facts.reentrant
        self.primals, self.wanted, self.behind = len(facts.primals), facts.wanted, facts.behind
        self.absent = [(mask, other) for mask, other in zip(facts.behind, facts.absent, strict=False) if other]
        self.wants_all = list(facts.wanted) == list(range(self.primals))
        self.keeps = bool(again.extras() or again.overwritten)
        self.has_links = bool(plan.levels)
        self.may_lead_nowhere = len(self.tangents) > 1
        self.has_parts = self.several.is_needed

    def differentiated(self, ctx: Any, grads: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients of the primals, for those of the results."""
        if self.may_lead_nowhere and not torch.autograd._is_checkpoint_valid():  # which is so where the pass gets to all that is behind
            grads = self._leading(ctx, grads)
        is_given = grads[self.first] is not None or any(g is not None for g in grads)
        if is_given and (self.failing or ctx.saved_after or self.reentrant):
            self._check(ctx, grads)
        if self.has_links and (found := links.rest(ctx, grads, self.plan)) is not None:
            if self.keeps and not keeps_graph(ctx):
                ctx.extras = None
            return tuple(found)
        if not is_given:
            if not (keeps_graph(ctx) or (self.has_parts and (ctx.left is not None or ctx.is_bare))):
                set_aside(ctx)
            _pass_by(ctx, range(self.primals))
            return (None,) * self.primals
        if self.has_parts and ctx.left is not None and (later := self.several.later(ctx, grads)) is not None:
            return tuple(later)
        if not is_wanted():
            return tuple(self._computed(ctx, grads, releases=True))
        reason = self.again.obstacle(ctx)
        if not reason:
            found = self.again.gradients(ctx, grads)
            self._release(ctx, sum(1 << bit for bit, (i, *_) in enumerate(self.tangents) if grads[i] is None))
            return tuple(found)
        with torch.no_grad():
            out = list(self._computed(ctx, grads, releases=False))
        if not torch.is_grad_enabled():
            return tuple(out)
        return tuple(_refusing(reason, out, (*saved_of(ctx, grads), *grads)))

    def _leading(self, ctx: Any, grads: Sequence[Any]) -> Sequence[Any]:
        """The gradients from which the pass gets to what it was asked for: eager meets none of the operations behind others."""
        reached, reaches = 0, reaching(ctx)
        for p, mask in zip(self.wanted, self.met, strict=True):
            if mask & ~reached and reaches(p):
                reached |= mask
        kept = list(grads)
        for bit, (i, *_) in enumerate(self.tangents):
            if not reached >> bit & 1 and i not in self.may_fail:  # what is behind those is not known
                kept[i] = None
        return kept

    def _check(self, ctx: Any, grads: Sequence[Any]) -> None:
        """Raises what the pass from those results raises that have a gradient."""
        for i, kind, message in self.failing:
            if grads[i] is not None:
                raise getattr(builtins, kind, RuntimeError)(message)
        given = given_of(grads)
        if self.reentrant and not torch.autograd._is_checkpoint_valid():
            reaches = reaching(ctx)
            if any(mask & given and reaches(p) for p, mask in zip(self.wanted, self.reentrant, strict=True)):
                raise RuntimeError(REENTRANT)
        for tensor, version, readers in ctx.saved_after:
            if readers & given:
                unchanged(tensor, version)

    def _computed(self, ctx: Any, grads: Sequence[Any], releases: bool) -> Sequence[Any]:
        """What the backward graph gives. With `releases` nothing that the forward saved is needed after it."""
        if self.run is None:
            program = getattr(self.backward, "settle", lambda: self.backward)()
            self.run, self.lays_out = guarded(program), not getattr(program, "lays_out_inputs", False)
        inputs = [] if self.has_parts and ctx.is_bare else [*saved_of(ctx, grads)]
        missing = self._add(inputs, ctx, grads)
        may_run = releases and self._leaves_zeros(grads, missing) and not self.again.obstacle(ctx)
        if may_run and not self.again.is_written_since(ctx, grads):
            found = self.again.gradients(ctx, grads)  # which are zeros without memory too where eager's are
            self._release(ctx, missing)
            return found
        doubtful = missing and releases and self.several.may_meet(missing)
        if releases and not doubtful:
            self._release(ctx, missing)
            if not ctx.goes_on:
                ctx.maybe_clear_saved_tensors()  # the list alone has them now, and the backward may free each after its last use
        computed = self.run(inputs)
        if doubtful:
            starts_over = has_nan(computed) and not self.again.obstacle(ctx)
            is_written = starts_over and self.again.is_written_since(ctx, grads)
            if is_written:  # other values where no derivative reads them
                inputs = self.several.read(ctx, grads)
                self._add(inputs, ctx, grads)
                computed = self.run(inputs)
            elif starts_over:
                computed = self.again.gradients(ctx, grads)
            self._release(ctx, missing)
            if starts_over and not is_written:
                return computed
        if missing:
            _pass_by(ctx, [p for mask, p in zip(self.behind, self.wanted, strict=True) if not mask & ~missing])
            computed = [g if mask & ~missing else None for g, mask in zip(computed, self.behind, strict=True)]
        if self.wants_all:
            return computed
        out: list[Any] = [None] * self.primals
        for i, grad in zip(self.wanted, computed, strict=True):
            out[i] = grad
        return out

    def _leaves_zeros(self, grads: Sequence[Any], missing: int) -> bool:
        """Whether a gradient may be zeros without memory: if given ones are, or if nothing else arrives there."""
        given = any(g is not None and g._is_zerotensor() for g in grads)
        return given or any(mask & ~missing and not mask & ~missing & ~other for mask, other in self.absent)

    def _add(self, inputs: list[Any], ctx: Any, grads: Sequence[Any]) -> int:
        """Put the gradients behind the inputs, zeros for those that are missing. Returns which are, as bits."""
        missing = 0
        for bit, (i, strides, shape, is_dense) in enumerate(self.tangents):
            if grads[i] is None:
                missing |= 1 << bit
                inputs.append(_zeros(ctx._input_metadata[i], strides, shape))
                continue
            grad = _resolved(grads[i])
            inputs.append(_as_traced(grad, strides, shape, is_dense) if self.lays_out else grad)
        return missing

    def _release(self, ctx: Any, missing: int) -> None:
        if self.has_parts:
            self.several.spend(ctx, missing)
        elif not keeps_graph(ctx):
            ctx.extras = ctx.aside = None
        if ctx.saved_after and not keeps_graph(ctx):
            given = sum(1 << i for bit, (i, *_) in enumerate(self.tangents) if not missing >> bit & 1)
            ctx.saved_after = [(tensor, version, readers & ~given) for tensor, version, readers in ctx.saved_after if readers & ~given]


def pair(facts: Facts, forward: Compiled, backward: Compiled, again: Again, plan: links.Plan) -> Callable[..., Any]:
    """One autograd.Function for the forward and backward graph. Takes the primals, returns the results."""
    results, saved_primals = facts.results, facts.saved_primals
    constant = [not d for d in facts.differentiable]
    has_constants = any(constant)
    saves_all = list(saved_primals) == list(range(len(facts.primals)))
    run_forward = guarded(forward)
    if facts.asks_grad_mode:
        run_forward = torch.enable_grad()(run_forward)
    extras, overwritten = again.extras(), again.overwritten
    draws = facts.draws and not again.reason
    back = _Backward(facts, backward, again, plan)
    keeps, has_links, has_parts = back.keeps, back.has_links, back.has_parts
    everything = sum(1 << i for i, d in enumerate(facts.differentiable) if d)
    has_apart = any(seen and readers != everything for readers, seen in zip(facts.readers, facts.seen_outside, strict=True))

    class CompiledGraph(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *flat: Any) -> Any:
            ctx.set_materialize_grads(False)
            if type(flat[-1]) is list:  # see `edges.with_edges`
                flat = tuple(flat[-1])
            if draws:
                ctx.random_states = again.generators.states()
            if has_links:
                ctx.watched = None
            if has_parts:
                ctx.left = None
            old = [flat[i].clone() for i in overwritten] if overwritten else []
            outs = run_forward(list(flat))
            if has_parts:
                ctx.is_bare = not saved_primals and len(outs) == results
            saved = [*(flat if saves_all else [flat[i] for i in saved_primals]), *outs[results:]]
            ctx.save_for_backward(*saved)
            if has_apart:
                ctx.versions = [version_of(t) for t in saved]
            if keeps:
                ctx.extras = [(t, version_of(t)) for t in [*[flat[i] for i in extras], *old]]
            given = tuple(outs[:results])
            if has_constants:
                ctx.mark_non_differentiable(*[o for o, c in zip(given, constant, strict=True) if c])
            return given

    def differentiated(ctx: Any, *grads: Any) -> Any:
        exchange = ctx.exchange
        if exchange is None:
            return back.differentiated(ctx, grads)
        return *exchange.of_graph(ctx, grads, back.differentiated), None

    # What `Function` adds in Python around both directions looks for functorch levels and for which of `backward` and `vjp`
    # was given. Neither changes after this point, and together they cost as much as a small graph.
    run = watched(differentiated, "a backward", "", (), ("random state",)) if config.check_surroundings else differentiated
    at_first = {
        "apply": run,
        "aside": None,  # see `again.set_aside`
        "goes_on": False,  # a pass that has come to an entry comes to the graph's node later, see `edges`
        "exchange": None,  # see `edges.with_edges`
        "readers": facts.readers,  # see `again.saved_of`
        "results": results,
        "saved_after": (),  # see `_noting`
        "versions": None,  # of what was saved, where not all derivatives read it
    }
    for name, value in at_first.items():
        setattr(CompiledGraph._backward_cls, name, value)
    call = _applying(CompiledGraph)
    call = with_edges(call, facts, back.differentiated)
    if len(constant) - sum(constant) > 1:
        call = _with_own_hooks(call, [i for i, c in enumerate(constant) if not c])
    if facts.apart:
        call = _without_history(call, facts.apart)
    if facts.relaid:
        call = _apart(call, facts.relaid_primals)
    if counted := [*facts.relaid_primals, *facts.unwritten]:
        call = _counted(call, counted)
    return with_history(call) if facts.enables_grad else call


def _applying(function: Any) -> Compiled:
    """The call of every step of an `autograd.Function`."""
    apply: Callable[..., Any] = super(torch.autograd.Function, function).apply
    checked: Callable[..., Any] = function.apply
    has_levels = torch._C._are_functorch_transforms_active
    return lambda flat: checked(*flat) if has_levels() else apply(*flat)


def _with_own_hooks(run: Compiled, differentiable: Sequence[int]) -> Compiled:
    def call(flat: list[Any]) -> Any:
        results = run(flat)
        for i in differentiable:
            if results[i].grad_fn is not None:
                own_hooks(results[i])
        return results

    return call


def _refusing(reason: str, grads: list[Any], history: Sequence[Any]) -> list[Any]:
    """The gradients with a history that refuses to be differentiated. `history`: what they were computed from."""
    given = [i for i, g in enumerate(grads) if g is not None]
    tensors = [t for t in history if isinstance(t, Tensor)]
    for i, g in zip(given, _Refuse.apply(reason, len(given), *[grads[i] for i in given], *tensors), strict=True):
        grads[i] = g
    return grads


def _apart(run: Compiled, relaid: Sequence[int]) -> Compiled:
    """The backward keeps tensors that get another shape after the call as they are before it."""

    def call(flat: list[Any]) -> Any:
        given = list(flat)
        for i in relaid:
            given[i] = flat[i].clone() if flat[i].requires_grad else flat[i].detach()
        return run(given)

    return call


def _counted(run: Compiled, changed: Sequence[int]) -> Compiled:
    """Changes that leave the values of tensors count before the graph saves those: what eager saves earlier, its passes refuse."""

    def call(flat: list[Any]) -> Any:
        as_before = torch.autograd._unsafe_preserve_version_counter(tuple(flat[i] for i in changed))
        torch.autograd.graph.increment_version([flat[i] for i in changed])
        try:
            return run(flat)
        except Exception:
            with as_before:
                raise

    return call


def _without_history(run: Compiled, apart: Sequence[int]) -> Compiled:
    """A backward pass that gets to what a tensor was computed from asks for what was saved there, also where no gradient arrives."""

    def call(flat: list[Any]) -> Any:
        given = list(flat)
        for i in apart:
            given[i] = flat[i].detach()
        return run(given)

    return call


def _zeros(about: Any, strides: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
    """In place of a gradient that did not arrive; `about` is what autograd knows of its dtype and device."""
    return torch.empty_strided(shape, strides, dtype=about.dtype, device=about.device).zero_()


def _pass_by(ctx: Any, primals: Iterable[int]) -> None:
    """No gradient arrives at these: autograd says so to leaves among them, where eager doesn't get to."""
    nodes = ctx.next_functions
    for p in primals:
        leaf = getattr(nodes[p][0], "variable", None)
        if leaf is not None:
            skip_missing(leaf)


def with_history(run: Compiled) -> Compiled:
    """The call records history although gradients are off around it: what the program computed under `enable_grad` has some."""

    def call(flat: list[Any]) -> Any:
        with torch.inference_mode(False), torch.enable_grad():
            return run(flat)

    return call


def single(forward: Compiled) -> Callable[..., Any]:
    """The graph alone: nothing needs a gradient."""

    return guarded(forward)


def guarded(compiled: Compiled) -> Compiled:
    """The callable below autograd, unless it sees to that itself."""
    if getattr(compiled, "is_below_autograd", False):
        return compiled

    def call(flat: list[Any]) -> Sequence[Any]:
        with below_autograd():
            return compiled(flat)

    return call


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def flat_base(t: Tensor) -> Tensor:
    """The whole storage of `t` as one flat tensor of its dtype. It counts writes if `t` does, wherever the call is made."""
    storage = t.untyped_storage()
    with torch.inference_mode(t.is_inference()) if torch.is_inference_mode_enabled() != t.is_inference() else nullcontext():
        flat = torch.empty(0, dtype=t.dtype, device=t.device)
        return flat.set_(storage, 0, (storage.nbytes() // t.element_size(),), (1,))


def _resolved(grad: Tensor) -> Tensor:
    """The gradient with its values in memory: a conjugate or negative view has others there, zeros may have no memory."""
    if grad._is_zerotensor():
        return grad.clone()
    return grad.resolve_conj().resolve_neg() if grad.is_conj() or grad.is_neg() else grad


def _as_traced(grad: Tensor, strides: tuple[int, ...], shape: tuple[int, ...], is_dense: bool) -> Tensor:
    """Gradients arrive with any strides; the backward was traced for those of the output. Runs with gradients off."""
    if grad.stride() == strides:
        return grad
    if is_dense:
        return grad.contiguous()
    return torch.empty_strided(shape, strides, dtype=grad.dtype, device=grad.device).copy_(grad)


def _gather(facts: Facts, held: Sequence[Tensor]) -> Callable[[tuple[Any, ...]], list[Any]]:
    """From the caller's arguments to the primals of the graph."""
    plan = facts.primals
    if all(kind == "argument" for kind, _ in plan) and [i for _, i in plan] == list(range(len(plan))):
        count = len(plan)
        return lambda args: list(args) if len(args) == count else list(args[:count])
    first = [held[i] for kind, i in plan if kind == "held"]
    positions = [i for kind, i in plan if kind == "argument"]
    if [kind for kind, _ in plan] == ["held"] * len(first) + ["argument"] * len(positions):
        return lambda args: [*first, *[args[i] for i in positions]]
    return lambda args: [_at(place, args, held) for place in plan]


def _at(place: Place, args: Sequence[Any], held: Sequence[Tensor]) -> Any:
    kind, index = place
    return held[index] if kind == "held" else args[index] if kind == "argument" else flat_base(args[index])


def _builder(facts: Facts, held: Sequence[Tensor], output: Output) -> Builder:
    """How one result for the caller is made from the arguments and the results of the graph."""
    index, steps, mode = output.index, output.steps, output.mode
    if output.kind == "constant":
        value = output.value
        return lambda args, results: value
    if output.kind == "graph":
        make = _stale_view if output.stale else _view
        if output.is_closed:
            return lambda args, results: _view(results[index], (_same,), mode)
        if output.in_function:
            views = steps or (_same,)
            return lambda args, results: _refusing_writes(make(results[index], views, mode))
        if not steps:
            return lambda args, results: results[index]
        return lambda args, results: make(results[index], steps, mode)
    place = facts.sources[index]
    return lambda args, results: _view(_at(place, args, held), steps, mode) if steps else _at(place, args, held)


def _maker_of(facts: Facts, held: Sequence[Tensor], cut: CutOff) -> Callable[[tuple[Any, ...], Sequence[Any], list[Any]], None]:
    """Puts a detached tensor and the views of it into the places that they have among the outputs."""
    whole = _builder(facts, held, cut.base)
    views = [(at, _stale_view if o.stale else _view, o.steps, o.mode) for at, o in cut.views]

    def make(args: tuple[Any, ...], results: Sequence[Any], made: list[Any]) -> None:
        base = whole(args, results)
        for at, view_of, steps, mode in views:
            view = view_of(base, steps, mode) if steps else base
            for i in at:
                made[i] = view

    return make


def _later(args: Sequence[Any], results: Sequence[Any]) -> None:
    """The result is a view of one that is made when the others are there."""


def _same(made: Tensor) -> Tensor:
    return made.view_as(made)


def _refusing_writes(view: Tensor) -> Tensor:
    """A write would put a view's history in the place of that of the `autograd.Function` that gave it."""
    torch._C._autograd._set_creation_meta(view, _IN_FUNCTION)
    return view


def _with_closed(results: Sequence[Any], closed: Sequence[tuple[int, str]]) -> tuple[Any, ...]:
    made = list(results)
    for i, mode in closed:
        made[i] = _view(made[i], (_same,), mode)
    return tuple(made)


def _with_ready(builders: Sequence[Builder], early: Sequence[int], args: tuple[Any, ...]) -> Sequence[Builder]:
    """The builders, those of `early` views of inputs run already: before what the graph wrote to the inputs is counted."""
    made = list(builders)
    for i in early:
        view = builders[i](args, ())
        made[i] = lambda args, results, view=view: view  # type: ignore[misc]  # mypy has no type for a default that binds a loop variable
    return made


def _stale_view(base: Tensor, steps: tuple[Any, ...], mode: str) -> Tensor:
    """A view of what counts as written since: it notes a count that no writes come to, and passes that keep the base see no write."""
    if base.is_inference():
        return _view(base, steps, mode)
    version = base._version
    torch._C._autograd._unsafe_set_version_counter((base,), (version + _FAR,))
    try:
        return _view(base, steps, mode)
    finally:
        torch._C._autograd._unsafe_set_version_counter((base,), (version,))


def _view(base: Tensor, steps: tuple[Any, ...], mode: str) -> Tensor:
    view = base
    with in_mode(mode) if ambient_mode() != mode else nullcontext():  # mostly that is how the call is made
        for step in steps:
            view = step(view)
    return view


After = Callable[[tuple[Any, ...], list[Any], Sequence[Any]], None]


def _after(facts: Facts, held: Sequence[Tensor]) -> After | None:
    """Effects on the caller's tensors that the graph could not have by itself."""
    counted = bool(facts.wanted)  # see `_counted`
    early = facts.unwritten if counted else []
    bumps, members, relaid = [i for i in facts.bumps if i not in early], facts.members, facts.relaid
    returned = list(enumerate(facts.returned, facts.results - len(facts.returned)))
    if not (bumps or members or returned or relaid):
        return None

    def apply(args: tuple[Any, ...], flat: list[Any], results: Sequence[Any]) -> None:
        if bumps:
            torch.autograd.graph.increment_version([flat[i] for i in bumps])
        if members:
            torch.autograd.graph.increment_version([args[m] for m in members])
        for result, i in returned:
            with torch.enable_grad():
                flat[i].copy_(results[result])
        for index, shape, strides, offset in relaid:
            tensor = _at(facts.sources[index], args, held)
            with torch.autograd._unsafe_preserve_version_counter(tensor) if counted else nullcontext():
                tensor.as_strided_(shape, strides, tensor.storage_offset() + offset)

    return apply


def _noting(facts: Facts, after: After | None) -> After:
    """Note the versions of arguments that autograd has saved as the graph leaves them: the caller may write to them until the pass."""
    result = facts.differentiable.index(True)

    def apply(args: tuple[Any, ...], flat: list[Any], results: Sequence[Any]) -> None:
        if after is not None:
            after(args, flat, results)
        node = graph_of(results[result])
        if hasattr(node, "saved_after"):  # not where a transform is around the call
            with modes_off():
                # what is detached counts the same writes, and does not hold the node
                node.saved_after = [(flat[i].detach(), version_of(flat[i]), readers) for i, readers in facts.saved_after]

    return apply


def _leaving(facts: Facts) -> Callable[[], None] | None:
    """What the program did to the modes around it. The last step: results are linked and viewed in those that the graph began in."""
    modes, clears = facts.modes_after, facts.clears_autocast_cache
    if not (modes or clears):
        return None

    def apply() -> None:
        for row, value in modes:
            leave(row, value)
        if clears:
            torch.clear_autocast_cache()

    return apply


def _as_inferred(run: Callable[[list[Any]], Any], wanted: Sequence[tuple[int, bool]]) -> Callable[[list[Any]], Any]:
    """Results made in another inference mode than that around the call are of that kind: other tensors over the same memory."""

    def call(flat: list[Any]) -> Any:
        results = list(run(flat))
        for i, is_inference in wanted:
            made = results[i]
            with torch.inference_mode(is_inference):
                storage = made.untyped_storage()
                other = torch.empty(0, dtype=made.dtype, device=made.device)
                results[i] = other.set_(storage, made.storage_offset(), made.shape, made.stride())
        return results

    return call


def _asking_autograd(run: Callable[[list[Any]], Any], changed: Iterable[int]) -> Callable[[list[Any]], Any]:
    """Autograd refuses to write gradients into a view of a leaf, and into views made under `no_grad` or several at once, or to give them
    or a leaf another shape where it records that. The graph does so when it is done: what is refused then, is refused before."""

    def call(flat: list[Any]) -> Any:
        for i in changed:
            _check_in_place(flat[i])
        return run(flat)

    return call


def _check_in_place(tensor: Tensor) -> None:
    """Raises what autograd raises of a change in place that it records; the program runs again, and says it as eager does."""
    base = tensor._base
    if base is None:
        if tensor.is_leaf and tensor.requires_grad:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    elif base.is_leaf and tensor.requires_grad:
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    elif torch._C._autograd._get_creation_meta(tensor) != _WRITABLE:
        raise RuntimeError("a view made under no_grad, or one of several made at once, is being used in an in-place operation.")


def wrap(
    facts: Facts, held: Sequence[Tensor], run: Callable[[list[Any]], Any], linking: tuple[Again, links.Plan] | None = None
) -> Callable[..., Any]:
    """The callable with the calling convention of the captured graph. `held` are the tensors of `facts.held`.

    `linking`: how results are linked to others that they were computed from.
    """
    call = _calling(facts, held, run, linking)
    setattr(call, KEEPS_INPUTS, True)  # writes are the last thing that graphs do
    return call


def _calling(
    facts: Facts, held: Sequence[Tensor], run: Callable[[list[Any]], Any], linking: tuple[Again, links.Plan] | None
) -> Callable[..., Any]:
    gather = _gather(facts, held)
    after, leaving = _after(facts, held), _leaving(facts)
    if facts.saved_after:
        after = _noting(facts, after)
    outputs = facts.outputs
    if facts.inference:
        run = _as_inferred(run, facts.inference)
    if facts.returned or facts.turned:
        run = _asking_autograd(run, {*facts.returned, *facts.turned})
    spec = facts.spec
    plain = type(tree_unflatten([0] * len(outputs), spec)) is tuple and spec.num_leaves == spec.num_children
    direct = plain and all(o.kind == "graph" and not o.steps and not o.in_function and o.index == i for i, o in enumerate(outputs))
    if direct and after is None and leaving is None and linking is None:
        if closed := [(o.index, o.mode) for o in outputs if o.is_closed]:
            return lambda *args: _with_closed(run(gather(args))[: len(outputs)], closed)
        if facts.results == len(outputs):
            return lambda *args: tuple(run(gather(args)))
        count = len(outputs)
        return lambda *args: tuple(run(gather(args))[:count])
    builders: list[Any] = [
        _builder(facts, held, o) for o in (*outputs, *[Output("input", i) for i in facts.returned if linking is not None])
    ]
    cut_off = [_maker_of(facts, held, cut) for cut in facts.cut_off]
    for i in (i for cut in facts.cut_off for at, _ in cut.views for i in at):
        builders[i] = _later
    stale = [i for i, o in enumerate(outputs) if o.stale and o.kind == "input"]
    has_nested = any(o.of >= 0 for o in outputs)
    for i, o in enumerate(outputs):
        if o.of >= 0:
            builders[i] = OfAnother(o.of, partial(_view, steps=o.steps[-o.own :], mode=o.mode))
    connect = None if linking is None else partial(links.connect, again=linking[0], plan=linking[1])
    if connect is not None and facts.enables_grad:
        connect = torch.enable_grad()(connect)

    def call(*args: Any) -> Any:
        flat = gather(args)
        results = run(flat)
        make = _with_ready(builders, stale, args) if stale else builders
        if after is not None:
            after(args, flat, results)
        if connect is not None:
            made = connect(results, args, make)
        else:
            made = outputs_of(make, args, results, {}) if has_nested else [b(args, results) for b in make]
        for make_views in cut_off:
            make_views(args, results, made)
        if leaving is not None:
            leaving()
        return tuple(made) if plain else tree_unflatten(made, spec)

    return call
