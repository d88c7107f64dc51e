"""How a workload is laid over chips, and what of it must lie in each chip's memory.

Ranks are chips. The axes nest: tensor-parallel ranks are neighbours, then context-, data- and pipeline-parallel ones.
Experts are spread over ``ep`` of the data-parallel ranks. What does not divide or does not fit is refused with the
numbers.
"""

import dataclasses
from typing import Self

from spec.models import ModelConfig
from spec.parameters import ParameterError, Parameters, parameter

KINDS = ("train", "prefill", "decode")
"""A training step; the first pass over prompts; one token for each sequence."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParallelConfig(Parameters):
    """Ranks of each axis; the product without ``ep`` is the number of chips."""

    tp: int = parameter(1, unit="ranks", low=1, high=1 << 20, doc="tensor parallel: each matrix cut")
    cp: int = parameter(1, unit="ranks", low=1, high=1 << 20, doc="context parallel: each sequence cut")
    dp: int = parameter(1, unit="ranks", low=1, high=1 << 20, doc="data parallel: different sequences")
    pp: int = parameter(1, unit="ranks", low=1, high=1 << 20, doc="pipeline parallel: layers cut into stages")
    ep: int = parameter(
        1, unit="ranks", low=1, high=1 << 20, doc="expert parallel: data-parallel ranks that share experts"
    )
    microbatches: int = parameter(1, unit="microbatches", low=1, high=1 << 20, doc="parts a batch passes the stages in")

    @classmethod
    def parse(cls, text: str) -> Self:
        """``tp=8,pp=2`` as a configuration; an axis not named is 1."""
        values: dict[str, int] = {}
        known = [field.name for field in dataclasses.fields(cls)]
        for part in filter(None, text.split(",")):
            name, equals, value = part.partition("=")
            if not equals or name not in known or name in values or not value.isdecimal():
                legal = "each of " + ", ".join(known) + " at most once, as name=number"
                raise ParameterError(f"parallel {text!r}, at {part!r}: legal is {legal}")
            values[name] = int(value)
        return cls(**values)

    @property
    def chips(self) -> int:
        """Chips in use."""
        return self.tp * self.cp * self.dp * self.pp


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkloadConfig(Parameters):
    """One step of a model: what kind, over how much, and how values are stored."""

    kind: str = parameter("train", choices=KINDS, doc="what a step is")
    batch: int = parameter(unit="sequences", low=1, high=1 << 30, doc="sequences of a step, all ranks together")
    sequence: int = parameter(
        8192, unit="tokens", low=1, high=1 << 24, doc="tokens of a sequence; at decode, of its context"
    )
    weight_bytes: int = parameter(2, unit="bytes", choices=(1, 2, 4), doc="one weight or activation")
    gradient_bytes: int = parameter(2, unit="bytes", choices=(2, 4), doc="one gradient")
    optimizer_bytes: int = parameter(
        8,
        unit="bytes",
        low=0,
        high=16,
        doc="optimizer state of a parameter: two fp32 moments; 12 with an fp32 master copy",
    )
    recompute: bool = parameter(True, doc="whether backward runs forward again instead of reading stored activations")


def mismatches(model: ModelConfig, parallel: ParallelConfig, workload: WorkloadConfig) -> list[str]:
    """Every division that leaves a remainder, in words with its numbers; empty when the layout is legal."""
    whole = [
        ("heads", model.heads, "tp", parallel.tp),
        ("ffn", model.ffn, "tp", parallel.tp),
        ("vocabulary", model.vocabulary, "tp", parallel.tp),
        ("layers", model.layers, "pp", parallel.pp),
        ("experts", model.experts, "ep", parallel.ep),
        ("dp", parallel.dp, "ep", parallel.ep),
        ("batch", workload.batch, "dp x microbatches", parallel.dp * parallel.microbatches),
        ("sequence", workload.sequence, "cp", parallel.cp),
    ]
    found = [f"{what} = {value} does not divide by {by} = {ranks}" for what, value, by, ranks in whole if value % ranks]
    if model.kv_heads % parallel.tp and parallel.tp % model.kv_heads:
        found.append(f"kv_heads = {model.kv_heads} and tp = {parallel.tp}: neither divides the other")
    tokens = workload.batch // (parallel.dp * parallel.microbatches) * workload.sequence // parallel.cp
    if workload.kind == "train" and tokens % parallel.tp:
        found.append(f"{tokens} tokens of a microbatch do not divide by tp = {parallel.tp}")
    return found


@dataclasses.dataclass(frozen=True)
class Footprint:
    """Bytes in one chip's memory, of the stage that holds most."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    cache: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.cache


