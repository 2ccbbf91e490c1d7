"""Selections on Ray: a cluster of two nodes, workers that die, and the picks of the local call."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import World, make

import nextpair

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of a CPU each, in processes of their own; a GPU is only said to be there."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"
    node = {"num_cpus": 1, "object_store_memory": 1 << 30, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "num_gpus": 1})
    del node["include_dashboard"]
    cluster.add_node(**node)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def write(folder: Path, pool: Any, files: int) -> str:
    """A pool as Parquet files, with names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    ids = [f"item {number}" for number in range(len(pool))]
    for number, rows in enumerate(np.array_split(np.arange(len(pool)), files)):
        numbers = pa.FixedSizeListArray.from_arrays(pa.array(pool[rows].reshape(-1)), pool.shape[1])
        columns = {"embedding": numbers, "id": pa.array([ids[row] for row in rows])}
        pq.write_table(pa.table(columns), folder / f"pool-{number}.parquet")
    return str(folder)


@pytest.mark.parametrize("strategy", ["hard-negative", "coverage", "entropy"])
def test_the_picks_are_those_of_the_local_call(strategy: str, cluster: Any, world: World, tmp_path: Path) -> None:
    import nextpair.ray

    dataset = ray.data.read_parquet(write(tmp_path, world.pool, 5))
    ids = [f"item {number}" for number in range(len(world.pool))]
    pairs = [f"pair {number}" for number in range(len(world.images))]
    local = world.select(9, strategy, ids=ids, pair_ids=pairs, seed=3)
    found = nextpair.ray.select(
        dataset, world.images, world.texts, 9, strategy, id_column="id", pair_ids=pairs, seed=3, guard="off", gpus=0
    )
    assert found == local
    local.to_jsonl(tmp_path / "local.jsonl")
    found.to_jsonl(tmp_path / "found.jsonl")
    assert (tmp_path / "found.jsonl").read_bytes() == (tmp_path / "local.jsonl").read_bytes()


def test_tensors_pictures_actors_and_settings(cluster: Any, world: World) -> None:
    import nextpair.ray

    rows = [{"vector": row, "path": f"{number}.png"} for number, row in enumerate(world.pool)]
    dataset = ray.data.from_items(rows, override_num_blocks=3)
    options: Any = {"groups": np.arange(60) // 2, "top_k": 2, "weight": "count", "explain": 2}
    told: list[tuple[str, int, int]] = []
    found = nextpair.ray.select(
        dataset,
        world.texts,
        world.images,
        7,
        "coverage",
        "text",
        column="vector",
        picture_column="path",
        metric="dot",
        gpus=1,  # actors, though there is nothing to compute on
        progress=lambda *now: told.append(now),
        guard="off",
        **options,
    )
    swapped = World(world.texts, world.images, world.pool)
    assert found == swapped.select(7, "coverage", pool_side="text", metric="dot", **options)
    assert found._pictures == [f"{pick.index}.png" for pick in found]
    assert told[-1] == ("scores", 200, 200)
    assert dataset.context.execution_options.preserve_order is False
    some = nextpair.ray.select(dataset.limit(150), world.images, world.texts, 7, "hard-negative", column="vector", guard="off", gpus=0)
    assert some == world._replace(pool=world.pool[:150]).select(7)


def test_what_is_wrong_is_said_with_its_place(cluster: Any, world: World) -> None:
    import nextpair.ray

    def ask(pool: Any, budget: int, strategy: str = "hard-negative", **options: Any) -> nextpair.Picks:
        dataset = ray.data.from_items([{"embedding": row} for row in pool], override_num_blocks=2)
        return nextpair.ray.select(
            dataset, world.images, world.texts, budget, strategy, guard="off", gpus=0, **options
        )

    bad = world.pool.copy()
    bad[150, 2] = np.nan
    with pytest.raises(nextpair.InputError, match="row 150, dimension 2"):
        ask(bad, 5)
    with pytest.raises(nextpair.InputError, match="^column: there is no 'vectors' .*embedding"):
        ask(world.pool, 5, column="vectors")
    with pytest.raises(nextpair.InputError, match="^id_column, picture_column: there is no 'name'"):
        ask(world.pool, 5, id_column="name")
    with pytest.raises(nextpair.SettingError, match="^budget: "):
        ask(world.pool, 201)
    with pytest.raises(nextpair.InputError, match="dimensions"):
        ask(world.pool[:, 1:], 5)
    for strategy in ("v-optimal", "core-set", "hybrid", "herding"):
        with pytest.raises(nextpair.SettingError, match=strategy):
            ask(world.pool, 5, strategy)
    with pytest.raises(nextpair.SettingError, match="^threads: "):
        ask(world.pool, 5, threads=0)
    with pytest.raises(nextpair.SettingError, match="^gpus: 2 of them"):
        dataset = ray.data.from_items([{"embedding": row} for row in world.pool])
        nextpair.ray.select(dataset, world.images, world.texts, 5, "hard-negative", gpus=2)
    with pytest.raises(nextpair.GuardError, match="find each other"):
        shuffled = make(1, pairs=400)
        nextpair.ray.select(dataset, shuffled.images, shuffled.texts[::-1], 5, "hard-negative", guard="raise")


def workers(cluster: Any) -> list[int]:
    """Workers of this cluster that are scoring now."""
    ours = {node.all_processes["raylet"][0].process.pid for node in cluster.list_all_nodes()}
    found = []
    for folder in Path("/proc").iterdir():
        try:
            name = (folder / "cmdline").read_bytes().split(b"\0")[0]
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue  # no process, or one that has ended
        if name.startswith(b"ray::_score") and parent in ours:
            found.append(int(folder.name))
    return found


def test_a_worker_is_killed_and_then_a_machine(cluster: Any, tmp_path: Path) -> None:
    """1,000,000 x 256 items in 8 shards. It is the last test: one machine is left."""
    import nextpair.ray

    rng = np.random.default_rng(0)
    pool = rng.standard_normal((1_000_000, 256), dtype=np.float32)
    images = rng.standard_normal((500, 256), dtype=np.float32)
    texts = images + 0.5 * rng.standard_normal(images.shape, dtype=np.float32)
    local = nextpair.select(images, texts, pool, 100, "hard-negative", guard="off")
    folder = write(tmp_path, pool, 8)
    del pool
    killed: list[int] = []
    gone: list[Any] = []

    def kill(_: str, done: int, seen: int) -> None:
        if not killed and 0 < done < 1_000_000:
            killed.extend(workers(cluster)[:1])
            for worker in killed:
                os.kill(worker, signal.SIGKILL)
        elif not gone and done < 1_000_000:
            gone.extend(node for node in cluster.list_all_nodes() if not node.head)
            for node in gone:
                cluster.remove_node(node, allow_graceful=False)

    dataset = ray.data.read_parquet(folder, override_num_blocks=8)
    found = nextpair.ray.select(dataset, images, texts, 100, "hard-negative", gpus=0, guard="off", progress=kill)
    assert killed and gone, "nobody was scoring"
    assert found == local
