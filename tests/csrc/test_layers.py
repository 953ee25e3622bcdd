"""C files of one extension use each other in one direction, as Python files do: what a lower one needs of an upper one is given to it."""

from __future__ import annotations

import graphlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAME = r"\b(\w+)"
# At the margin and not static (a macro may say so, too): a function with its body behind it, or a variable.
DEFINED = re.compile(
    rf"^(?!static|extern|typedef|enum|struct|[A-Z]+\b)(?=\w)[\w *]+?{NAME}(?:\([^;{{]*\)\s*\{{|(?:\[\w*\])?(?: = .*|;)$)", re.M
)


def defined(text: str) -> set[str]:
    return set(DEFINED.findall(text))


def uses(folder: Path) -> dict[str, set[str]]:
    texts = {file.name: re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.S) for file in folder.glob("*.[ch]")}
    homes = {name: file for file, text in texts.items() if file.endswith(".c") for name in defined(text)}
    words = {file: set(re.findall(r"\w+", text + macros(texts, file))) for file, text in texts.items() if file.endswith(".c")}
    return {file: {homes[w] for w in used if w in homes} - {file} for file, used in words.items()}


def macros(texts: dict[str, str], file: str) -> str:
    """Of the headers that it includes: what they say, the file may do."""
    headers = [h for h in re.findall(r'^#include "(\w+\.h)"', texts[file], re.M) if h in texts]
    own = [m for h in headers for m in re.findall(r"^#define (?:.*\\\n)*.*", texts[h], re.M)]
    return "\n".join([*own, *(macros(texts, h) for h in headers)])


@pytest.mark.parametrize("package, top, bottom", [("dynamo", "module.c", "leaves.c"), ("inductor", "host.c", "driver.c")])
def test_no_circle(package: str, top: str, bottom: str) -> None:
    found = uses(ROOT / package / "csrc")
    order = list(graphlib.TopologicalSorter(found).static_order())  # CycleError names the files

    assert order[-1] == top
    assert not found[bottom] and len(found[top]) > 3, found


def test_what_counts_as_defined() -> None:
    text = """
static int own(void)
{
}
APART apart(PyObject *obj)
{
}
int dd_one(PyObject *a,
           int b)
{
}
int dd_declared(int a);
PyTypeObject dd_Type = {
};
const KindRow dd_rows[ROWS] = {ALL(ROW)};
_Thread_local Thread dd_thread;
extern int dd_other;
int64_t *longs(PyObject *tuple)
{
"""
    assert defined(text) == {"dd_one", "dd_Type", "dd_rows", "dd_thread", "longs"}