def kv_heads_here(model: ModelConfig, parallel: ParallelConfig) -> int:
    """Key heads of one rank: each is held by several ranks where there are more ranks than heads."""
    return max(1, model.kv_heads // parallel.tp)


def layer_parameters_here(model: ModelConfig, parallel: ParallelConfig) -> tuple[int, int]:
    """Parameters of one layer on one rank: ``(all but the experts, experts)``."""
    query, kv = model.query_width // parallel.tp, kv_heads_here(model, parallel) * model.head_size
    attention = model.hidden * (2 * query + 2 * kv)
    if model.biases:
        attention += query + 2 * kv + model.hidden + model.heads // parallel.tp
    shared = attention + model.router_parameters + model.norm_parameters
    return shared, model.experts // parallel.ep * -(-model.expert_parameters // parallel.tp)


def microbatch_tokens(parallel: ParallelConfig, workload: WorkloadConfig) -> int:
    """Tokens of one microbatch on one rank, whole along the tensor-parallel axis; at decode, one a sequence."""
    sequences = workload.batch // (parallel.dp * parallel.microbatches)
    return sequences if workload.kind == "decode" else sequences * workload.sequence // parallel.cp


def stored_elements(model: ModelConfig, parallel: ParallelConfig, recompute: bool) -> int:
    """Elements a token leaves in memory between forward and backward of one layer, on one rank.

    Norms and residuals are spread over the tensor-parallel ranks (sequence parallelism). With ``recompute`` only the
    layer's input stays; without it every operand of a product and of a norm does. Attention scores never stay.
    """
    if recompute:
        return -(-model.hidden // parallel.tp)
    heads = 2 * model.query_width // parallel.tp + 2 * kv_heads_here(model, parallel) * model.head_size
    experts = model.active_experts * (3 * model.ffn + model.hidden) // parallel.tp
    return 4 * model.hidden // parallel.tp + heads + experts


def footprint(model: ModelConfig, parallel: ParallelConfig, workload: WorkloadConfig) -> Footprint:
    """What one chip of the first stage holds; the optimizer's state is spread over all replicas of a parameter."""
    layers = model.layers // parallel.pp
    shared, experts = layer_parameters_here(model, parallel)
    ends = 1 if parallel.pp > 1 or model.tied else 2
    shared = layers * shared + ends * model.embedding_parameters // parallel.tp
    experts = layers * experts
    tokens = microbatch_tokens(parallel, workload)
    train = workload.kind == "train"
    if train:
        under_way = min(parallel.pp, parallel.microbatches)
        stored = under_way * layers * stored_elements(model, parallel, workload.recompute)
        working = stored_elements(model, parallel, recompute=False) + model.hidden
        activations = tokens * (stored + working) * workload.weight_bytes
        cache = 0
    else:
        widest = max(model.active_experts * 2 * model.ffn // parallel.tp, model.query_width // parallel.tp)
        activations = tokens * (2 * model.hidden + widest) * workload.weight_bytes
        windowed = sum(model.windowed(layer) for layer in range(layers))
        reach = min(model.window, workload.sequence) * windowed + workload.sequence * (layers - windowed)
        width = 2 * kv_heads_here(model, parallel) * model.head_size
        cache = workload.batch // parallel.dp * -(-reach // parallel.cp) * width * workload.weight_bytes
    replicas = parallel.dp * parallel.cp
    optimizer = shared // replicas + experts * parallel.ep // replicas
    return Footprint(
        weights=(shared + experts) * workload.weight_bytes,
        gradients=(shared + experts) * workload.gradient_bytes if train else 0,
        optimizer=optimizer * workload.optimizer_bytes if train else 0,
        activations=activations,
        cache=cache,
    )


def check_layout(
    model: ModelConfig, parallel: ParallelConfig, workload: WorkloadConfig, *, chips: int, hbm_bytes: int
) -> Footprint:
    """The footprint of a legal layout on ``chips`` chips of ``hbm_bytes`` each; others are refused with the numbers."""
    found = mismatches(model, parallel, workload)
    if parallel.chips != chips:
        axes = " x ".join(f"{axis} {getattr(parallel, axis)}" for axis in ("tp", "cp", "dp", "pp"))
        found.append(f"{axes} = {parallel.chips} chips, the machine has {chips}")
    if found:
        raise ParameterError("parallel: " + "; ".join(found))
    needed = footprint(model, parallel, workload)
    if needed.total > hbm_bytes:
        parts = ", ".join(
            f"{field.name} {getattr(needed, field.name) / 2**30:.1f}"
            for field in dataclasses.fields(needed)
            if getattr(needed, field.name)
        )
        legal = f"at most {hbm_bytes / 2**30:.1f} GiB of HBM"
        raise ParameterError(f"memory: a chip needs {needed.total / 2**30:.1f} GiB ({parts}): legal is {legal}")
    return needed
