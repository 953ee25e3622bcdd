"""`dynamo-debug cache`: what the compiler keeps on disk, and removing it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from dynamo.config import ConfigError
from inductor.runtime import cache as store
from tui import options
from tui.console import put, put_json, say
from tui.errors import CliError, nearest
from tui.exits import Exit

Action = Annotated[str, typer.Argument(metavar="ACTION", help="`info` or `clear`.", show_default=False)]


def cache(action: Action, as_json: options.AsJson = False) -> int:
    """Show what the cache of compiled graphs and kernels holds (`info`), or remove all of it (`clear`).

    Programs that use the cache meanwhile go on; they compile again what they do not find.
    """
    run = ACTIONS.get(action)
    if run is None:
        known = list(ACTIONS)
        raise CliError("CL014", f"{action}: no such action{nearest(action, known)}; choose {' or '.join(known)}")
    try:
        return run(as_json)
    except ConfigError as error:
        raise CliError("CL016", str(error)) from error


def _info(as_json: bool) -> int:
    found = store.info()
    if as_json:
        put_json(asdict(found))
        return Exit.OK
    rows = [
        ("directory", found.directory),
        ("entries", f"{found.entries} (graphs {found.graphs}, libraries {found.libraries})"),
        ("size", f"{size(found.bytes)} of {size(found.limit)}"),
        ("oldest use", moment(found.oldest)),
        ("newest use", moment(found.newest)),
        ("hits", str(found.hits)),
    ]
    put("".join(f"{name:<10}  {value}\n" for name, value in rows))
    if found.refused:
        say(f"the cache is not used: {found.refused}")
    return Exit.OK


def _clear(as_json: bool) -> int:
    before = store.info()
    store.clear()
    after = store.info()
    removed, freed = max(before.entries - after.entries, 0), max(before.bytes - after.bytes, 0)
    if as_json:
        put_json({"directory": before.directory, "entries": removed, "bytes": freed})
    else:
        put(f"removed {removed} {'entry' if removed == 1 else 'entries'} ({size(freed)}) from {before.directory}\n")
    if after.entries and not removed:
        raise CliError("CL015", f"{before.directory}: {after.entries} entries could not be removed; check who owns them")
    return Exit.OK


ACTIONS: dict[str, Callable[[bool], int]] = {"info": _info, "clear": _clear}


def size(count: int) -> str:
    """Bytes as people say them."""
    amount = float(count)
    for unit in ("bytes", "KB", "MB"):
        if amount < 1024:
            return f"{count} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GB"


def moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "never"
