from examples.memory import stream, tensors, timeline
from golden.hbm.device import Command
from spec.hbm_controller import HbmControllerConfig


def test_weights_and_images_come_back_and_the_timeline_shows_every_kind_of_command() -> None:
    config = HbmControllerConfig()
    content = tensors()
    trip = stream(config, content)
    assert trip.received == content
    shown = timeline(config, trip.run, 0, len(trip.run.commands))
    assert len(shown) == len(trip.run.commands)
    for kind in (Command.ACT, Command.PRE, Command.RD, Command.WR, Command.REFPB):
        assert any(f" {kind.name} " in line for line in shown)


def test_a_device_that_loses_a_bit_is_noticed() -> None:
    config = HbmControllerConfig()
    content = tensors()
    flipped = bytes([content[0] ^ 1]) + content[1:]
    assert stream(config, flipped).received != content
