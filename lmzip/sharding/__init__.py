"""Past one machine: many pictures as shards, each an archive, made here or by Dask's workers.

`plan` cuts a listing of pictures into shards, `tasks` makes or verifies one, `runs` makes all that
are missing, `cluster` lets a Dask cluster do tasks, and `manifest` says what came of it.
"""

from lmzip.sharding.cluster import Cluster, Here, Runner, open_cluster
from lmzip.sharding.manifest import MANIFEST, Manifest, Remark, Shard, read_manifest
from lmzip.sharding.plan import Listed, Plan, Recipe, plan_shards
from lmzip.sharding.runs import Run, open_run
from lmzip.sharding.tasks import Made, Verified, verify_file

__all__ = [
    "MANIFEST",
    "Cluster",
    "Here",
    "Listed",
    "Made",
    "Manifest",
    "Plan",
    "Recipe",
    "Remark",
    "Run",
    "Runner",
    "Shard",
    "Verified",
    "open_cluster",
    "open_run",
    "plan_shards",
    "read_manifest",
    "verify_file",
]
