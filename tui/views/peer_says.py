"""What torch's own engine does at the places where ours breaks or recompiles, and which of its ids is which of ours.

The ids are those of the table that torch ships (`torch/_dynamo/graph_break_registry.json`); the text of a page is read from there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class Peer:
    """ids: torch's for the same thing, the usual one first. says: what torch.compile does there."""

    ids: tuple[str, ...]
    says: str = "breaks here too"


BREAKS: dict[str, Peer] = {
    "DD001": Peer(("GB0170", "GB0035", "GB0034")),
    "DD002": Peer(("GB0025",)),
    "DD003": Peer(("GB0124", "GB0033", "GB0036", "GB0038")),
    "DD004": Peer(("GB0059", "GB0291", "GB0296")),
    "DD005": Peer(("GB0007", "GB0008", "GB0009")),
    "DD008": Peer(("GB0037", "GB0064")),
    "DD009": Peer(("GB0088", "GB0112")),
    "DD012": Peer(("GB8335",)),
    "DD013": Peer(("GB0364", "GB0366", "GB0871")),
    "DD016": Peer(("GB0082",)),
    "DD019": Peer(("GB0075",)),
    "DD021": Peer(("GB0098", "GB0099")),
    "DD022": Peer(("GB0000", "GB0163", "GB0164")),
    "DD024": Peer(("GB0088",)),
    "DD025": Peer(("GB0003",)),
    "DD026": Peer(("GB0039",), "stops at its limit too"),
    "DD027": Peer(("GB0125", "GB0206", "GB0225")),
}
# Breaks of one id at which torch does several things: what ours says of the callee, and torch there. Where no row fits, nothing is known.
CALLEES: dict[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    "DD022": (
        (re.compile(r"\bbackward$|autograd\.grad$"), "breaks here too (GB0123)"),
        (re.compile(r"\bretain_grad$"), "breaks here too (GB0108)"),
        (re.compile(r"\btorch\.(?:_higher_order_ops|func|_functorch)\b|\b\w+HOP\b"), "captures it as part of the graph"),
    ),
}
OURS: dict[str, str] = {torch_id: ours for ours, peer in reversed(BREAKS.items()) for torch_id in peer.ids}

_TWICE = "makes it symbolic from the second {} on, unless it may not (dynamic=False)"
RECOMPILES: dict[str, str] = {
    "number": _TWICE.format("value"),
    "flag": "recompiles too",
    "size": _TWICE.format("size"),
    "object": "recompiles too",
    "dtype": "recompiles too",
    "rank": "recompiles too",
    "type": "recompiles too",
    "global state": "recompiles too",
    "length": "recompiles too",
}


def about_break(reason_id: str, reason: str) -> str:
    """One line on what torch.compile does with a break of that id at what `reason` says, or '' where that is not known."""
    if reason_id in CALLEES:
        return next((says for pattern, says in CALLEES[reason_id] if pattern.search(reason)), "")
    peer = BREAKS.get(reason_id)
    return f"{peer.says} ({peer.ids[0]})" if peer else ""


def ids_of(reason_id: str) -> list[str]:
    """torch's ids for one of ours."""
    return list(BREAKS[reason_id].ids) if reason_id in BREAKS else []


@cache
def registry() -> dict[str, dict[str, object]]:
    """torch's ids with the newest text of each; empty where torch is not installed or ships no table."""
    spec = find_spec("torch")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        try:
            table = json.loads((Path(folder) / "_dynamo" / "graph_break_registry.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        return {name: versions[0] for name, versions in table.items() if versions}
    return {}


def page(torch_id: str) -> dict[str, object]:
    """torch's text for one of its ids, in the form of a page of ours. Words in braces are filled in when a break happens."""
    entry = registry()[torch_id]
    hints = entry.get("Hints")
    return {
        "id": torch_id,
        "title": str(entry.get("Gb_type", "")),
        "explanation": _tidied(str(entry.get("Explanation", ""))),
        "hint": " ".join(_tidied(str(h)) for h in hints) if isinstance(hints, list) else "",
        "example": "",
        "also": [OURS[torch_id]] if torch_id in OURS else [],
    }


def _tidied(text: str) -> str:
    """The table holds some texts as pieces of Python."""
    return re.sub(r'"\s+f?"', "", text).replace('" + trace_info', "").strip().strip('"').strip()
