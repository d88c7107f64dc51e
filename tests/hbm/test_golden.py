import hashlib
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from golden.hbm.bound import bound
from golden.hbm.calendar import check
from golden.hbm.controller import ACT, PRE, READ, REF, WR, lines_of, replay
from golden.hbm.device import Device, DeviceError
from spec.hbm import TIMINGS, HbmGeometry
from spec.hbm_controller import HbmControllerConfig
from verif.hbm.traces import TRACES, best_peer, lines, peers

DEFAULT = HbmControllerConfig()
SMALL = {"write_lines": 8, "high_water": 7, "low_water": 1, "prepare": 2}
CONFIGS = {
    "default": DEFAULT,
    "small windows": DEFAULT.replace(read_lines=4, **SMALL),
    "plain map": DEFAULT.replace(hashed=False, read_lines=8),
    "in order": DEFAULT.replace(in_order=True),
    "old lines first": DEFAULT.replace(age_limit=16),
    "refresh always urgent": DEFAULT.replace(refresh_ahead=0, refresh_urgent=1),
    "refresh late": DEFAULT.replace(refresh_urgent=200),
    "one pseudo channel": DEFAULT.replace(geometry=HbmGeometry(pseudo_channels=1)),
    **{name: DEFAULT.replace(timing=timing) for name, timing in TIMINGS.items()},
}


