"""Tensors that get another shape in place while views of them are in use.

Eager makes the history of such a view again, as `as_strided` of what its base is now. That of a fake is made by the view's own operation
on its base, whose shape is another by then: `x.unsqueeze(0)` of an x that `unsqueeze_` has changed has one dimension more than the view.
So the base stays as it was, and whoever has it gets a view of it in its place: histories are then those of the views that they look like.
`as_strided_` can leave elements out, and eager loses their gradients; this would not, so such a program is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.fx import Node
from torch.utils._pytree import tree_leaves, tree_map

from dynamo.aot.again import version_of
from dynamo.aot.errors import AotError
from dynamo.fake import FakeTensor
from dynamo.fake.layout import is_dense

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamo.aot.track import Track

Env = dict[Node, Any]
View = Callable[..., Any]

_VIEWS = ("as_strided", "squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze")
_BY_NAME: dict[str, View] = {f"{name}_": getattr(torch.Tensor, name) for name in _VIEWS}


class Given(Protocol):
    """An input of the graph, see `joint.Primal`."""

    real: torch.Tensor
    fake: FakeTensor
    leaf: FakeTensor
    track: Track
    members: tuple[int, ...]
    grad_fn: Any
    version: int


class Turning:
    """The FX graphs that are being run, one inside the other, and the views that took the place of tensors."""

    def __init__(self) -> None:
        self.envs: list[Env] = []
        self.tracks: list[Track] = []

    @contextmanager
    def env(self) -> Iterator[Env]:
        """The values of the nodes of a graph that have run."""
        self.envs.append({})
        try:
            yield self.envs[-1]
        finally:
            self.envs.pop()

    def turn(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: Callable[[], Iterable[Given]]) -> FakeTensor | None:
        """What nodes read from now on where they had the tensor that a call changes; None, and nothing done, if that is the tensor.

        Raises `AotError` for what this can't express.
        """
        view = view_of_in_place(target)
        if view is None or not args or not self._may_stay(args[0]) or not self._is_seen(args[0]):
            return None
        tensor: FakeTensor = args[0]
        primals = [*given()]
        if view is torch.Tensor.as_strided:
            if any(p.leaf.requires_grad for p in primals):
                raise AotError("as_strided_ of a tensor whose views are in use, and there are gradients")
            return None
        with torch.enable_grad():
            new: FakeTensor = view(*args, **kwargs)
        torch.autograd.graph.increment_version(tensor)
        tensor.track.root.turn(tensor)
        self.tracks.append(new.track)
        for primal in primals:
            if primal.fake is tensor:
                primal.fake = new
        for env in self.envs:
            for node, value in env.items():
                if any(t is tensor for t in tree_leaves(value)):
                    env[node] = tree_map(lambda t: new if t is tensor else t, value)
        return new

    def _may_stay(self, tensor: Any) -> bool:
        """Whether a view can take the tensor's place: autograd has to know that as it knows the tensor, and to allow the same of it."""
        if type(tensor) is not FakeTensor or not hasattr(tensor, "track"):
            return False
        if tensor.is_inference() or torch.is_inference_mode_enabled() or (tensor._is_view() and tensor.track not in self.tracks):
            return False
        return not tensor.requires_grad or (torch.is_grad_enabled() and not tensor.is_leaf)

    def _is_seen(self, tensor: FakeTensor) -> bool:
        """Whether nodes to come read a view of the tensor, or one of what autograd knows that as a view of."""
        base = tensor.track.base()
        for env in self.envs:
            for node, value in env.items():
                others = [t for t in tree_leaves(value) if type(t) is FakeTensor and t is not tensor]
                if any(hasattr(t, "track") and t.track.base() is base for t in others) and any(user not in env for user in node.users):
                    return True
        return False

    def has_made(self, track: Track) -> bool:
        """Whether this is such a view, or one of one."""
        return any(track.is_below(top) for top in self.tracks)


def check_turned(turned: Iterable[Given], wanted: Iterable[Given]) -> None:
    """Arguments get another shape after the call, in the grad mode that is around it, and gradients the shape that these had before.

    Raises `AotError` where that isn't what the program does.
    """
    leaves = {id(given) for given in wanted if given.real.is_leaf}
    for given in turned:
        if id(given) in leaves:
            raise AotError("a leaf that needs a gradient gets another shape in place")
        if given.fake.requires_grad and not is_dense(given.real):  # the graph gets a copy, which is dense
            raise AotError("an argument that needs a gradient gets another shape in place, and has gaps or shows elements twice")
        if given.fake.requires_grad and (given.fake.grad_fn is not given.grad_fn) is not torch.is_grad_enabled():
            raise AotError("an argument that needs a gradient gets another shape in place, in another grad mode than that of the call")


def check_shared(primals: Iterable[Given], sources: Iterable[Given], needs_backward: bool) -> None:
    """Tensors that share memory may count their writes together, and a new shape as a write: what autograd saves of one is written when
    the other is, and a view of it that was made without history can't be read any more. A graph counts when all is done.

    Raises `AotError` where that matters.
    """
    sharing: dict[int, list[Given]] = {}
    for source in sources:
        sharing.setdefault(source.real.untyped_storage()._cdata, []).append(source)
    for primal in primals:
        others = sharing[primal.real.untyped_storage()._cdata]
        is_written = bool(primal.track.writes) or version_of(primal.fake) != primal.version
        if (primal.members or (is_written and len(others) > 1)) and (needs_backward or any(p.leaf.requires_grad for p in others)):
            raise AotError("a tensor that shares memory with another is written, and there are gradients")


def view_of_in_place(target: Any) -> View | None:
    """`Tensor.t` for `t_`, which the target of a node of an FX graph names as a method, or as a function."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    if isinstance(target, torch._ops.OpOverload) and target.namespace == "aten":
        return _BY_NAME.get(name.partition(".")[0])
    if isinstance(target, str) or target in (getattr(torch.Tensor, name, None), getattr(torch.ops.aten, name, None)):
        return _BY_NAME.get(name)
    return None
