"""Kernels that differ only in the memory they work on are compiled once.

A loop that was unrolled by the trace, and a model of equal blocks, give hundreds of kernels with one text but for the names of
buffers, loops and the kernel itself. Names are replaced in the order in which the text uses them; kernels that are then
equal share one function, which takes a table of their own pointers. What a C compiler needs grows with the kernels that differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from inductor.targets.cpu.batch import BatchKernel
from inductor.targets.cpu.comments import COMMENT
from inductor.targets.cpu.kernel import LoopKernel

_POINTER = re.compile(r"^ *((?:const )?\w+ \*(?:RESTRICT )?)p_(\w+) = (\([^()]*\))p\[(\d+)\](?: \+ (\d+)L)?;\n", re.MULTILINE)
MOST_LINES = 6
RUN_SHARED = """\
struct argument { int slot; long skip; }; /* which pointer, and bytes from there */
static __attribute__((noinline)) void run_shared(
    void (*kernel)(char *const *, int), char *const *p, const struct argument *given, int count, int threads) {
    char *mine[1 + count];
    mine[0] = p[0];
    for (int i = 0; i < count; i++) mine[1 + i] = p[given[i].slot] + given[i].skip;
    kernel(mine, threads);
}
"""
_NAME = re.compile(r"\b(?:(p|t|in\d+|out\d+)_)?([A-Za-z]\w*)\b")


@dataclass(frozen=True)
class Form:
    """A kernel's text under canonical names, and the pointers it takes there: (slot, C type, elements to skip) in order of use."""

    text: str  # `/*0*/`, `/*1*/` .. stand for the comments: equal kernels may come from other lines of the user
    pointers: tuple[tuple[str, str, str], ...]
    comments: tuple[str, ...]


def form_of(kernel: LoopKernel, text: str) -> Form:
    """What a printed kernel looks like when its own names are taken out."""
    declared = {name: (declaration, cast, slot, skip or "0") for declaration, name, cast, slot, skip in _POINTER.findall(text)}
    body = _POINTER.sub("", text)
    comments = tuple(COMMENT.findall(body))
    places = count()
    bare = COMMENT.sub(lambda _: f"/*{next(places)}*/", body)
    loops = {a.name for s in kernel.stages for m in s.members for a in m.axes} | {a.name for a in kernel.outer}
    for stage in kernel.stages:
        loops.update(a.name for a in stage.axes)
        if stage.interior is not None:
            loops.add(stage.interior.axis.name)
            loops.update(a.name for m in stage.interior.members for a in m.axes)
    buffers = declared.keys() | kernel.tiles.keys() | kernel.registers | {*kernel.reads, *kernel.writes}
    mine = {kernel.name: "NAME", f"{kernel.name}_part": "NAME_part"}
    seen: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        prefix, name = match.group(1), match.group(2)
        if prefix is not None:
            if name in buffers:
                return f"{prefix}_{seen.setdefault(f'buffer {name}', f'm{len(seen)}')}"
            return match.group(0)
        if name in loops:
            return seen.setdefault(f"loop {name}", f"i{len(seen)}")
        return mine.get(name, name)

    renamed = _NAME.sub(rename, bare)
    order = [(name, seen[f"buffer {name}"]) for name in declared if f"buffer {name}" in seen]
    order.sort(key=lambda pair: int(pair[1][1:]))
    pointers: list[tuple[str, str, str]] = []
    lines: list[str] = []
    for name, new in order:
        declaration, cast, slot, skip = declared[name]
        lines.append(f"    {declaration}p_{new} = {cast}p[{len(lines) + 1}];\n")
        pointers.append((slot, cast, skip))
    head, brace, body = renamed.partition("{\n")
    return Form(head + brace + "".join(lines) + body, tuple(pointers), comments)


def share(kernels: list[tuple[LoopKernel, str]]) -> list[str]:
    """The texts of the kernels of a unit, those that are equal printed once before what calls it."""
    if len(kernels) < 2:
        return [text for _, text in kernels]
    forms = [None if isinstance(kernel, BatchKernel) else form_of(kernel, text) for kernel, text in kernels]  # a batch is a table already
    users: dict[str, list[Form]] = {}
    for form in forms:
        if form is not None:
            users.setdefault(form.text, []).append(form)
    names: dict[str, str] = {}
    out: list[str] = []
    for (kernel, text), form in zip(kernels, forms, strict=True):
        if form is None or len(users[form.text]) == 1:
            out.append(text)
            continue
        if form.text not in names:
            name = names[form.text] = f"same{len(names)}"
            body = form.text.replace("NAME", name).replace(f"static void {name}(", f"static __attribute__((noinline)) void {name}(")
            for at, comments in enumerate(zip(*(user.comments for user in users[form.text]), strict=True)):
                body = body.replace(f"/*{at}*/", joined(comments))
            out.append(body)
        out.append(_call(kernel.name, names[form.text], form))
    return out


def joined(comments: Sequence[str]) -> str:
    """One comment for loops that several kernels share: the lines of each, those of the first few where they are many."""
    lines = list(dict.fromkeys(line for comment in comments for line in comment[2:-2].strip().split("; ")))
    more = [f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return f"/* {'; '.join(lines[:MOST_LINES] + more)} */"


def _call(name: str, shared: str, form: Form) -> str:
    """The kernel as a table of arguments. Code that fills an array costs gcc milliseconds, and more the further its slots are apart."""
    given = ", ".join(f"{{{slot}, {skip} * sizeof(*{cast}0)}}" for slot, cast, skip in form.pointers)
    comment = f" {form.comments[0]}" if form.comments else ""
    return (
        f"static void {name}(char *const *p, int threads) {{{comment}\n"
        f"    static const struct argument given[] = {{{given}}};\n    run_shared({shared}, p, given, {len(form.pointers)}, threads);\n}}\n"
    )
