"""Plays the stimulus that ``verif/bench/simulators.py`` left in a file, through cocotb's agents."""

import os
from typing import Any

import cocotb
import numpy as np

from verif.harness.packing import from_words
from verif.harness.streams import StreamSink, StreamSource, start


@cocotb.test()
async def plays(dut: Any) -> None:
    """Sends every stream's items and waits for every status."""
    program = np.load(os.environ["SYSTOLA_PROGRAM"])
    count = int(program["expected"])
    sources = {name: StreamSource(dut, name) for name in program.files if name != "expected"}
    status = StreamSink(dut, "status")
    await start(dut)
    for name, source in sources.items():
        source.put(from_words(program[name]))
    assert len(await status.take(count)) == count
