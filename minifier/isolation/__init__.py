"""Running oracles in processes of their own: whatever a candidate does, the tool goes on and nothing is left behind.

    controller --socket--> zygote (imports done, one dummy run made) --fork--> keeper --fork--> child (runs the oracle)

A query is one socket between controller and keeper. Its end, in whatever way either side goes, ends everything below the keeper.
"""

from __future__ import annotations

from minifier.isolation.local import IsolationError, Limits, LocalTransport, OracleSpec

__all__ = ["IsolationError", "Limits", "LocalTransport", "OracleSpec"]
