"""What PySpark asks of each argument of a call to Java: whether it is of numpy.

It asks its package for tests whether there is numpy, which is loaded with pandas, protobuf and gRPC
for that: half a second of every start, and 40 MB.
"""

from __future__ import annotations

import numpy as np
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter


def ask_numpy() -> None:
    """The same answers, from numpy itself."""
    NumpyScalarConverter.can_convert = _is_scalar  # type: ignore[method-assign,assignment]
    NumpyArrayConverter.can_convert = _is_column  # type: ignore[method-assign,assignment]


def _is_scalar(_converter: NumpyScalarConverter, value: object) -> bool:
    return isinstance(value, np.generic)


def _is_column(_converter: NumpyArrayConverter, value: object) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 1
