import dataclasses
import itertools
from collections.abc import Callable

import pytest

from scale.fabric import Fabric, machine_scope
from scale.kernels import Builder, Kernel
from scale.measured import load
from scale.step import Step, StepResult, order
from spec.models import MODELS, ModelConfig
from spec.parallelism import ParallelConfig, WorkloadConfig
from spec.parameters import ParameterError

ASSUMED = {"hbm": 0.95, "link": 0.9, "hop_cycles": 3.0}
SMALL_MODEL = ModelConfig(layers=4, hidden=256, heads=16, kv_heads=8, head_size=16, ffn=512, vocabulary=512)
SMALL_MOE = SMALL_MODEL.replace(experts=8, active_experts=2, window=128, window_every=2)


def _step(
    layout: str,
    *,
    preset: str = "trn2-instance",
    model: ModelConfig = SMALL_MODEL,
    servers: int = 1,
    every_chip: bool = False,
    batch: int = 16,
    sequence: int = 512,
    kind: str = "train",
    recompute: bool = True,
) -> Step:
    machine, scope = machine_scope(preset)
    workload = WorkloadConfig(kind=kind, batch=batch, sequence=sequence, recompute=recompute)
    fabric = Fabric(machine, scope, load(ASSUMED))
    return Step(fabric, model, ParallelConfig.parse(layout), workload, servers=servers, every_chip=every_chip)


LAYOUTS = ["tp=16", "tp=4,dp=4", "dp=16", "tp=4,pp=4,microbatches=8", "tp=2,cp=2,dp=2,pp=2,microbatches=4", "cp=4,dp=4"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["train", "decode"])
def test_one_chip_a_stage_gives_exactly_the_time_of_every_chip(layout: str, kind: str) -> None:
    one, every = _step(layout, kind=kind).run(), _step(layout, kind=kind, every_chip=True).run()
    assert one.seconds == every.seconds
    assert one.flops == every.flops
    assert (one.link_bytes == every.link_bytes).all()


def test_one_chip_a_stage_is_exact_for_experts_and_on_a_switch() -> None:
    for preset, layout, batch in (("trn2-instance", "tp=2,dp=8,ep=4", 16), ("trn3-ultraserver", "tp=4,dp=36,ep=4", 36)):
        runs = [_step(layout, preset=preset, model=SMALL_MOE, batch=batch, every_chip=every) for every in (False, True)]
        one, every = (run.run() for run in runs)
        assert one.seconds == every.seconds


def test_a_planted_slow_chip_is_seen_when_every_chip_is_simulated() -> None:
    step = _step("tp=16", every_chip=True)
    usual = _step("tp=16", every_chip=True).run().seconds
    straggler = step.stages.chips[0][7]
    straggler.last.append(step.stages.model.add("held up", [], 1.0))
    assert step.run().seconds > usual + 0.9


@pytest.mark.parametrize(("stages", "parts"), [(1, 4), (2, 4), (4, 8), (4, 2), (3, 5)])
def test_every_stage_runs_each_microbatch_once_each_way_and_holds_no_more_than_its_share(
    stages: int, parts: int
) -> None:
    for stage in range(stages):
        blocks = order(stage, stages, parts)
        assert sorted(blocks) == sorted(itertools.product("BF", range(parts)))
        held = itertools.accumulate(1 if kind == "F" else -1 for kind, _ in blocks)
        assert max(held) <= min(stages - stage, parts)


def test_a_pipeline_bubble_is_what_the_formula_says() -> None:
    """With equal stages and free sends: (microbatches + stages - 1) / microbatches."""
    slow = _step("pp=4,tp=4,microbatches=4", batch=64).run()
    fast = _step("pp=4,tp=4,microbatches=16", batch=256).run()
    gain = (slow.seconds / 4) / (fast.seconds / 16)
    assert gain == pytest.approx((7 / 4) / (19 / 16), rel=0.1)


def _flops(model: ModelConfig, workload: WorkloadConfig) -> float:
    """Products of a step by the usual formula: 2 a parameter and token forward, 4 backward, and causal attention."""
    tokens = workload.batch * workload.sequence
    passes = 3 if workload.kind == "train" else 1
    matrices = model.layers * (model.layer_parameters - model.norm_parameters) + model.embedding_parameters
    attention = model.layers * 4 * workload.sequence * workload.sequence // 2 * model.query_width * workload.batch
    return passes * (2.0 * matrices * tokens + attention)


