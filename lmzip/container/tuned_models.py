"""Models as files refer to them: found by name or number, and tuned if the file says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from lmzip.container.model_reference import (
    CHECK_BYTES,
    FINGERPRINT_BYTES,
    SHORT_BYTES,
    ModelReference,
    StoredTuning,
)
from lmzip.container.tuning_block import read_tuning
from lmzip.errors import FingerprintError, FormatError
from lmzip.network.registry import Model, find_model
from lmzip.network.tuning import apply_tuning


@lru_cache(maxsize=8)
def tune_model(model: Model, tuning: bytes) -> Model:
    """Return a model as the bytes of a tuning change it; raises FormatError or ModelError."""
    network = apply_tuning(model.network, read_tuning(tuning, model.network))
    return replace(
        model, network=network, fingerprint=network.fingerprint(), tuning=tuning, base=model
    )


def refer_to(model: Model, shared: Sequence[Model] = ()) -> ModelReference:
    """Return how a file names a model; the tunings of `shared` models are in the archive around."""
    base = model.base or model
    size = SHORT_BYTES if base.number else FINGERPRINT_BYTES
    tuning = None
    if model.base:
        content = shared.index(model) if model in shared else model.tuning
        tuning = StoredTuning(content, bytes.fromhex(model.fingerprint)[:CHECK_BYTES])
    return ModelReference(base.name, bytes.fromhex(base.fingerprint)[:size], base.number, tuning)


def find_network(
    reference: ModelReference,
    given: str | Path | None = None,
    shared: Sequence[ModelReference] = (),
) -> Model:
    """Return the model that a file means.

    `given` is a model that the caller has, `shared` the models of the archive that holds the file.
    Raises FingerprintError if the model is not at hand, or not what the tuning was made for.
    """
    model = find_model(reference.name, reference.fingerprint, given)
    if reference.tuning is None:
        return model
    tuned = tune_model(model, _find_tuning(reference.tuning, shared))
    wanted, found = reference.tuning.check.hex(), tuned.fingerprint[: 2 * CHECK_BYTES]
    if wanted != found:
        raise FingerprintError(f"the file needs a tuned network {wanted}, its tuning gives {found}")
    return tuned


def _find_tuning(tuning: StoredTuning, shared: Sequence[ModelReference]) -> bytes:
    if isinstance(tuning.content, bytes):
        return tuning.content
    if not shared:
        raise FormatError("the tuning of this image is in the archive that it was taken from")
    theirs = shared[tuning.content].tuning if tuning.content < len(shared) else None
    if theirs is None or not isinstance(theirs.content, bytes):
        raise FormatError(f"model {tuning.content} of the archive has no tuning")
    return theirs.content