def traffic(config: HbmControllerConfig, count: int, seed: int, span: int | None = None) -> tuple[Any, Any]:
    """Runs of lines at random places, so that rows are hit, conflict and are left; ``span`` makes addresses collide."""
    rng = np.random.default_rng(seed)
    span = span or config.geometry.channel_bytes
    starts = rng.integers(0, span // 64, count) * 64
    lengths = rng.integers(1, 20, count)
    addresses = np.concatenate([start + 64 * np.arange(n) for start, n in zip(starts, lengths, strict=True)]) % span
    writes = np.repeat(rng.integers(0, 3, count) == 0, lengths).astype(np.int64)
    return addresses[:count], writes[:count]


@pytest.mark.parametrize("name", CONFIGS)
def test_the_device_takes_every_command_and_every_line_is_served_once(name: str) -> None:
    config = CONFIGS[name]
    addresses, writes = traffic(config, 3000, seed=1)
    result = replay(config, addresses, writes)
    device = Device(config.timing, config.geometry)
    check(device, result.commands, result.slots)

    lines = lines_of(config, addresses, writes)
    columns = result.commands[result.commands[:, 2] <= WR]
    assert len(columns) == 2 * len(lines)
    for half in range(2):
        sent = columns[columns[:, 4] % 2 == half]
        served = sent[np.argsort(sent[:, 5])]
        assert (served[:, 5] == np.arange(len(lines))).all()
        assert (served[:, [1, 3, 2]] == lines[:, [0, 1, 4]]).all()
        assert (served[:, 4] == lines[:, 3] + half).all()


@pytest.mark.parametrize("name", ["default", "small windows", "in order"])
def test_accesses_to_one_place_keep_their_order(name: str) -> None:
    config = CONFIGS[name]
    addresses, writes = traffic(config, 3000, seed=2, span=1 << 14)
    result = replay(config, addresses, writes)
    for place in np.unique(addresses):
        mine = np.flatnonzero(addresses == place)
        for earlier, later in pairwise(mine):
            if writes[earlier] or writes[later]:
                assert result.finished[earlier] < result.finished[later]


def test_without_reordering_lines_finish_in_order_of_arrival() -> None:
    config = CONFIGS["in order"]
    addresses, writes = traffic(config, 1000, seed=3)
    result = replay(config, addresses, writes)
    channel = lines_of(config, addresses, writes)[:, 0]
    for p in range(2):
        assert (np.diff(result.finished[channel == p]) > 0).all()


@pytest.mark.parametrize("name", ["default", "refresh always urgent", "refresh late", "in order"])
def test_refreshes_done_and_owed_are_exactly_what_the_standard_demands(name: str) -> None:
    config = CONFIGS[name]
    result = replay(config, *traffic(config, 6000, seed=4))
    due = result.slots * 2 * config.geometry.all_banks // config.timing.t_refi
    for p in range(2):
        done = np.count_nonzero((result.commands[:, 1] == p) & (result.commands[:, 2] == REF))
        assert done + result.owed[p] == due
        assert -config.refresh_ahead <= result.owed[p] <= config.refresh_urgent + config.geometry.all_banks


def test_a_stream_of_row_hits_does_not_starve_a_read_of_another_row() -> None:
    config = DEFAULT.replace(age_limit=64, hashed=False)
    rows = config.geometry.channel_bytes // config.geometry.rows
    columns = np.arange(2000) % 16 * 512  # one row of one bank, again and again
    addresses = np.insert(columns, 100, rows)
    result = replay(config, addresses, np.zeros(len(addresses), np.int64))
    assert result.finished[100] - result.accepted[100] < config.read_lines * 2 * 4 + config.age_limit + 200
    patient = replay(config.replace(age_limit=1 << 14), addresses, np.zeros(len(addresses), np.int64))
    assert patient.finished[100] > 5 * result.finished[100]


@pytest.mark.parametrize("kind", [ACT, PRE, READ, WR, REF], ids=["ACT", "PRE", "RD", "WR", "REF"])
def test_the_device_notices_any_kind_of_command_that_comes_a_cycle_early(kind: int) -> None:
    result = replay(DEFAULT, *traffic(DEFAULT, 1500, seed=5))
    noticed = 0
    for index in np.flatnonzero(result.commands[:, 2] == kind)[5:400:20]:
        early = result.commands.copy()
        early[index, 0] -= 8
        try:
            check(Device(DEFAULT.timing, DEFAULT.geometry), early, result.slots)
        except DeviceError:
            noticed += 1
    assert noticed


@pytest.mark.parametrize("name", ["seq_read", "triad_512", "rand_64", "rand_512_rw", "dma16_512_pow2", "stride_65536"])
def test_no_trace_exceeds_its_bound(name: str) -> None:
    addresses, writes = lines(name, 1 << 19)
    limit = bound(DEFAULT, addresses, writes)
    reached = replay(DEFAULT, addresses, writes).utilisation()
    assert 0.5 < reached <= limit.utilisation <= 1


def test_reordering_earns_what_it_is_for() -> None:
    addresses, writes = lines("dma16_512_rand", 1 << 18)
    reordered = replay(DEFAULT, addresses, writes).utilisation()
    assert reordered > 0.95
    assert replay(DEFAULT.replace(in_order=True), addresses, writes).utilisation() < 0.1


def test_the_traces_are_those_the_peers_were_measured_on() -> None:
    digest = hashlib.sha256()
    for name in sorted(TRACES, key=lambda name: f"{name}.trc"):
        digest.update(b"# kind addr bytes stream\n")
        for request in TRACES[name](1 << 16):
            digest.update(f"{'RW'[request.write]} {request.address:x} {request.size} {request.stream}\n".encode())
    assert digest.hexdigest() == "cc1850278871d0f6aa170ee874abd4c732830b2b356c06ae6bac978848ef3ac4"


@pytest.mark.long
def test_the_full_traces_have_the_published_digest() -> None:
    digest = hashlib.sha256()
    for name in sorted(TRACES, key=lambda name: f"{name}.trc"):
        digest.update(b"# kind addr bytes stream\n")
        for request in TRACES[name](4 << 20):
            digest.update(f"{'RW'[request.write]} {request.address:x} {request.size} {request.stream}\n".encode())
    assert digest.hexdigest() == "2b20be0bd2d9311e64b166a4d0a72d39e96b39404eb8e03a1be76137ddb30bff"


def test_every_trace_has_a_peer_and_none_of_them_goes_without_refresh() -> None:
    assert all(best_peer(name) is not None for name in TRACES)
    assert max(peer.utilisation for peer in peers()) <= 1


@pytest.mark.long
def test_the_model_serves_200_000_requests_a_second() -> None:
    addresses, writes = lines("triad_512", 4 << 20)
    replay(DEFAULT, addresses[:100], writes[:100])
    started = time.process_time()
    replay(DEFAULT, addresses, writes)
    assert 2 * len(addresses) / (time.process_time() - started) > 200_000
