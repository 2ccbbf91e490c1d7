"""Arrays of all kinds, and their memory."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conftest import World, make

import nextpair
from nextpair._arrays import lend


def shares(given: Any, array: Any) -> bool:
    return np.shares_memory(lend(given, "x")[0], array)


class Dlpack:
    """A tensor of somebody else: it has DLPack and nothing more."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class OnGpu:
    """A tensor on a GPU, as PyTorch has it (`cpu`) or CuPy (`get`): its numbers cannot be read in place."""

    def __init__(self, array: Any, copy: str) -> None:
        self.is_cuda = copy == "cpu"
        if copy == "get":
            self.__cuda_array_interface__ = {"version": 3}
        self.__setattr__(copy, lambda: array.copy())

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("on a GPU")


class Interface:
    """An array of somebody else, with NumPy's older interface."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_plain_arrays_are_read_where_they_lie(dtype: Any, tmp_path: Path) -> None:
    array = np.arange(12, dtype=dtype).reshape(4, 3)
    assert shares(array, array)
    assert shares(memoryview(array), array)
    assert shares(Dlpack(array), array)
    assert shares(Interface(array), array)
    assert shares(array[1:3], array)
    locked = array.view()
    locked.flags.writeable = False
    assert shares(locked, array)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), 3)
    assert shares(lists, lists.flatten().to_numpy())
    assert shares(lists[1:], lists.flatten().to_numpy())
    mapped = np.memmap(tmp_path / "array", dtype, "w+", shape=(4, 3))
    assert shares(mapped, mapped)


def test_the_rest_is_copied_once_in_a_type_that_holds_it() -> None:
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    for given, dtype in (
        (array[:, ::2], "float32"),
        (array.T, "float32"),
        (array.astype(">f8"), "float64"),
        (array.astype(np.int8), "float32"),
        (array.astype(np.uint16), "float32"),
        (array.astype(np.int32), "float64"),
        (array.astype(np.int64), "float64"),
        (array > 3, "float32"),
        (array.tolist(), "float64"),
    ):
        view, rows, _, dim, name = lend(given, "x")
        assert name == dtype
        assert not np.shares_memory(view, array)
        assert (view.view(name).reshape(rows, dim) == np.asarray(given)).all()


def test_tensors_of_torch(world: World) -> None:
    torch = pytest.importorskip("torch")
    tensors = world.each(lambda array: torch.from_numpy(array).requires_grad_())
    assert shares(tensors.pool, world.pool)
    assert tensors.select(6) == world.select(6)
    with pytest.raises(nextpair.ArrayTypeError, match="^pool: "):
        world._replace(pool=tensors.pool.to(torch.bfloat16)).select(6)


@pytest.mark.parametrize("kind", [Dlpack, Interface, lambda a: pa.FixedSizeListArray.from_arrays(pa.array(a.reshape(-1)), a.shape[1])])
def test_other_peoples_arrays_give_the_same_picks(kind: Any, world: World) -> None:
    assert world.each(kind).select(6) == world.select(6)


@pytest.mark.parametrize("copy", ["cpu", "get"])
def test_tensors_on_a_gpu_are_copied_to_the_host(copy: str, world: World) -> None:
    assert world.each(lambda array: OnGpu(array, copy)).select(6) == world.select(6)
    with pytest.raises(nextpair.ArrayTypeError, match="^pool: .*on a GPU"):
        world._replace(pool=OnGpu(world.pool, "nowhere")).select(6)


def test_chunks_of_arrow_and_nulls(world: World) -> None:
    chunks = [pa.FixedSizeListArray.from_arrays(pa.array(half.reshape(-1)), 12) for half in np.split(world.pool, 2)]
    assert world._replace(pool=pa.chunked_array(chunks)).select(6) == world.select(6)
    holes = pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2))
    with pytest.raises(nextpair.InputError, match="^pool: 1 of the lists are null"):
        world._replace(pool=holes).select(1)
    with pytest.raises(nextpair.InputError, match="^pool: a masked array"):
        world._replace(pool=np.ma.masked_array(world.pool)).select(1)


def test_an_array_lives_as_long_as_it_is_lent_and_no_longer(world: World) -> None:
    class Held(np.ndarray):  # ordinary arrays have no weak references
        pass

    pool = Held(world.pool.shape, np.float32)
    pool[:] = world.pool
    alive = weakref.ref(pool)
    held: list[Any] = []

    class First:
        def query(self, problem: nextpair.Problem, budget: int) -> Any:
            held.append(problem)
            return range(budget)

    nextpair.select(world.images, world.texts, pool, 3, First(), guard="off")
    del pool
    gc.collect()
    assert alive() is not None
    assert held[0].similarities([0], [0])[0, 0] != 0
    held.clear()
    gc.collect()
    assert alive() is None


COPY_FREE = """
import resource, sys
import numpy as np, nextpair
rng = np.random.default_rng(0)
pool = rng.standard_normal((int(sys.argv[1]), 256), dtype=np.float32)
images = rng.standard_normal((500, 256), dtype=np.float32)
texts = rng.standard_normal((500, 256), dtype=np.float32)
nextpair.select(images, texts, pool[:2000], 10, "hard-negative", guard="off")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
nextpair.select(images, texts, pool, 10, "hard-negative", threads=2)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, pool.nbytes)
"""


def test_the_pool_is_not_copied() -> None:
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", COPY_FREE, "300000"], capture_output=True, text=True, check=True)
    more, pool = map(int, run.stdout.split())
    assert pool > 300e6
    assert more < pool / 4, f"{more} bytes more for a pool of {pool}"


def test_local_vectors_count_by_their_mean() -> None:
    world = make()
    rng = np.random.default_rng(1)
    regions, paired = rng.normal(size=(200, 5, 7)), rng.normal(size=(60, 5, 7))
    found = nextpair.select(None, None, None, 9, "core-set", features=(regions, paired), guard="off")
    means = (regions.mean(axis=1), paired.mean(axis=1))
    plain = nextpair.select(None, None, None, 9, "core-set", features=means, guard="off")
    assert found.indices.tolist() == plain.indices.tolist()
    assert world.select(9, "hybrid", features=(regions, paired)) != world.select(9, "hybrid")
    with pytest.raises(nextpair.InputError, match="^features: features of 199 items for a pool of 200"):
        world.select(9, "hybrid", features=(regions[1:], paired))
    with pytest.raises(nextpair.InputError, match="^features: two arrays"):
        world.select(9, "hybrid", features=regions[0, 0])  # type: ignore[arg-type]


def test_lists_of_one_length_and_tensors_of_arrow(world: World) -> None:
    flat = pa.array(world.pool.reshape(-1))
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, flat.__len__() + 1, 12, dtype=np.int32)), flat)
    assert shares(lists, flat.to_numpy())
    assert world._replace(pool=lists).select(6) == world.select(6)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(world.pool)
    assert world._replace(pool=tensors).select(6) == world.select(6)
    with pytest.raises(nextpair.InputError, match="^pool: lists of one length"):
        world._replace(pool=pa.array([[1.0, 2.0], [3.0]])).select(1)
