"""Programs as files: code, tensors and source lines, for one version of the instruction set on one machine."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from sdk.program import Code, Program
from sdk.tensors import View
from spec.core import ENGINES, CoreConfig
from spec.isa import INSTRUCTION_BYTES, version
from spec.parameters import ParameterError

MAGIC = b"systola program\n"
"""First line of an image; the second is its description, the words of all engines follow."""


def save(program: Program, path: Path) -> None:
    """Write a finished program."""
    code = program.finish()
    header = {
        "version": version(program.config),
        "words": {engine: len(code.words[engine]) for engine in ENGINES},
        "starts": code.starts,
        "lines": code.lines,
        "tensors": {name: dataclasses.asdict(view) for name, view in program.tensors.items()},
    }
    data = b"".join(code.bytes(engine) for engine in ENGINES)
    path.write_bytes(MAGIC + json.dumps(header).encode() + b"\n" + data)


def restore(config: CoreConfig, path: Path) -> Program:
    """Read a program for ``config``; one of another version or machine, or a file cut short, is refused."""
    content = path.read_bytes()
    if not content.startswith(MAGIC):
        raise ParameterError(f"{path}: not a program image")
    text, _, data = content[len(MAGIC) :].partition(b"\n")
    header = json.loads(text)
    if header["version"] != version(config):
        raise ParameterError(f"{path}: image of version {header['version']}: legal is {version(config)}")
    counts = header["words"]
    if len(data) != INSTRUCTION_BYTES * sum(counts.values()):
        raise ParameterError(f"{path}: {len(data)} bytes of code: legal is {INSTRUCTION_BYTES * sum(counts.values())}")
    words = np.frombuffer(data, np.uint8).reshape(-1, INSTRUCTION_BYTES)
    program, start, found = Program(config), 0, {}
    for engine in ENGINES:
        part = words[start : start + counts[engine]]
        found[engine] = [int.from_bytes(word.tobytes(), "little") for word in part]
        start += counts[engine]
    program.code = Code(found, header["lines"], header["starts"])
    for name, view in header["tensors"].items():
        lists: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in view.items()}
        program.tensors[name] = View(**lists)
    return program
