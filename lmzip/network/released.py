"""The numbers by which files name released models (FORMAT.md, "Models").

A number is given once and never to another model, even if the first should be withdrawn.
"""

from __future__ import annotations

RELEASED = {1: "thumb", 2: "photo", 3: "thumb-any"}
