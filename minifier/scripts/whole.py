"""Running a whole script under a compiler.

python -m minifier.scripts.whole dynamo|torch BACKEND SCRIPT|-m NAME [ARGS]...
"""

from __future__ import annotations

import sys

from dynamo.surroundings.parent import end_with_parent
from minifier import stands
from minifier.isolation.standing import tell_parent_when_asked
from minifier.programs import run_as_main


def main() -> None:
    end_with_parent()
    tell_parent_when_asked()
    engine, backend, *words = sys.argv[1:]
    stands.of(engine).enter(backend)
    run_as_main(words)


if __name__ == "__main__":
    main()
