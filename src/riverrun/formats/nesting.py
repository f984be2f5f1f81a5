"""Arrays anew, with what is inside them changed: lists, structs and maps keep their form."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

Wanted = Callable[[pa.DataType], bool]


def holds(type: pa.DataType, wanted: Wanted) -> bool:
    """Whether it is, or is made of, a type that is wanted."""
    if not pa.types.is_nested(type):
        return wanted(type)
    return any(holds(type.field(place).type, wanted) for place in range(type.num_fields))


def leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The arrays of single values inside one."""
    if not pa.types.is_nested(array.type):
        yield array
    elif pa.types.is_struct(array.type):
        for field in array.flatten():
            yield from leaves(field)
    elif pa.types.is_map(array.type):
        yield from leaves(array.keys)
        yield from leaves(array.items)
    else:
        yield from leaves(array.flatten())


def changed(array: pa.Array, wanted: Wanted, made: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The array with `made` of all that is wanted."""
    if not holds(array.type, wanted):
        return array
    if not pa.types.is_nested(array.type):
        return made(array)
    if array.offset:
        array = pa.concat_arrays([array, array.slice(0, 0)])  # Arrow takes no mask of a slice
    nulls, kind = array.is_null(), array.type
    if pa.types.is_struct(kind):
        fields = [changed(each, wanted, made) for each in array.flatten()]
        return pa.StructArray.from_arrays(fields, names=[f.name for f in kind], mask=nulls)
    if pa.types.is_map(kind):
        parts = [changed(each, wanted, made) for each in (array.keys, array.items)]
        return pa.MapArray.from_arrays(array.offsets, *parts, mask=nulls)
    values = changed(array.values, wanted, made)
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(values, kind.list_size, mask=nulls)
    return type(array).from_arrays(array.offsets, values, mask=nulls)