@pytest.mark.parametrize("layout", ["tp=4,dp=4", "tp=4,pp=4,microbatches=4", "cp=4,dp=4"])
@pytest.mark.parametrize("recompute", [True, False])
def test_useful_operations_are_those_of_the_model_however_it_is_laid_out(layout: str, recompute: bool) -> None:
    result = _step(layout, recompute=recompute).run()
    assert result.flops == pytest.approx(_flops(SMALL_MODEL, WorkloadConfig(batch=16, sequence=512)), rel=1e-9)


def test_nothing_is_faster_than_its_bound() -> None:
    for name, layout, batch, kind in (
        ("llama3.1-8b", "tp=4,dp=4", 16, "train"),
        ("llama3.1-70b", "tp=16", 64, "decode"),
        ("gpt-oss-20b", "tp=4,dp=4,ep=4", 64, "decode"),
        ("llama3.1-8b", "tp=16", 4, "prefill"),
    ):
        result = _step(layout, model=MODELS[name], batch=batch, sequence=2048, kind=kind).run()
        assert 0 < result.mfu < 1
        assert 0 < result.mbu < 0.95
        assert 0 < result.link_use.max() <= 1


def test_decode_of_a_dense_model_is_bound_by_reading_its_weights() -> None:
    result = _step("tp=16", model=MODELS["llama3.1-70b"], batch=16, sequence=2048, kind="decode").run()
    read = 2 * MODELS["llama3.1-70b"].parameters / (16 * 2.9e12 * 0.95)
    assert read < result.seconds < 2 * read


@pytest.mark.parametrize(
    "change",
    [{"hbm": 0.475}, {"link": 0.45}, {"step_ns": 26000.0}, {"hop_cycles": 30000.0}, {"local_links": 0.5}],
    ids=lambda change: next(iter(change)),
)
def test_every_efficiency_matters(change: dict[str, float]) -> None:
    def seconds(assumed: dict[str, float]) -> float:
        machine, scope = machine_scope("trn2-instance")
        fabric = Fabric(machine, scope, load(assumed))
        workload = WorkloadConfig(kind="decode", batch=16, sequence=2048)
        return Step(fabric, MODELS["llama3.1-70b"], ParallelConfig(tp=16), workload).run().seconds

    assert seconds(ASSUMED | change) > seconds(ASSUMED)


def test_more_servers_cost_the_exchange_of_gradients_only() -> None:
    alone = _step("tp=16", batch=16).run()
    both = _step("tp=16,dp=2", batch=32, servers=2).run()
    assert alone.seconds < both.seconds
    assert both.efa_bytes > 0 == alone.efa_bytes
    assert both.chips == 2 * alone.chips


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: _step("tp=3"), "heads = 16 does not divide by tp = 3"),
        (lambda: _step("tp=8"), "tp 8 x cp 1 x dp 1 x pp 1 = 8 chips, the machine has 16"),
        (lambda: _step("tp=8,dp=3", servers=2), "dp = 3 does not divide by servers = 2"),
        (lambda: _step("tp=8,dp=4,ep=4", servers=2, model=SMALL_MOE), "experts stay in a server"),
        (lambda: machine_scope("trn9"), "preset 'trn9': legal is one of"),
        (lambda: machine_scope("trn2-rack"), "preset 'trn2-rack': legal is one of"),
        (lambda: _step("tp=16", model=MODELS["llama3.1-405b"]), "memory: a chip needs"),
    ],
)
def test_what_cannot_run_is_refused_with_its_numbers(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


def test_a_planted_wrong_divisor_changes_the_operations_and_is_caught() -> None:
    """The check of useful operations is not blind: a layer computed for half its ranks fails it."""
    step = _step("tp=4,dp=4")
    wrong = dataclasses.replace(step.builder, parallel=step.parallel.replace(tp=8))
    step.builder = wrong
    assert step.run().flops != pytest.approx(_flops(SMALL_MODEL, step.workload), rel=1e-3)


def test_backward_moves_what_forward_moved_the_other_way() -> None:
    builder = Builder(machine_scope("trn2")[0].chip, SMALL_MODEL, ParallelConfig(tp=4), WorkloadConfig(batch=4))

    def moved(kernels: list[Kernel]) -> list[tuple[str, float]]:
        swap = {"all_gather": "reduce_scatter", "reduce_scatter": "all_gather"}
        return [
            (swap[kernel.collective[0]], kernel.collective[2] * (4 if kernel.collective[0] == "all_gather" else 0.25))
            for kernel in reversed(kernels)
            if kernel.collective
        ]

    backward = [(kernel.collective[0], kernel.collective[2]) for kernel in builder.layer(0, True) if kernel.collective]
    assert backward == moved(builder.layer(0))


def test_results_repeat_to_the_last_bit() -> None:
    def run() -> StepResult:
        return _step("tp=2,cp=2,dp=2,pp=2,microbatches=4").run()

    assert run().timeline == run().timeline
