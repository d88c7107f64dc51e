"""A transformer as kernels: what one chip computes, moves and exchanges for each part of a layer.

A :class:`Kernel` is what a compiler would fuse: engines that stream from each other, the weights it reads, the
activations it spills; or one collective. Element-wise work is counted in passes over its elements, stated beside each
kernel. Norms and residuals are spread over the tensor-parallel ranks (sequence parallelism): all-gather before a
product, reduce-scatter after it. Experts are taken as evenly loaded, causal context-parallel ranks as balanced.
"""

import dataclasses
from collections.abc import Mapping

from scale.costs import attention_seconds, pass_seconds, product_bytes, product_seconds
from spec.machine import ChipConfig
from spec.models import ModelConfig
from spec.parallelism import ParallelConfig, WorkloadConfig, kv_heads_here, layer_parameters_here, microbatch_tokens

UPDATE_PASSES = 12
"""Vector passes of Adam: two moments (multiply and add, twice each), their scaling, root, division, decay, the step."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One step of the program that all chips of a stage run. A collective has nothing else."""

    name: str
    engines: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Seconds of each engine: ``tensor``, ``vector``, ``scalar``."""
    ahead_bytes: float = 0.0
    """Bytes read from HBM that are known beforehand: weights, caches."""
    bytes: float = 0.0
    """Bytes read and written while the kernel runs: activations, gradients."""
    collective: tuple[str, str, float] | None = None
    """``(operation, axis, bytes each rank puts in)``."""
    flops: float = 0.0
    """Useful operations, two a product; what recomputing repeats counts nothing."""


@dataclasses.dataclass(frozen=True)
class Builder:
    """Makes the kernels of a workload for one chip of a stage; ``servers`` share the data-parallel ranks."""

    chip: ChipConfig
    model: ModelConfig
    parallel: ParallelConfig
    workload: WorkloadConfig
    servers: int = 1

    @property
    def ranks(self) -> dict[str, int]:
        """Ranks along each axis a collective can run: ``rp`` all replicas of a parameter in one server, ``xp`` of an
        expert, ``efa`` the servers.
        """
        inside = self.parallel.cp * self.parallel.dp // self.servers
        axes = {"tp": self.parallel.tp, "cp": self.parallel.cp, "ep": self.parallel.ep}
        return axes | {"rp": inside, "xp": inside // self.parallel.ep, "efa": self.servers}

    @property
    def sbuf(self) -> float:
        """Bytes of SBUF of a chip."""
        return self.chip.cores * self.chip.core.tensor.rows * self.chip.core.sbuf_partition_bytes

    @property
    def tokens(self) -> int:
        """Tokens of a microbatch on a chip."""
        return microbatch_tokens(self.parallel, self.workload)

    @property
    def width(self) -> int:
        """Bytes of one value."""
        return self.workload.weight_bytes

    @property
    def period(self) -> int:
        """Layers after which kernels repeat: windowed and full layers alternate."""
        return self.model.window_every if self.model.window else 1

    def vector(self, elements: float, passes: float = 1) -> float:
        """Seconds of the vector engines."""
        return pass_seconds(self.chip, elements, self.chip.core.vector_clock_ghz, passes)

    def scalar(self, elements: float, passes: float = 1) -> float:
        """Seconds of the scalar engines."""
        return pass_seconds(self.chip, elements, self.chip.core.scalar_clock_ghz, passes)

    def spilled(self, amount: float) -> float:
        """Bytes that go through HBM: all of them, unless they fit in a quarter of SBUF."""
        return amount if amount > self.sbuf / 4 else 0.0

    def exchange(self, name: str, operation: str, axis: str, amount: float) -> list[Kernel]:
        """A collective; nothing along an axis of one rank."""
        return [Kernel(name, collective=(operation, axis, amount))] if self.ranks[axis] > 1 else []

    def product(
        self,
        name: str,
        tokens: int,
        k: int,
        features: int,
        *,
        count: int = 1,
        backward: bool = False,
        beside: Mapping[str, float] | None = None,
    ) -> Kernel:
        """``count`` products ``[tokens, k] @ [k, features]``; ``beside``: seconds of engines that stream from them.

        Backward makes the gradients of the input and of the weights, and adds the latter to their sum in HBM.
        """
        seconds = product_seconds(self.chip, tokens, k, features, self.width)
        held = [count * size * self.width for size in (k * features, tokens * k, tokens * features)]
        summed = 0.0
        if backward:
            seconds = product_seconds(self.chip, tokens, features, k, self.width)
            seconds += product_seconds(self.chip, k, tokens, features, self.width)
            held = [held[0], held[1] + held[2], held[1]]
            summed = 2.0 * count * k * features * self.workload.gradient_bytes
        weights, others = product_bytes(held[0], held[1], held[2], self.sbuf)
        flops = (4.0 if backward else 2.0) * count * tokens * k * features
        return Kernel(name, {"tensor": count * seconds, **(beside or {})}, weights, others + summed, flops=flops)

    def residual(self, name: str, passes: int) -> Kernel:
        """Vector passes over the residual stream, spread over the tensor-parallel ranks."""
        elements = self.tokens * self.model.hidden / self.parallel.tp
        return Kernel(name, {"vector": self.vector(elements, passes)}, bytes=self.spilled(2 * elements * self.width))

    def gather(self, name: str) -> list[Kernel]:
        """All-gather of the residual stream along the tensor-parallel ranks."""
        return self.exchange(name, "all_gather", "tp", self.tokens * self.model.hidden * self.width / self.parallel.tp)

    def scatter(self, name: str) -> list[Kernel]:
        """Reduce-scatter of partial sums into the residual stream."""
        return self.exchange(name, "reduce_scatter", "tp", self.tokens * self.model.hidden * self.width)

    def attention(self, windowed: bool, backward: bool) -> list[Kernel]:
        """Scores, softmax, values. Scores never leave the chip, so backward makes them again (5 products for 2).

        Scalar: the exponential. Vector: the running maximum; backward two more passes.
        """
        decode = self.workload.kind == "decode"
        sequences = self.workload.batch // (self.parallel.dp * self.parallel.microbatches)
        context = self.workload.sequence // (self.parallel.cp if decode else 1)
        queries = 1 if decode else self.workload.sequence // self.parallel.cp
        if windowed and self.model.window < context:
            context = self.model.window
        elif not decode:
            context = -(-context // 2)  # causal: half of the square
        kv = kv_heads_here(self.model, self.parallel)
        units, rows = sequences * kv, queries * (self.model.heads // self.parallel.tp // kv)
        head, scores = self.model.head_size, units * rows * context
        engines = {
            "tensor": attention_seconds(self.chip, units, rows, context, head, self.width, 5 if backward else 2),
            "scalar": self.scalar(scores),
            "vector": self.vector(scores, 3 if backward else 1),
        }
        flops = 4.0 * scores * head * (2 if backward else 1)
        if decode:
            cache = 2 * units * context * head * self.width
            own = Kernel("attention", engines, ahead_bytes=cache, flops=flops)
            return [own, *self.exchange("join", "all_reduce", "cp", units * rows * (head + 2) * self.width)]
        local = 2 * units * queries * head * self.width
        moved = (2 if backward else 1) * (2 * units * rows * head * self.width + local)
        own = Kernel("attention", engines, bytes=self.spilled(moved), flops=flops)
        keys = self.exchange("keys", "all_gather", "cp", local)
        if backward:
            return [*keys, own, *self.exchange("keys", "reduce_scatter", "cp", local * self.parallel.cp)]
        return [*keys, own]

    def feed_forward(self, backward: bool) -> list[Kernel]:
        """Gate, up and down. Scalar: the activation. Vector: one product of two; backward four of them."""
        model = self.model
        ffn, tokens, count = model.ffn // self.parallel.tp, self.tokens, 1
        before, after = [], []
        if model.experts > 1:
            visits = tokens * model.active_experts
            chosen = self.vector(tokens * model.experts, model.active_experts)  # each a search for the largest
            before = [
                self.product(
                    "router", tokens, model.hidden, model.experts, backward=backward, beside={"vector": chosen}
                ),
                *self.exchange("dispatch", "all_to_all", "ep", visits * model.hidden * self.width),
            ]
            after = self.exchange("combine", "all_to_all", "ep", visits * model.hidden * self.width)
            arriving = visits * self.parallel.ep
            count = min(model.experts // self.parallel.ep, arriving)
            tokens = -(-arriving // model.experts)
        engines = {
            "scalar": self.scalar(count * tokens * ffn),
            "vector": self.vector(count * tokens * ffn, 4 if backward else 1),
        }
        gate_up = self.product("gate_up", tokens, model.hidden, 2 * ffn, count=count, backward=backward, beside=engines)
        return [
            *before,
            gate_up,
            self.product("down", tokens, ffn, model.hidden, count=count, backward=backward),
            *after,
        ]

    def layer(self, index: int, backward: bool = False) -> list[Kernel]:
        """Kernels of one layer. Vector passes: norm 2, backward 4; residual 1; rotation of queries and keys 3."""
        model, tp = self.model, self.parallel.tp
        query, kv = model.query_width // tp, kv_heads_here(model, self.parallel) * model.head_size
        turned = self.vector(self.tokens * (query + kv), 3)
        norm = 4 if backward else 2
        kernels = [
            self.residual("norm", norm),
            *self.gather("gather"),
            self.product(
                "qkv", self.tokens, model.hidden, query + 2 * kv, backward=backward, beside={"vector": turned}
            ),
            *self.attention(model.windowed(index), backward),
            self.product("out", self.tokens, query, model.hidden, backward=backward),
            *self.scatter("scatter"),
            self.residual("residual+norm", norm + 1),
            *self.gather("gather"),
            *self.feed_forward(backward),
            *self.scatter("scatter"),
            self.residual("residual", 1),
        ]
        if not backward:
            return kernels
        return [self._mirrored(kernel) for kernel in reversed(kernels)]

    def _mirrored(self, kernel: Kernel) -> Kernel:
        """Backward of a collective: what was gathered is scattered, with the same bytes on the links."""
        if kernel.collective is None:
            return kernel
        operation, axis, amount = kernel.collective
        ranks = self.ranks[axis]
        if operation == "all_gather":
            return dataclasses.replace(kernel, collective=("reduce_scatter", axis, amount * ranks))
        if operation == "reduce_scatter":
            return dataclasses.replace(kernel, collective=("all_gather", axis, amount / ranks))
        return kernel

    def head(self, backward: bool = False) -> list[Kernel]:
        """Last norm, output embedding and, in training, the loss (scalar: exponential; vector: maximum and sum)."""
        sequences = self.workload.batch // (self.parallel.dp * self.parallel.microbatches)
        tokens = sequences if self.workload.kind == "prefill" else self.tokens
        vocabulary = self.model.vocabulary // self.parallel.tp
        engines = {"scalar": self.scalar(tokens * vocabulary), "vector": self.vector(tokens * vocabulary, 2)}
        logits = self.product("logits", tokens, self.model.hidden, vocabulary, backward=backward, beside=engines)
        kernels = [self.residual("norm", 4 if backward else 2), *self.gather("gather"), logits]
        return [self._mirrored(kernel) for kernel in reversed(kernels)] if backward else kernels

    def update(self, shared: int, experts: int) -> list[Kernel]:
        """Gradients of so many parameters reduced over their replicas, updated, and spread again."""
        ranks, gradient = self.ranks, self.workload.gradient_bytes
        parts = shared / ranks["rp"] + experts / ranks["xp"]
        own = parts / self.servers
        moved = own * (gradient + 2 * self.width + 2 * self.workload.optimizer_bytes)
        return [
            *self.exchange("gradients", "reduce_scatter", "rp", shared * gradient),
            *(self.exchange("gradients", "reduce_scatter", "xp", experts * gradient) if experts else []),
            *self.exchange("gradients", "reduce_scatter", "efa", parts * gradient),
            Kernel("update", {"vector": self.vector(own, UPDATE_PASSES)}, bytes=moved),
            *self.exchange("parameters", "all_gather", "efa", own * self.width),
            *(self.exchange("parameters", "all_gather", "xp", experts / ranks["xp"] * self.width) if experts else []),
            *self.exchange("parameters", "all_gather", "rp", shared / ranks["rp"] * self.width),
        ]

    def layer_update(self) -> list[Kernel]:
        """The update of one layer."""
        shared, experts = layer_parameters_here(self.model, self.parallel)
        return self.update(
            shared + (0 if self.model.experts > 1 else experts), experts if self.model.experts > 1 else 0
        )
