"""A codec that misbehaves, in a module of its own: who runs it imports nothing else."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

import numpy as np

from lmzip.cli.bench.peers import Peer
from lmzip.picture import Mode, Picture, Samples


@dataclass(frozen=True)
class OddPeer(Peer):
    """Stores samples as they are; has a bad habit on images whose first sample is 13."""

    name: str = "odd"
    habit: str = "none"

    @property
    def library(self) -> str:
        return "none"

    def encode(self, picture: Picture) -> bytes:
        if picture.samples[0, 0, 0] == 13:
            if self.habit == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.habit == "raise":
                raise RuntimeError("not\nthis one")
        return np.array(picture.samples.shape, "<u4").tobytes() + picture.samples.tobytes()

    def decode(self, data: bytes, mode: Mode) -> Samples:
        return np.frombuffer(data[12:], np.uint8).reshape(np.frombuffer(data[:12], "<u4"))
