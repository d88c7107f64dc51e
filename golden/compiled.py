"""``@compiled``: numba's ``njit``, with a cache that knows everything a function was made of.

numba looks at the file a function stands in. Constants and functions that it takes from other files are compiled into
it all the same, and a change there would go unnoticed: golden would keep computing with the old ones. So the cache,
under ``build/numba``, has a folder for each state of all files that golden can take something from.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from spec.results import BUILD

Function = Callable[..., Any]

ROOT = Path(__file__).parent.parent
SOURCES = ("golden/**/*.py", "spec/**/*.py", "spec/**/*.json")


def state(root: Path = ROOT) -> str:
    """A name for what the sources hold now."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in SOURCES for path in root.glob(pattern)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]


config: Any = numba.config
config.CACHE_DIR = str((BUILD / "numba" / state()).absolute())


def compiled(function: Function) -> Function:
    """Compile a function of scalars and arrays; what it takes from elsewhere are constants."""
    found: Function = numba.njit(cache=True)(function)
    return found


def inlined(function: Function) -> Function:
    """Compile a part of such functions, which then costs no call."""
    found: Function = numba.njit(inline="always")(function)
    return found


def per_element(function: Function) -> Function:
    """Compile a function of scalars as a numpy function of arrays that broadcast."""
    found: Function = numba.vectorize(cache=True)(function)  # type: ignore[no-untyped-call]
    return found
