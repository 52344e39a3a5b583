"""Which networks an effort tries."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.networks import ANY_ORDER, compact_network, write_model

from lmzip.options import EFFORTS, Options
from lmzip.selection import list_choices

SMALL, LARGE, ANY = "thumb", "thumb-large", "thumb-any"


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("lmzip.network.registry.WEIGHTS", tmp_path)
    for name in (SMALL, LARGE, "photo"):
        write_model(compact_network(name=name), tmp_path)
    write_model(compact_network(name=ANY, orders=ANY_ORDER), tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("effort", "names"),
    [
        ("fast", {SMALL, "photo"}),
        ("default", {LARGE, "photo"}),  # photo has no larger one here
        ("best", {SMALL, LARGE, "photo", ANY}),
    ],
)
def test_efforts_try_networks_of_their_size(released: Path, effort: str, names: set[str]) -> None:
    assert {model.name for model, _ in list_choices(Options(effort=effort))} == names


@pytest.mark.parametrize("effort", EFFORTS)
def test_a_named_model_is_the_only_one(released: Path, effort: str) -> None:
    (choice,) = list_choices(Options(model=SMALL, effort=effort))
    assert choice.model.name == SMALL


@pytest.mark.parametrize("effort", EFFORTS)
def test_orders_of_a_network_for_any_order(released: Path, effort: str) -> None:
    (choice,) = list_choices(Options(order="s-curve", effort=effort))
    assert (choice.model.name, str(choice.order)) == (ANY, "s-curve")
