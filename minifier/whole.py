"""Running a whole script under a compiler.

python -m minifier.whole dynamo|torch BACKEND SCRIPT|-m NAME [ARGS]...
"""

from __future__ import annotations

import sys
from typing import Any

from dynamo.surroundings.parent import end_with_parent
from minifier import children, stands
from minifier.isolation.standing import tell_parent_when_asked
from minifier.programs import run_as_main


def main() -> None:
    end_with_parent()
    tell_parent_when_asked()
    engine, backend, *words = sys.argv[1:]
    children.take_part("minifier.whole:begin", words, engine=engine, backend=backend)
    stands.enter_when_torch_loads(engine, backend)
    run_as_main(words)


def begin(request: dict[str, Any]) -> None:
    """The beginning of a process that the script has started."""
    children.begun(request)
    stands.enter_when_torch_loads(request["engine"], request["backend"])


if __name__ == "__main__":
    main()
