"""Verilog of blocks as files: what ``systola verilog`` does."""

import json
import tempfile
from pathlib import Path

from hdl.catalog import BLOCKS
from hdl.emit import SRAM, emit
from spec.parameters import ParameterError, lookup
from spec.presets import machine_named
from spec.results import BUILD

ALL = "all"
"""The name that stands for every block."""


def write_verilog(block: str = ALL, preset: str = "SMALL", out: Path | None = None) -> list[Path]:
    """Write ``<block>.v`` and ``<block>.json`` of one block or of all, and the SRAM model if any holds a memory.

    The room may be left out where one block alone has the name: ``ultraserver`` is ``system.ultraserver``.
    ``tensor.array`` becomes ``tensor_array.v``; the default folder is ``build/verilog/<preset>``. Returns the files
    in the order written. Everything is converted before the first file is touched, and each file appears whole: after
    a refusal, an error or an interrupt the folder holds what it held before, or complete new files.
    """
    machine = machine_named(preset)
    names = list(BLOCKS) if block == ALL else [_whole(block)]
    factories = {name: lookup("block", BLOCKS, name) for name in names}
    texts: dict[str, str] = {}
    for name, factory in factories.items():
        emission = emit(factory(machine))
        stem = name.replace(".", "_")
        sources = [f"{stem}.v", *(source.name for source in emission.sources)]
        description = {"block": name, "preset": preset, "sources": sources, **emission.description}
        texts[f"{stem}.v"] = emission.verilog
        texts[f"{stem}.json"] = json.dumps(description, indent=1) + "\n"
        if emission.sources:
            texts[SRAM.name] = SRAM.read_text()
    return _write(out or BUILD / "verilog" / preset, texts)


def _whole(block: str) -> str:
    """The name with its room, if it was left out and one block alone has it."""
    found = [name for name in BLOCKS if name.rpartition(".")[2] == block]
    return found[0] if len(found) == 1 else block


def _write(folder: Path, texts: dict[str, str]) -> list[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"out = {folder}: legal is a folder that can be written ({error.strerror})") from None
    with tempfile.TemporaryDirectory(prefix=".part-", dir=folder) as drafts:
        for name, text in texts.items():
            (Path(drafts) / name).write_text(text)
        return [(Path(drafts) / name).replace(folder / name) for name in texts]
