"""A chip's HBM behind its askers: whole and partial lines, shared lines, errors, lines that do not exist."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hdl.core.layouts import line_request
from hdl.system.stacked import StackedMemory
from spec.core import LINE_BYTES
from spec.hbm_stack import SMALL_STACK
from spec.parameters import ParameterError
from spec.system import ERRORS, STACK_LINES
from verif.harness.model import Model, Result
from verif.harness.packing import pack, to_words
from verif.system.programs import hbm_config
from verif.system.rig import DeviceRig, repeated

Bytes = npt.NDArray[np.uint8]
CONFIG = hbm_config(cores=2, stacks=2, stack_lines=1000, channels=1)
ALL = (1 << LINE_BYTES) - 1
WORDS = LINE_BYTES // 4
LINE = 17
"""Words of an answer: valid, the line, its error."""


@dataclasses.dataclass
class Ask:
    """One request of an asker; ``data`` of a write."""

    line: int
    data: Bytes | None = None
    mask: int = ALL

    def word(self) -> int:
        data = 0 if self.data is None else int.from_bytes(self.data.tobytes(), "little")
        fields = {"write": int(self.data is not None), "line": self.line, "data": data, "mask": self.mask}
        return pack(line_request(CONFIG.own), fields)


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(DeviceRig(StackedMemory(CONFIG), CONFIG), no_inline=repeated(CONFIG)) as found:
        yield found


def play(model: Model, asks: list[list[Ask]], cycles: int = 0, **options: Any) -> list[tuple[Any, Any, Any]]:
    """``(lines [n, bytes], their errors, errors of writes)`` of each asker."""
    count = max(len(part) for part in asks)
    names = [f"ports__{number}__{what}" for number in range(len(asks)) for what in ("answer", "done")]
    inputs = {
        f"ports__{number}__request": to_words([ask.word() for ask in part], line_request(CONFIG.own).size)
        for number, part in enumerate(asks)
    }
    limit = cycles or 160 * count + 400
    run = model.run(inputs, sample=names, limit=limit, tail=limit, **options)
    return [told(run, number) for number in range(len(asks))]


def told(run: Result, number: int) -> tuple[Any, Any, Any]:
    rows = run.samples[f"ports__{number}__answer"]
    bits = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little")
    bits = bits[bits[:, 0] == 1]
    lines = np.packbits(bits[:, 1 : 1 + 8 * LINE_BYTES], axis=1, bitorder="little")
    errors = bits[:, 1 + 8 * LINE_BYTES] + 2 * bits[:, 2 + 8 * LINE_BYTES]
    done = run.sampled(f"ports__{number}__done")
    return lines, errors, (done >> 1)[done & 1 == 1]


def spread(mask: int) -> npt.NDArray[np.bool_]:
    return np.array([mask >> byte & 1 for byte in range(LINE_BYTES)], np.bool_)


def lines_of(rng: np.random.Generator, count: int) -> Any:
    """Lines near both ends of what exists, in both stacks."""
    low = rng.integers(0, 3 * STACK_LINES, count)
    high = CONFIG.chip_lines - 1 - STACK_LINES * 3 - rng.integers(0, STACK_LINES, count)
    return np.where(rng.random(count) < 0.7, low, high)


def test_every_asker_reads_what_was_written_and_parts_of_lines_do_not_meet(model: Model) -> None:
    rng = np.random.default_rng(1)
    model.power_on()
    askers, each = CONFIG.askers, LINE_BYTES // CONFIG.askers
    memory: dict[int, Bytes] = {}
    for _ in range(3):
        places = np.unique(lines_of(rng, 40))
        begin = [Ask(int(line), rng.integers(0, 256, LINE_BYTES, np.uint8)) for line in places]
        for ask in begin:
            memory[ask.line] = np.array(ask.data)
        play(model, [begin, *([] for _ in range(askers - 1))])
        asks: list[list[Ask]] = []
        wanted: list[list[Bytes]] = []
        for number in range(askers):
            mine = ((1 << each) - 1) << (number * each)
            view = {line: data.copy() for line, data in memory.items()}
            asks.append([])
            wanted.append([])
            for line in rng.choice(places, 60).tolist():
                if rng.random() < 0.5:
                    asks[-1].append(Ask(line))
                    wanted[-1].append(view[line][spread(mine)].copy())
                    continue
                mask = mine & int(rng.integers(0, 1 << 62)) * 5
                data = rng.integers(0, 256, LINE_BYTES, np.uint8)
                asks[-1].append(Ask(line, data, mask))
                view[line][spread(mask)] = data[spread(mask)]
                memory[line][spread(mask)] = data[spread(mask)]
        for number, (lines, errors, done) in enumerate(play(model, asks)):
            mine = ((1 << each) - 1) << (number * each)
            assert not errors.any()
            assert not done.any()
            assert len(done) == sum(ask.data is not None for ask in asks[number])
            np.testing.assert_array_equal(lines[:, spread(mine)], np.array(wanted[number]))
        found = play(model, [[Ask(int(line)) for line in places], *([] for _ in range(askers - 1))])[0][0]
        np.testing.assert_array_equal(found, np.array([memory[int(line)] for line in places]))
    memory[int(places[3])][5] ^= 1
    assert not np.array_equal(found, np.array([memory[int(line)] for line in places]))


def test_one_wrong_bit_is_repaired_and_two_are_an_error_also_for_a_part_of_the_line(model: Model) -> None:
    model.power_on()
    data = np.arange(LINE_BYTES, dtype=np.uint8)
    rest: list[list[Ask]] = [[] for _ in range(CONFIG.askers - 1)]
    for mask, error in ((1 << 7, 0), (0b11, ERRORS.index("memory_lost"))):
        words = {"damage": mask << (WORDS // 2 - 1).bit_length() | 3}  # the fourth codeword of the line
        play(model, [[Ask(70, data)], *rest], hold=words)
        before = int(model.run(limit=1, sample=["corrected"]).sampled("corrected")[0])
        lines, errors, _ = play(model, [[Ask(70)], *rest])[0]
        after = int(model.run(limit=1, sample=["corrected"]).sampled("corrected")[0])
        assert errors.tolist() == [error]
        if error:
            assert play(model, [[Ask(70, data, 0xF)], *rest])[0][2].tolist() == [error]
            assert play(model, [[Ask(70)], *rest])[0][1].tolist() == [error]
        else:
            assert after == before + 1
            np.testing.assert_array_equal(lines[0], data)
    play(model, [[Ask(70, data)], *rest])
    assert play(model, [[Ask(70)], *rest])[0][1].tolist() == [0]


def test_lines_that_do_not_exist_are_refused_and_the_next_ones_served(model: Model) -> None:
    model.power_on()
    beyond = CONFIG.chip_lines - 1
    data = np.full(LINE_BYTES, 7, np.uint8)
    asks = [[Ask(3, data), Ask(beyond), Ask(beyond, data), Ask(beyond, data, 1), Ask(3)]]
    lines, errors, done = play(model, [*asks, *([] for _ in range(CONFIG.askers - 1))])[0]
    outside = ERRORS.index("bad_address")
    assert errors.tolist() == [outside, 0]
    assert done.tolist() == [0, outside, outside]
    np.testing.assert_array_equal(lines[1], data)


def test_a_reset_forgets_requests_and_keeps_lines(model: Model) -> None:
    model.power_on()
    data = np.full(LINE_BYTES, 9, np.uint8)
    rest: list[list[Ask]] = [[] for _ in range(CONFIG.askers - 1)]
    play(model, [[Ask(line, data) for line in range(8)], *rest], cycles=1500)
    for cycle in (3, 6, 20):
        words = to_words([Ask(line % 8, data, 0xFF).word() for line in range(9)], line_request(CONFIG.own).size)
        model.run({"ports__0__request": words}, limit=cycle)
        model.run(limit=4, resets=[(0, 2)])
        lines, errors, _ = play(model, [[Ask(line) for line in range(8)], *rest])[0]
        assert not errors.any()
        np.testing.assert_array_equal(lines, np.tile(data, (8, 1)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stack_lines": 0}, "stack_lines = 0"),
        ({"stack_lines": 1025}, "stack_lines = 1025: legal is 1 to 1024"),
        ({"stacks": 1}, "chip_lines = 2048: legal is 1024 for each stack"),
        ({"stack": SMALL_STACK.replace(channels=1)}, r"stack\.requesters = 3: legal is 4, in order"),
    ],
)
def test_a_stack_that_does_not_fit_its_chip_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        dataclasses.replace(CONFIG, **changes)
