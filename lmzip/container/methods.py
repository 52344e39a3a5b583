"""By which method a chunk says in what manner its network adapted (FORMAT.md, "Chunks")."""

from __future__ import annotations

from lmzip.classical import ADAPTIVE, AWARE, NETWORK
from lmzip.network.adaptation import BY_ERRORS, BY_FEATURES, Manner

MANNERS: dict[int, Manner | None] = {NETWORK: None, ADAPTIVE: BY_FEATURES, AWARE: BY_ERRORS}
METHODS = {manner: method for method, manner in MANNERS.items()}
