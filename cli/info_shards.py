"""lmzip info of manifests: what a set of shards holds, and which of them are not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmzip import Limits
from lmzip.cli.console import count_of, format_size
from lmzip.sharding import read_manifest
from lmzip.storage import find_files

_SHOWN = 3  # missing shards that are named


def describe_manifest(path: Path, limits: Limits) -> tuple[str, dict[str, Any]]:
    """Return the description of a set of shards, and its entry for `--json`.

    No shard is opened: one that has the size that the manifest states counts as there.
    """
    manifest = read_manifest(path, limits)
    shards = manifest.shards
    size, raw, samples = (
        sum(getattr(shard, name) for shard in shards) for name in ("size", "raw_bytes", "samples")
    )
    sizes = {file.relative: file.size for file in find_files(path.parent)}
    missing = [shard.name for shard in shards if sizes.get(shard.name) != shard.size]
    failures, losses = (
        sum(len(getattr(shard, name)) for shard in shards) for name in ("failures", "losses")
    )
    bpd = 8 * size / samples if samples else None
    rows = [
        ("shards", f"{count_of(len(shards), 'archive')}, {count_of(manifest.images, 'image')}"),
        ("files", f"{format_size(size)} ({size} bytes), raw {format_size(raw)}"),
        ("bits", f"{bpd or 0:.3f} bpd"),
    ]
    if missing:
        names = ", ".join(missing[:_SHOWN]) + (", ..." if missing[_SHOWN:] else "")
        rows.append(("missing", f"{len(missing)} of {len(shards)} shards, or cut: {names}"))
    if failures:
        rows.append(("failed", f"{count_of(failures, 'picture')} in no shard"))
    if losses:
        rows.append(("not kept", f"{count_of(losses, 'part')} of pictures, named in the manifest"))
    rows.append(("checked", f"by lmzip verify {path}"))
    entry = {
        "shards": len(shards),
        "images": manifest.images,
        "raw_bytes": raw,
        "bytes": size,
        "bpd": bpd,
        "missing": missing,
        "failures": failures,
        "losses": losses,
    }
    return "\n".join([str(path), *(f"  {key:<9} {text}" for key, text in rows)]), entry
