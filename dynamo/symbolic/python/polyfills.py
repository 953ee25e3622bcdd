"""Python twins of C functions. The interpreter inlines these where that says the same as a handler in fewer words."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any


def prod(iterable: Iterable[Any], *, start: Any = 1) -> Any:
    """math.prod."""
    for x in iterable:
        start = start * x
    return start


_MISSING = object()


def reduce(function: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = _MISSING, /) -> Any:
    """functools.reduce."""
    it = iter(iterable)
    if initial is _MISSING:
        try:
            value = next(it)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    else:
        value = initial
    for x in it:
        value = function(value, x)
    return value


def call_dispatched(dispatch: Any, obj: Any, cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A method of functools.singledispatchmethod."""
    return dispatch(args[0].__class__).__get__(obj, cls)(*args, **kwargs)


def call_method(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], obj: Any) -> Any:
    """operator.methodcaller(name, *args, **kwargs)(obj)."""
    return getattr(obj, name)(*args, **kwargs)


def drops_none(item: Any) -> bool:
    """The predicate of a dropwhile that has begun to give items."""
    return False


def get_items(keys: tuple[Any, ...], obj: Any) -> Any:
    """operator.itemgetter(*keys)(obj)."""
    return obj[keys[0]] if len(keys) == 1 else tuple([obj[k] for k in keys])


def get_attributes(names: tuple[str, ...], obj: Any) -> Any:
    """operator.attrgetter(*names)(obj)."""
    found = []
    for name in names:
        value = obj
        for part in name.split("."):
            value = getattr(value, part)
        found.append(value)
    return found[0] if len(found) == 1 else tuple(found)


def index_of(sequence: Iterable[Any], value: Any) -> int:
    """operator.indexOf."""
    for i, x in enumerate(sequence):
        if x is value or x == value:
            return i
    raise ValueError("sequence.index(x): x not in sequence")


def count_of(sequence: Iterable[Any], value: Any) -> int:
    """operator.countOf."""
    n = 0
    for x in sequence:
        if x is value or x == value:
            n += 1
    return n


def insort(a: Any, x: Any, left: bool, lo: int, hi: int | None, key: Callable[[Any], Any] | None, insert: bool) -> Any:
    """bisect.bisect_left/right and insort_left/right."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    if hi is None:
        hi = len(a)
    wanted = x if key is None or not insert else key(x)
    while lo < hi:
        mid = (lo + hi) // 2
        probe = a[mid] if key is None else key(a[mid])
        if probe < wanted if left else not (wanted < probe):
            lo = mid + 1
        else:
            hi = mid
    if not insert:
        return lo
    a.insert(lo, x)
    return None


def heappush(heap: list[Any], item: Any, /) -> None:
    """heapq.heappush, with the comparisons of the C version."""
    heap.append(item)
    _sift_down(heap, 0, len(heap) - 1)


def heappop(heap: list[Any], /) -> Any:
    """heapq.heappop."""
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    if not heap:
        return last
    first = heap[0]
    heap[0] = last
    _sift_up(heap, 0)
    return first


def heapreplace(heap: list[Any], item: Any, /) -> Any:
    """heapq.heapreplace."""
    if not heap:
        raise IndexError("index out of range")
    first = heap[0]
    heap[0] = item
    _sift_up(heap, 0)
    return first


def heappushpop(heap: list[Any], item: Any, /) -> Any:
    """heapq.heappushpop."""
    if heap and heap[0] < item:
        item, heap[0] = heap[0], item
        _sift_up(heap, 0)
    return item


def heapify(x: list[Any], /) -> None:
    """heapq.heapify."""
    for i in reversed(range(len(x) // 2)):
        _sift_up(x, i)


def _sift_down(heap: list[Any], start: int, pos: int) -> None:
    item = heap[pos]
    while pos > start:
        parent = (pos - 1) >> 1
        if not item < heap[parent]:
            break
        heap[pos] = heap[parent]
        pos = parent
    heap[pos] = item


def _sift_up(heap: list[Any], pos: int) -> None:
    end, start, item = len(heap), pos, heap[pos]
    child = 2 * pos + 1
    while child < end:
        right = child + 1
        if right < end and not heap[child] < heap[right]:
            child = right
        heap[pos] = heap[child]
        pos = child
        child = 2 * pos + 1
    heap[pos] = item
    _sift_down(heap, start, pos)


def _complaint() -> str:
    try:
        ExceptionGroup("", [ValueError()]).split(0)  # type: ignore[call-overload]  # the wrong argument is the point
    except TypeError as e:
        return str(e)
    raise AssertionError


def _takes_any_callable() -> bool:
    """Before 3.13 only a Python function is a predicate."""
    try:
        ExceptionGroup("", [ValueError()]).split(callable)
    except TypeError:
        return False
    return True


_COMPLAINT = _complaint()
_ANY_CALLABLE = _takes_any_callable()


def _is_exception_class(x: Any) -> bool:
    return isinstance(x, type) and issubclass(x, BaseException)


def split_group(group: Any, matcher: Any, construct_rest: bool) -> tuple[Any, Any]:
    """BaseExceptionGroup.split, and subgroup without the rest."""
    if isinstance(matcher, types.FunctionType) or (_ANY_CALLABLE and callable(matcher) and not isinstance(matcher, type)):
        return _split(group, matcher, construct_rest)
    if _is_exception_class(matcher) or (isinstance(matcher, tuple) and all(_is_exception_class(x) for x in matcher)):
        return _split(group, lambda exc: isinstance(exc, matcher), construct_rest)
    raise TypeError(_COMPLAINT)


def project_group(group: Any, keep: list[Any]) -> tuple[Any]:
    """The part of a group whose leaves are those of the groups in `keep`."""
    leaves: list[Any] = []
    for kept in keep:
        _add_leaves(kept, leaves)
    return (_split(group, lambda exc: any(exc is leaf for leaf in leaves), False)[0],)


def _add_leaves(exc: Any, leaves: list[Any]) -> None:
    if isinstance(exc, BaseExceptionGroup):
        for inner in exc.exceptions:
            _add_leaves(inner, leaves)
    else:
        leaves.append(exc)


def _split(exc: Any, matches: Callable[[Any], Any], construct_rest: bool) -> tuple[Any, Any]:
    if matches(exc):
        return exc, None
    if not isinstance(exc, BaseExceptionGroup):
        return None, exc if construct_rest else None
    inside, outside = [], []
    for inner in exc.exceptions:
        found, rest = _split(inner, matches, construct_rest)
        if found is not None:
            inside.append(found)
        if rest is not None:
            outside.append(rest)
    return _part(exc, inside), _part(exc, outside)


def _part(group: Any, members: list[Any]) -> Any:
    if not members:
        return None
    part = group.derive(members)
    if not isinstance(part, BaseExceptionGroup):
        raise TypeError("derive must return an instance of BaseExceptionGroup")
    part.__context__ = group.__context__
    part.__cause__ = group.__cause__
    if hasattr(group, "__notes__"):
        part.__notes__ = list(group.__notes__)
    return part
