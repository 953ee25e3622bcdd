"""`python -m repro_corpus [PACKAGE_OR_MODULE] [-k TEXT] [--backend NAME]`: run programs and print what differs from eager."""

from __future__ import annotations

import argparse
import importlib
import sys

from repro_corpus.isolated import Servers
from repro_corpus.program import BACKENDS, modules_below, programs_of


def main() -> int:
    """Exit code 1 if a program differs."""
    parser = argparse.ArgumentParser(prog="python -m repro_corpus", description="run programs of the corpus beside eager")
    parser.add_argument("where", nargs="?", default="repro_corpus.public", help="a package or module of programs")
    parser.add_argument("-k", default="", help="only programs whose name contains this")
    parser.add_argument("--backend", action="append", choices=BACKENDS, help="only this backend; may be given more than once")
    arguments = parser.parse_args()
    modules = modules_below(arguments.where) if hasattr(importlib.import_module(arguments.where), "__path__") else [arguments.where]
    programs = [p for m in modules for p in programs_of(m) if arguments.k in p.id]
    servers = Servers()
    bad = 0
    for program in programs:
        for backend in reversed(program.backends):
            if arguments.backend and backend not in arguments.backend:
                continue
            verdict = servers.run(program, backend)
            print(f"{verdict.outcome:10} {backend:10} {program.id}", flush=True)
            if verdict.outcome != "equal":
                bad += 1
                print("\n".join(f"    {line}" for line in verdict.lines))
                print("".join(f"    | {line}\n" for line in verdict.output.splitlines()[-30:]), end="")
    servers.close()
    sys.stdout.flush()
    print(f"{len(programs)} programs, {bad} differences", file=sys.stderr)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
