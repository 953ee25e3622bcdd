"""Modules of the standard library whose functions all run step by step, or up to a cut, give the results they gave before."""

from __future__ import annotations

import argparse
import difflib
import fractions
import functools
import gettext
import ipaddress
import json
import json.decoder
import json.encoder
import random
import textwrap
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import pytest

from dynamo.bytecode.decode import GENERATOR_FLAGS
from tests.bytecode.single_step import run

CALLS_PER_FUNCTION = 6


def texts() -> list[object]:
    return [
        textwrap.wrap("the quick brown fox jumps over the lazy dog " * 5, 17, fix_sentence_endings=True),
        textwrap.dedent("  a\n   b\n"),
        textwrap.shorten("hello big world", 8),
        list(difflib.unified_diff("a b c d".split(), "a x c d e".split())),
        list(difflib.ndiff(["abc\n", "x\n"], ["abd\n", "y\n"])),
    ]


def numbers() -> list[object]:
    number = fractions.Fraction
    return [number("3/7") + number(1.5) ** 2, number(7, 3).limit_denominator(2), round(number(7, 3), 1), number(1, 2) < 0.7]


def addresses() -> list[object]:
    network = ipaddress.ip_network("10.0.0.0/28")
    try:
        ipaddress.ip_address("300.1.1.1")
    except ValueError as error:
        failed = str(error)
    return [list(network)[:3], list(network.subnets(2)), ipaddress.ip_address("::1").exploded, failed]


def documents() -> list[object]:
    try:
        json.loads('{"a":')
    except ValueError as error:
        failed = str(error)
    return [json.dumps({"a": [1, 2.5, None], "b": {"c": []}}, indent=2), json.loads('{"a": [1, {"b": null}]}'), failed]


def command_lines() -> list[object]:
    parser = argparse.ArgumentParser(prog="p", exit_on_error=False)
    parser.add_argument("-v", action="count", default=0)
    parser.add_argument("--n", type=int, choices=[1, 2])
    parser.add_argument("files", nargs="*")
    parser.add_mutually_exclusive_group().add_argument("--x", action="store_true")
    try:
        parser.parse_args(["--n", "7"])
    except argparse.ArgumentError as error:
        failed = str(error)
    return [vars(parser.parse_args("-vv --n 2 a b --x".split())), parser.format_help(), failed]


def replace_functions(monkeypatch: pytest.MonkeyPatch, module: ModuleType, wrap: Callable[[FunctionType], Any]) -> None:
    """Put `wrap(f)` in the place of every plain function and method that `module` defines."""
    for owner in [module, *(v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__)]:
        for name, value in list(vars(owner).items()):
            if isinstance(value, FunctionType) and value.__module__ == module.__name__ and not value.__code__.co_flags & GENERATOR_FLAGS:
                if not value.__code__.co_filename.startswith("<") and "_getframe" not in value.__code__.co_names:
                    monkeypatch.setattr(owner, name, wrap(value))


MODULES = (textwrap, difflib, fractions, ipaddress, json.encoder, json.decoder, argparse, gettext)


@pytest.mark.parametrize("work", [texts, numbers, addresses, documents, command_lines])
def test_library(work: Callable[[], list[object]], monkeypatch: pytest.MonkeyPatch) -> None:
    chance, calls = random.Random(work.__name__), dict[FunctionType, int]()
    expected = repr(work())

    def wrap(fn: FunctionType) -> Callable[..., Any]:
        @functools.wraps(fn)
        def stepped(*args: Any, **kwargs: Any) -> Any:
            calls[fn] = calls.get(fn, 0) + 1
            if calls[fn] > CALLS_PER_FUNCTION:
                return fn(*args, **kwargs)
            return run(fn, args, kwargs, cut=chance.choice([None, 0, 2, 10, 50]))[0]

        return stepped

    for module in MODULES:
        replace_functions(monkeypatch, module, wrap)
    assert repr(work()) == expected
    assert len(calls) > 2
