"""What `minifier_launcher.py` calls: `run`, `minify` or `analyze` a graph that was written down."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import fx

from minifier.delivery import HANGING, Draft, bounds_for, deliver
from minifier.doors import close
from minifier.engine import Candidate, Decided, Event, Kind, Status, Verdict
from minifier.graph.fx import from_fx
from minifier.graph.ir import Graph, Tensor, dump
from minifier.graph.oracle import Setting
from minifier.graph.reduce import Plan, reduce_graph, spec_for
from minifier.graph.repro import write_repro
from minifier.isolation import LocalTransport
from minifier.ladder.patience import first_run

REPRODUCES, WORKS, NOT_REPRODUCED, FLAKY = 1, 0, 4, 5


def launch(
    module: Callable[[], torch.nn.Module],
    inputs: Callable[[], Sequence[torch.Tensor]],
    setting: Setting,
    name: str,
    home: Path,
    arguments: Sequence[str] | None = None,
) -> int:
    """Do what the command line says with a graph; without a sub-command, minify it. Gives the exit code."""
    close()
    asked = _parser().parse_args(sys.argv[1:] if arguments is None else list(arguments))
    folder = Path(asked.save_dir).absolute() if asked.save_dir else home / "checkpoints" / "minified"
    if asked.accuracy is not None:
        setting = replace(setting, accuracy=asked.accuracy)
    setting = replace(setting, backend=asked.backend or setting.backend, backward=setting.backward and not asked.only_fwd)
    setting = replace(setting, store=str(folder / "storages"))
    graph = from_fx(fx.symbolic_trace(module()), inputs(), Path(setting.store))
    return _COMMANDS[asked.command](graph, setting, name, folder, home)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="run, minify or analyze this graph; minify is what happens without a word")
    parser.add_argument("command", nargs="?", choices=tuple(_COMMANDS), default="minify")
    accuracy = parser.add_mutually_exclusive_group()
    for flag, value in (("--accuracy", True), ("--strict-accuracy", True), ("--no-accuracy", False)):
        accuracy.add_argument(flag, dest="accuracy", action="store_const", const=value, help="whether wrong numbers are failures")
    parser.add_argument("--backend", default="", help="another backend")
    parser.add_argument("--only-fwd", action="store_true", help="run no gradients")
    parser.add_argument("--save-dir", default="", help="where values and candidates go")
    for flag in ("--isolate", "--no-isolate", "--no-save-dir", "--skip-sanity"):
        parser.add_argument(flag, action="store_true", help="accepted; every candidate has a process of its own here")
    return parser


def _run(graph: Graph, setting: Setting, name: str, folder: Path, home: Path) -> int:
    with contextlib.closing(LocalTransport(spec_for(setting), folder)) as transport:
        outcome = first_run(graph, transport, f"graph {name}", lambda line: print(line, flush=True)).outcome
    print(f"{outcome.verdict.value}: {outcome.signature or 'works'}" + (f"\n{outcome.detail.strip()}" if outcome.detail else ""))
    return REPRODUCES if outcome.verdict is Verdict.INTERESTING else WORKS


def _minify(graph: Graph, setting: Setting, name: str, folder: Path, home: Path) -> int:
    print(f"Started off with {len(graph.nodes)} nodes", flush=True)
    with contextlib.closing(LocalTransport(spec_for(setting), folder)) as transport:
        first = first_run(graph, transport, f"graph {name}", lambda line: print(line, flush=True))
        if first.outcome.verdict is Verdict.INVALID:
            print(f"Input graph can't be judged: {first.outcome.detail.strip() or first.outcome.signature}")
            return NOT_REPRODUCED
        result = reduce_graph(graph, setting, Plan(folder, needs=first.needs), _say, transport)
    signature = result.signature
    if signature is None or result.status is Status.NOT_REPRODUCED:
        print("Input graph did not fail the tester")
        return NOT_REPRODUCED
    found = signature

    def write(target: Path, remark: str) -> None:
        write_repro(result.state, setting, found, target, remark=remark)

    bounds = bounds_for(signature, None, HANGING if signature.kind is Kind.HANG else None)
    draft = Draft(write, signature, setting.after, name, setting.to_json(), result.hits / result.runs, bounds, backend=setting.backend)
    done = deliver(draft, home)
    print(f"Made {result.calls} queries")
    if not done.repro:
        print(f"Uh oh, something went wrong :( Final graph is not failing: {'; '.join(done.rate.ends)}")
        return NOT_REPRODUCED
    print(f"Wrote minimal repro out to {done.repro}: {len(result.state.nodes)} nodes, fails in {done.rate} runs\n{signature}")
    return REPRODUCES if done.rate.hits == done.rate.runs else FLAKY


def _say(event: Event) -> None:
    if isinstance(event, Decided) and event.verdict is Verdict.INTERESTING:
        print(f"SUCCESS: {event.pass_name}: now {event.size[0]} nodes, {event.size[1]} inputs", flush=True)


def _analyze(graph: Graph, setting: Setting, name: str, folder: Path, home: Path) -> int:
    """The first value that the compiled graph has otherwise than eager, with everything that it computes among its results."""
    shown = tuple(n.id for n in graph.nodes if isinstance(n.spec, Tensor))
    setting = replace(setting, accuracy=True, backward=False)
    transport = LocalTransport(spec_for(setting), folder / "analyze")
    try:
        for last in range(1, len(shown) + 1):
            outcome = transport.submit(Candidate(str(last), dump(Graph(graph.inputs, graph.nodes, shown[:last])))).result()
            if outcome.verdict is Verdict.INTERESTING:
                node = graph.by_id[shown[last - 1]]
                line = f"  # {node.source}" if node.source else ""
                print(f"DIVERGED at {node.name}: {outcome.detail.strip() or outcome.signature}{line}")
                return REPRODUCES
    finally:
        transport.close()
    print(f"{len(shown)} values equal eager")
    return WORKS


_COMMANDS = {"run": _run, "minify": _minify, "analyze": _analyze}
