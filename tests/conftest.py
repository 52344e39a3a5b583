"""What all tests share."""

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from support.cli_runner import Cli

from lmzip.models.compact import Block, CompactConfig, CompactNetwork
from lmzip.models.quantise import quantise
from lmzip.network.integer_network import save_integer_network

# Tests are many small computations: threads would only wait for each other.
torch.set_num_threads(1)

# A busy machine must not fail a test: no example has to be drawn or tried within a time.
settings.register_profile(
    "untimed", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def tiny_model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of an integer network that is small, untrained and quick."""
    state = torch.random.get_rng_state()
    torch.manual_seed(0)
    network = CompactNetwork(CompactConfig(8, 3, (Block(8),), 2))
    calibration = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8)
    torch.random.set_rng_state(state)
    path = tmp_path_factory.mktemp("model") / "tiny.safetensors"
    save_integer_network(quantise(network, calibration, ["raster"], "tiny", {}), path)
    return path


@pytest.fixture
def cli(
    capfd: pytest.CaptureFixture[str],
    tiny_model_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Cli:
    """Return a runner of command lines, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Cli(capfd, tiny_model_path)
