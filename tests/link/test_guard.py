import numpy as np
import pytest

from golden.link.guard import Flit, Guard, pack, unpack
from spec.link import RouterConfig, Status
from spec.topology import Kind, Torus
from verif.link.guard import compare, guard_model, noise

CONFIG = RouterConfig(torus=Torus(sizes=(3, 2)), flit_bits=20, channels=3, escape_channels=2, depth=5, max_flits=5)
GOOD = {"kind": int(Kind.FREE), "target_0": 2, "target_1": 1, "flits": 1, "tag": 9}


def answer(**wrong: int) -> Flit:
    flit = Guard(CONFIG, 0).step(Flit(1, pack(CONFIG, GOOD | wrong), True, True))
    assert flit is not None
    return flit


def test_a_good_packet_passes_unchanged() -> None:
    guard = Guard(CONFIG, 0)
    head = Flit(2, pack(CONFIG, GOOD | {"flits": 3}), True, False)
    rest = [Flit(2, 77, False, False), Flit(2, 78, False, True)]
    assert [guard.step(flit) for flit in (head, *rest)] == [head, *rest]
    assert (guard.bad, guard.broken, guard.owed) == (0, 0, [0, 0, 0])


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"target_0": 3}, Status.NO_CHIP),
        ({"flits": 0}, Status.MALFORMED),
        ({"flits": 6}, Status.MALFORMED),
        ({"flits": 2}, Status.MALFORMED),
        ({"source_1": 1}, Status.MALFORMED),
    ],
)
def test_a_bad_header_becomes_an_answer_to_its_sender(wrong: dict[str, int], status: Status) -> None:
    found = answer(**wrong)
    header = unpack(CONFIG, found.data)
    assert (found.first, found.last, found.lane) == (True, True, 1)
    assert (header["status"], header["tag"], header["flits"]) == (status, 9, 1)
    assert (header["target_0"], header["target_1"]) == CONFIG.torus.coordinates(0)


def test_what_follows_a_bad_header_is_consumed_and_its_credits_come_back() -> None:
    guard = Guard(CONFIG, 0)
    assert guard.step(Flit(0, pack(CONFIG, GOOD | {"flits": 0}), True, False)) is not None
    assert [guard.step(Flit(0, 1, False, last)) for last in (False, True)] == [None, None]
    assert [guard.credits(0b001), guard.credits(0b010), guard.credits(0), guard.credits(0)] == [1, 3, 1, 0]
    head = Flit(0, pack(CONFIG, GOOD), True, True)
    assert guard.step(head) == head


def test_a_packet_that_is_shorter_or_longer_than_it_says_is_broken_off() -> None:
    for marks, passed in (((False, True),), 1), (((False, False),) * 2, 1):
        guard = Guard(CONFIG, 0)
        guard.step(Flit(0, pack(CONFIG, GOOD | {"flits": 2 if passed != len(marks) else 3}), True, False))
        found = [guard.step(Flit(0, 5, *mark)) for mark in marks]
        assert found[0] == Flit(0, 5, True, True)
        assert found[1:] == [None] * (len(marks) - 1)
        assert guard.broken == 1


def test_a_guard_that_lets_a_chip_through_that_does_not_exist_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    flits, model = noise(CONFIG, 400, rng), guard_model(CONFIG)
    assert compare(model, CONFIG, flits, np.random.default_rng(6)) == 0
    verdict = Guard.verdict

    def lax(guard: Guard, flit: Flit) -> Status:
        found = verdict(guard, flit)
        return Status.GOOD if found == Status.NO_CHIP else found

    monkeypatch.setattr(Guard, "verdict", lax)
    assert compare(model, CONFIG, flits, np.random.default_rng(6)) > 0
