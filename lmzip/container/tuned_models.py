"""Models as files refer to them: found by name or number, and tuned if the file says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lmzip.container.model_reference import (
    CHECK_BYTES,
    FINGERPRINT_BYTES,
    SHORT_BYTES,
    ModelReference,
    OfBank,
    StoredTuning,
)
from lmzip.container.tuning_bank import tune_by_bank, tune_model
from lmzip.errors import FingerprintError, FormatError
from lmzip.network.registry import Model, find_model


def refer_to(model: Model, shared: Sequence[Model] = ()) -> ModelReference:
    """Return how a file names a model; the tunings of `shared` models are in the archive around."""
    base = model.base or model
    size = SHORT_BYTES if base.number else FINGERPRINT_BYTES
    tuning = None
    if model.base:
        content: bytes | int | OfBank = model.tuning
        if model.bank_number:
            content = OfBank(model.bank_number)
        elif model in shared:
            content = shared.index(model)
        check = bytes.fromhex(model.fingerprint)[:CHECK_BYTES]
        tuning = StoredTuning(content, check, model.plain_size)
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
    if isinstance(reference.tuning.content, OfBank):
        tuned = tune_by_bank(model, reference.tuning.content.number)
    else:
        tuned = tune_model(model, _find_tuning(reference.tuning, shared))
    wanted, found = reference.tuning.check.hex(), tuned.fingerprint[: 2 * CHECK_BYTES]
    if wanted != found:
        raise FingerprintError(f"the file needs a tuned network {wanted}, its tuning gives {found}")
    return tuned


def _find_tuning(tuning: StoredTuning, shared: Sequence[ModelReference]) -> bytes:
    if isinstance(tuning.content, bytes):
        return tuning.content
    assert isinstance(tuning.content, int)
    if not shared:
        raise FormatError("the tuning of this image is in the archive that it was taken from")
    theirs = shared[tuning.content].tuning if tuning.content < len(shared) else None
    if theirs is None or not isinstance(theirs.content, bytes):
        raise FormatError(f"model {tuning.content} of the archive has no tuning")
    return theirs.content
