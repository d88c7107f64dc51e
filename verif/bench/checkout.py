"""What a stranger waits for: the two commands on a clean clone, cold and warm package cache, and the disk they take."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

from spec.results import Record

ROOT = Path(__file__).parents[2]


def clone(folder: Path) -> Path:
    """A clean clone of this checkout's committed state."""
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder)], check=True)
    return folder


def seconds(command: list[str], folder: Path, **environment: str) -> float:
    """Wall time of a command in ``folder``; its output goes to ``folder/bench.log``, named if it fails."""
    started = time.perf_counter()
    log = folder / "bench.log"
    with log.open("ab") as output:
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **environment}, stdout=output, stderr=output, check=False
        )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed in a clean clone:\n{log.read_text()[-2000:]}")
    return time.perf_counter() - started


def disk(folder: Path) -> int:
    """Bytes below ``folder`` (hard links counted once a name, symbolic links not followed)."""
    return sum((Path(base) / name).lstat().st_size for base, _, names in os.walk(folder) for name in names)


def bench_checkout() -> list[Record]:
    """Clone twice: install with a cold package cache in one, with a warm one in the other and run everything there.

    The two runs differ in their installation only, so the jobs that follow it are timed once. A quarter of an hour on
    two cores. The warm cache is pip's own, as it stands.
    """
    with tempfile.TemporaryDirectory(prefix="systola-") as temporary:
        folders = {cache: clone(Path(temporary) / cache) for cache in ("cold", "warm")}
        setups = {
            cache: seconds(["make", "setup"], folder, **({"PIP_NO_CACHE_DIR": "1"} if cache == "cold" else {}))
            for cache, folder in folders.items()
        }
        folder = folders["warm"]
        simulate, test = (seconds(["make", target], folder) for target in ("sim", "test"))
        records = [
            Record("checkout", f"make setup, {cache} package cache", round(taken, 1), "s")
            for cache, taken in setups.items()
        ]
        records += [
            Record("checkout", f"make sim, {cache} package cache, setup included", round(taken + simulate, 1), "s")
            for cache, taken in setups.items()
        ]
        return [
            *records,
            Record("checkout", "make test after make sim", round(test, 1), "s", 900, better="lower"),
            Record("checkout", "disk of .venv", round(disk(folder / ".venv") / 1e6), "MB"),
            Record("checkout", "disk of build", round(disk(folder / "build") / 1e6), "MB"),
        ]
