"""Arrays of all kinds, lent to the engine without a copy.

The rule: numbers of float16, float32 or float64 in C order and in the byte order of the machine are read
where they lie. Everything else is copied once: other layouts and byte orders in their own type, integers
and truth values as float32 where that is exact (8 and 16 bits) and as float64 otherwise, and what is on a
GPU to the host, where float64 decides about every pick.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .errors import ArrayTypeError, InputError

Array: TypeAlias = npt.NDArray[Any]
ArrayView: TypeAlias = tuple[npt.NDArray[np.uint8], int, int, int, str]

_READ = ("float16", "float32", "float64")


def as_array(given: Any, name: str) -> Array:
    """A NumPy array over the memory of `given`, whatever it is."""
    if isinstance(given, np.ma.MaskedArray):
        raise InputError(f"{name}: a masked array hides numbers; fill it, or leave those rows out")
    if isinstance(given, np.ndarray):
        return given
    if hasattr(given, "detach"):  # a tensor of PyTorch may belong to a graph
        given = given.detach()
    given = _on_the_host(given)
    if _is_lists_of_arrow(given):
        return _of_arrow(given, name)
    if hasattr(given, "__dlpack__") and not hasattr(given, "__array_interface__"):
        try:
            return np.from_dlpack(given)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            device = getattr(given, "device", "")
            advice = "move it to the CPU, and to float16, float32 or float64"
            raise ArrayTypeError(f"{name}: {device} {error}; {advice}".replace(":  ", ": ")) from error
    try:
        return np.asarray(given)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: {error}") from error


def _on_the_host(given: Any) -> Any:
    """A copy of a tensor of PyTorch or an array of CuPy that is on a GPU; everything else as it is."""
    # The first question is safe for every tensor of PyTorch; the second is for everybody else.
    if not (getattr(given, "is_cuda", False) or hasattr(given, "__cuda_array_interface__")):
        return given
    for copy in ("cpu", "get"):  # of PyTorch, of CuPy
        if hasattr(given, copy):
            return getattr(given, copy)()
    return given


def _is_lists_of_arrow(given: Any) -> bool:
    """Whether it has a type of Arrow's: lists, or tensors that are stored as lists."""
    kind = getattr(given, "type", None)
    return hasattr(kind, "value_field") or hasattr(kind, "storage_type")


def _of_arrow(given: Any, name: str) -> Array:
    """The numbers of an Arrow array of lists of one length."""
    if hasattr(given, "combine_chunks"):
        given = given.combine_chunks()  # one chunk stays where it is
        if hasattr(given, "num_chunks"):
            given = given.chunk(0)
    given = getattr(given, "storage", given)
    if given.null_count:
        raise InputError(f"{name}: {given.null_count} of the lists are null")
    width = getattr(given.type, "list_size", None)
    if width is None:
        widths = set(np.diff(given.offsets.to_numpy()).tolist()) if hasattr(given, "offsets") else set()
        if len(widths) != 1:
            raise InputError(f"{name}: lists of one length are needed, not {given.type}")
        (width,) = widths
    numbers = given.flatten()
    if numbers.null_count:
        raise InputError(f"{name}: {numbers.null_count} of the numbers are null")
    return np.asarray(numbers.to_numpy(zero_copy_only=False)).reshape(-1, width)


def readable(given: Any, name: str, most: int = 2) -> Array:
    """The same numbers in C order, of a type that the engine reads; copied only where the rule says so."""
    array = as_array(given, name)
    if array.ndim < 2 or array.ndim > most:
        shape = "one row per item" if most == 2 else "one row, or several vectors, per item"
        raise InputError(f"{name}: {shape} is needed, not an array of shape {array.shape}")
    if 0 in array.shape[1:]:
        raise InputError(f"{name}: there are no numbers in rows of shape {array.shape[1:]}")
    dtype = array.dtype.newbyteorder("=")
    if dtype.kind in "iub":
        dtype = np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)
    elif dtype.name not in _READ:
        raise ArrayTypeError(f"{name}: numbers of type {array.dtype} are not read; {', '.join(_READ)} are")
    return np.ascontiguousarray(array, dtype=dtype)


def lend(given: Any, name: str, most: int = 2) -> ArrayView:
    """Bytes, items, vectors per item, dimensions and type, as the engine takes them."""
    array = readable(given, name, most)
    vectors = array.shape[1] if array.ndim == 3 else 1
    return (array.reshape(-1).view(np.uint8), array.shape[0], vectors, array.shape[-1], array.dtype.name)


def lend_two(given: Any, name: str, most: int = 2) -> tuple[ArrayView, ArrayView] | None:
    """Two arrays: of the pool, and of the pairs."""
    if given is None:
        return None
    try:
        of_pool, of_pairs = given
    except (TypeError, ValueError):
        raise InputError(f"{name}: two arrays are needed, of the pool and of the pairs") from None
    return (lend(of_pool, f"{name}[0]", most), lend(of_pairs, f"{name}[1]", most))
