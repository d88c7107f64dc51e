import pytest

from spec.models import MODELS
from spec.parallelism import (
    ParallelConfig,
    WorkloadConfig,
    check_layout,
    footprint,
    layer_parameters_here,
    mismatches,
    stored_elements,
)
from spec.parameters import ParameterError

LLAMA, MOE = MODELS["llama3.1-405b"], MODELS["gpt-oss-120b"]
GIB = 2**30


def test_parse_reads_axes_and_leaves_the_rest_at_one() -> None:
    assert ParallelConfig.parse("tp=8,pp=2") == ParallelConfig(tp=8, pp=2)
    assert ParallelConfig.parse("") == ParallelConfig()


@pytest.mark.parametrize("text", ["tp", "tp=", "tp=x", "xx=2", "tp=2,tp=4", "tp=-1", "tp=0"])
def test_an_unreadable_layout_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="legal is"):
        ParallelConfig.parse(text)


@pytest.mark.parametrize(
    ("model", "layout", "batch", "message"),
    [
        ("llama3.1-405b", "pp=4", 64, "layers = 126 does not divide by pp = 4"),
        ("llama3.1-405b", "tp=3", 64, "heads = 128 does not divide by tp = 3"),
        ("llama3.1-405b", "dp=8,microbatches=3", 64, r"batch = 64 does not divide by dp x microbatches = 24"),
        ("llama3.1-405b", "cp=3", 64, "sequence = 8192 does not divide by cp = 3"),
        ("gpt-oss-120b", "ep=3,dp=3", 63, "experts = 128 does not divide by ep = 3"),
        ("gpt-oss-120b", "ep=4,dp=2", 64, "dp = 2 does not divide by ep = 4"),
    ],
)
def test_what_does_not_divide_is_refused_with_its_numbers(model: str, layout: str, batch: int, message: str) -> None:
    parallel = ParallelConfig.parse(layout)
    with pytest.raises(ParameterError, match=message):
        check_layout(MODELS[model], parallel, WorkloadConfig(batch=batch), chips=parallel.chips, hbm_bytes=10**6 * GIB)


def test_all_mismatches_are_named_in_one_line() -> None:
    with pytest.raises(ParameterError) as refused:
        check_layout(LLAMA, ParallelConfig(pp=4), WorkloadConfig(batch=64), chips=64, hbm_bytes=96 * GIB)
    text = str(refused.value)
    assert "pp = 4" in text
    assert "tp 1 x cp 1 x dp 1 x pp 4 = 4 chips, the machine has 64" in text
    assert "\n" not in text


def test_what_does_not_fit_is_refused_with_the_parts() -> None:
    with pytest.raises(ParameterError, match=r"needs 1\d\d\.\d GiB \(weights 12\.7.*at most 96\.0 GiB of HBM"):
        check_layout(LLAMA, ParallelConfig(tp=64), WorkloadConfig(batch=64), chips=64, hbm_bytes=96 * GIB)


def test_what_fits_is_accepted() -> None:
    layout = ParallelConfig(tp=32, pp=2, microbatches=16)
    assert check_layout(LLAMA, layout, WorkloadConfig(batch=64), chips=64, hbm_bytes=96 * GIB).total < 96 * GIB


@pytest.mark.parametrize("name", ["llama3.1-8b", "llama3.1-405b", "gpt-oss-20b", "gpt-oss-120b"])
def test_one_chip_holds_all_parameters(name: str) -> None:
    model = MODELS[name]
    held = footprint(model, ParallelConfig(), WorkloadConfig(batch=1, kind="decode")).weights
    assert held == 2 * (model.parameters - model.hidden)  # the last norm is left out


@pytest.mark.parametrize("layout", ["tp=8", "tp=4,pp=2", "tp=8,dp=4,ep=4"])
def test_ranks_together_hold_the_layer_and_more_only_where_something_is_copied(layout: str) -> None:
    parallel = ParallelConfig.parse(layout)
    shared, experts = layer_parameters_here(MOE, parallel)
    together = parallel.tp * (shared + parallel.ep * experts)
    copied = (parallel.tp - 1) * (MOE.router_parameters + MOE.norm_parameters + MOE.hidden)
    copied += parallel.tp * MOE.experts  # rounding up of the expert's cut
    assert MOE.layer_parameters <= together <= MOE.layer_parameters + copied


def test_recompute_stores_less_and_zero_shards_the_optimizer() -> None:
    assert stored_elements(LLAMA, ParallelConfig(tp=8), True) < stored_elements(LLAMA, ParallelConfig(tp=8), False)
    alone = footprint(LLAMA, ParallelConfig(tp=8), WorkloadConfig(batch=4)).optimizer
    spread = footprint(LLAMA, ParallelConfig(tp=8, dp=4), WorkloadConfig(batch=4)).optimizer
    assert spread == alone // 4


def test_windowed_layers_keep_a_short_cache() -> None:
    full = footprint(MOE.replace(window=0), ParallelConfig(), WorkloadConfig(batch=1, kind="decode")).cache
    windowed = footprint(MOE, ParallelConfig(), WorkloadConfig(batch=1, kind="decode")).cache
    assert windowed == full * (8192 + 128) // (2 * 8192)


def test_a_planted_wrong_divisor_is_seen() -> None:
    legal = ParallelConfig(tp=8, pp=2)
    assert not mismatches(LLAMA, legal, WorkloadConfig(batch=64))
    assert mismatches(LLAMA.replace(layers=125), legal, WorkloadConfig(batch=64))
