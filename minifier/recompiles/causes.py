"""Why code is compiled again: one row per cause, the first row that fits decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dynamo.trace.events import Change


@dataclass(frozen=True)
class Cause:
    """`matches` decides by one changed fact. `advice` says what helps where no edit is found or none holds; {at} is the value.
    `place` is the value that the cause is about.
    """

    name: str
    matches: Callable[[Change], bool]
    advice: str
    place: Callable[[Change], str] = lambda c: c.at


def _tensor(aspect: str) -> Callable[[Change], bool]:
    return lambda c: c.kind == "tensor" and c.aspect == aspect


def _value(c: Change) -> str:
    return c.expected.removeprefix("== ")


def _number(c: Change) -> bool:
    """Whether a guarded number met another number."""
    return c.kind == "eq" and all(_is_number(text) for text in (_value(c), c.seen))


def _is_number(text: str) -> bool:
    try:
        float(plain_number(text))
    except ValueError:
        return False
    return True


def plain_number(text: str) -> str:
    """`0.5` of `np.float64(0.5)`."""
    return text.rpartition("(")[2].rstrip(")") if text.startswith("np.") else text


def _reordered(c: Change) -> bool:
    """Whether a dict has the keys that it had, in another order."""
    was, now = (sorted(text.strip("[]").split(", ")) for text in (c.expected.removeprefix("keys are "), c.seen))
    return c.kind == "dict_keys" and was == now


def _chosen(c: Change) -> bool:
    """Whether one object with a name took the place of another: functions, members of an enum."""
    was = c.expected.removeprefix("is ")
    return c.kind == "is" and was != c.seen and not any(text.startswith(("a ", "tensor ")) for text in (was, c.seen))


def _attribute(c: Change) -> bool:
    return "." in c.at and not c.at.endswith("]")


def _new(c: Change) -> bool:
    if c.kind == "type":
        return c.expected == f"type {c.seen}"
    return c.kind in ("gone", "code") or (c.kind == "is" and not _none(c))


def _none(c: Change) -> bool:
    """Whether one of the two was None."""
    return c.kind in ("is", "type", "is_not") and any("None" in text for text in (c.expected, c.seen))


def _owner(c: Change) -> str:
    """Of a parameter that died the module; it died with that."""
    return c.at.rpartition(".")[0] or c.at if c.kind == "gone" else c.at


def _attribute_of(c: Change) -> str:
    """`self.scale` of `has no key 'scale'`, which is said of the attributes of `self`."""
    _, quote, rest = c.expected.partition("'")
    return f"{c.at}.{rest.rstrip(quote)}" if quote else c.at


def _in_attributes(c: Change) -> bool:
    return c.kind == "no_inst_attr" or (c.kind in ("has_key", "no_key", "dict_keys") and c.source.endswith("__dict__"))


_ONE_EACH = "one compile per value is the least while the compiled code looks at {at}"
_COUNTS = "; where it counts a loop or is a size, " + _ONE_EACH
_OUTSIDE = "decide outside of the compiled function what {at} is asked for, and pass the answer: " + _ONE_EACH

CAUSES: tuple[Cause, ...] = (
    Cause("global mode", lambda c: c.kind == "state",
          "make every call with the same {aspect}, or switch it inside of the compiled function; one compile each is the least otherwise"),
    Cause("train/eval", lambda c: c.kind == "eq" and c.at.endswith(".training"),
          "each mode needs a compile of its own, so two are the least; do not switch more often, and warm up both before measuring"),
    Cause("attribute made later", _in_attributes, "set the attribute in `__init__`, before the first compiled call", _attribute_of),
    Cause("size of a dim", _tensor("size"), "pad dim {dim} of {at} to one size, or drop the odd batch (`drop_last=True`)"),
    Cause("rank", _tensor("rank"), "give {at} one number of dimensions: add the missing ones with `unsqueeze` where it is made"),
    Cause("dtype", _tensor("dtype"), "convert {at} to one dtype where it is made"),
    Cause("strides", _tensor("stride"), "pass {at} in one layout: `.contiguous()` where it is made"),
    Cause("requires_grad", _tensor("requires_grad"), "pass {at} always with a gradient or never: `.detach()` where none is wanted"),
    Cause("device", _tensor("device"), "move {at} to one device where it is made"),
    Cause("number attribute", lambda c: _number(c) and _attribute(c), "keep {at} as a tensor, or out of the compiled code" + _COUNTS),
    Cause("number item", lambda c: _number(c) and c.at.endswith("]"), "keep {at} as a tensor" + _COUNTS),
    Cause("number global", lambda c: _number(c) and c.root in ("global", "closure"), "keep {at} as a tensor, or pass it as one" + _COUNTS),
    Cause("number argument", _number, "pass {at} as a tensor" + _COUNTS),
    Cause("flag", lambda c: c.kind == "eq" and _value(c) in ("True", "False"), _ONE_EACH + ": two in all"),
    Cause("string", lambda c: c.kind == "eq" and _value(c)[:1] in ("'", '"'), _OUTSIDE),
    Cause("None, then a value", _none, "start with a tensor, say of zeros, instead of None: with both, two compiles are the least"),
    Cause("choice", _chosen, _OUTSIDE),
    Cause("length of a container", lambda c: c.kind == "len", "pass a tensor of a fixed size instead of {at}, or a fixed number of items"),
    Cause("order of keys", _reordered, "fill {at} in one order everywhere"),
    Cause("keys of a dict", lambda c: c.kind in ("dict_keys", "has_key", "no_key"),
          "give {at} all its keys before the first compiled call, or pass only those that the compiled code reads"),
    Cause("parameter of another module", lambda c: c.kind == "is" and c.seen.startswith("tensor ") and _attribute(c),
          "several modules run this code, and each has its {at}: compile the function or module that calls them all, once"),
    Cause("new object", _new, "make {at} once, before the loop that calls the compiled code", _owner),
    Cause("type of a value", lambda c: c.kind == "type" or _tensor("type")(c), "pass {at} as one type"),
    Cause("same object or not", lambda c: c.kind in ("same", "distinct"), "let {at} be one and the same object in all calls, or never"),
    Cause("another value", lambda c: True, _OUTSIDE),
)  # fmt: skip
