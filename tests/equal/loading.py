"""Programs that make torch load its own compiler, which takes ten times as long as they do: `python -m tests.equal.loading` lists them.

They run where that is loaded already, but for every eighth, always the same ones. `make test-slow` runs each where it is not.
"""

from __future__ import annotations

import argparse
import sys
import threading
import zlib
from pathlib import Path

from repro_corpus.isolated import Server
from repro_corpus.program import Program, modules_below, programs_of

PATH = Path(__file__).with_name("loading.txt")
SHARE = 8


def programs() -> list[Program]:
    return [p for package in ("tests.equal", "repro_corpus.public") for m in modules_below(package) for p in programs_of(m)]


def read() -> dict[str, str]:
    """Per program by its id, the costliest of what torch loads for it (`repro_corpus.isolated.HEAVY`)."""
    return dict(line.rsplit(" ", 1) for line in PATH.read_text(encoding="utf-8").splitlines())


def loaded_before() -> dict[str, str]:
    """Those of them that run where that is loaded."""
    return {program: loaded for program, loaded in read().items() if zlib.crc32(program.encode()) % SHARE}


def found(jobs: int) -> dict[str, str]:
    """What programs load, each in a process of its own."""
    waiting, loads = programs(), {}

    def work() -> None:
        server = Server()
        while waiting:
            program = waiting.pop()
            if loaded := server.run(program, program.backends[-1]).loaded:
                loads[program.id] = loaded[0]
        server.close()

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return loads


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.equal.loading")
    parser.add_argument("--jobs", type=int, default=2)
    loads = found(parser.parse_args().jobs)
    PATH.write_text("".join(f"{program} {loaded}\n" for program, loaded in sorted(loads.items())), encoding="utf-8")
    print(f"{len(loads)} of {len(programs())} programs", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
