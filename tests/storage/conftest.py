"""An object store for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("upath")
pytest.importorskip("s3fs")
pytest.importorskip("moto.server")

from support.object_store import ObjectStore, run_object_store  # noqa: E402


@pytest.fixture(scope="session")
def running_store() -> Iterator[ObjectStore]:
    with pytest.MonkeyPatch.context() as patch, run_object_store() as store:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("FSSPEC_S3_ENDPOINT_URL", store.address)  # for processes of their own
        patch.setitem(fsspec.config.conf, "s3", {"endpoint_url": store.address})
        yield store


@pytest.fixture
def store(running_store: ObjectStore) -> Iterator[ObjectStore]:
    """Return the store with one empty bucket, "bucket"."""
    system: Any = fsspec.filesystem("s3")
    system.invalidate_cache()
    if system.exists("bucket"):
        system.rm("bucket", recursive=True)
    system.mkdir("bucket")
    running_store.requests.clear()
    yield running_store
    running_store.faults.clear()
