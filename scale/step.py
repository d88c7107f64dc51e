"""One step of a workload on a machine: which blocks of kernels run where, in which order, and what the step takes.

Pipeline stages follow one-forward-one-backward. Gradients are reduced, parameters updated and spread as soon as a
layer's last backward is done, behind everything else.
"""

import dataclasses
import time
from collections.abc import Callable

from scale.costs import operands
from scale.engine import Timeline
from scale.fabric import Fabric
from scale.kernels import Builder, Kernel
from scale.network import Reals
from scale.peak import chip_pflops
from scale.stages import Stages
from spec.models import ModelConfig
from spec.parallelism import Footprint, ParallelConfig, WorkloadConfig, check_layout
from spec.parameters import ParameterError

Progress = Callable[[int, int], None]
"""Called with blocks done and blocks in all, while the step is laid out."""

Blocks = list[tuple[str, int]]
"""``F`` or ``B`` and the microbatch, in order."""


@dataclasses.dataclass(frozen=True, eq=False)
class StepResult:
    """What a step takes and what it uses."""

    seconds: float
    tokens: int
    chips: int
    flops: float
    """Useful operations of all chips."""
    peak_flops: float
    """Operations a second of all arrays in the format of the workload."""
    hbm_bytes: float
    """Bytes all memories move."""
    peak_hbm: float
    """Bytes a second of all memories, before any efficiency."""
    link_bytes: Reals
    """Bytes each link of one server carries."""
    link_widths: Reals
    efa_bytes: float
    """Bytes a chip sends over EFA."""
    footprint: Footprint
    timeline: Timeline
    collectives: dict[tuple[str, str, str], float]
    """Seconds a stage spends in each ``(operation, axis, algorithm)``, side by side or not."""
    model_seconds: float
    """Wall time of the model itself."""

    @property
    def mfu(self) -> float:
        """Useful operations over what the arrays could have done."""
        return self.flops / (self.peak_flops * self.seconds)

    @property
    def mbu(self) -> float:
        """Bytes moved by the memories over what they could have moved."""
        return self.hbm_bytes / (self.peak_hbm * self.seconds)

    @property
    def link_use(self) -> Reals:
        """Share of the step each link is busy at full rate."""
        return self.link_bytes / self.link_widths / self.seconds


def order(stage: int, stages: int, parts: int) -> Blocks:
    """One forward, one backward: later stages start backward at once, earlier ones first fill the pipeline."""
    ahead = min(stages - 1 - stage, parts)
    blocks: Blocks = [("F", part) for part in range(ahead)]
    for part in range(ahead, parts):
        blocks += [("F", part), ("B", part - ahead)]
    return blocks + [("B", part) for part in range(parts - ahead, parts)]


class Step:
    """A workload laid over ``servers`` machines that share the data-parallel ranks over EFA."""

    def __init__(
        self,
        fabric: Fabric,
        model: ModelConfig,
        parallel: ParallelConfig,
        workload: WorkloadConfig,
        *,
        servers: int = 1,
        every_chip: bool = False,
    ) -> None:
        if parallel.dp % servers:
            raise ParameterError(f"parallel: dp = {parallel.dp} does not divide by servers = {servers}")
        chips = fabric.chips * servers
        self.footprint = check_layout(model, parallel, workload, chips=chips, hbm_bytes=fabric.hbm_bytes)
        if parallel.dp // servers % parallel.ep:
            inside = f"dp / servers = {parallel.dp // servers}"
            raise ParameterError(f"parallel: {inside} does not divide by ep = {parallel.ep}: experts stay in a server")
        self.fabric, self.model, self.parallel, self.workload, self.servers = fabric, model, parallel, workload, servers
        self.builder = Builder(fabric.machine.chip, model, parallel, workload, servers)
        self.stages = Stages(fabric, self.builder, every_chip=every_chip)
        self._layers: dict[tuple[int, bool], list[Kernel]] = {}

    def run(self, progress: Progress | None = None) -> StepResult:
        """Lay the step out and serve it."""
        started = time.perf_counter()
        self._lay_out(progress)
        stages, chip, workload = self.stages, self.fabric.machine.chip, self.workload
        timeline = stages.model.run()
        chips = self.fabric.chips * self.servers
        copies = stages.chips_each * self.servers
        return StepResult(
            seconds=timeline.seconds,
            tokens=self.workload.batch * (1 if self.workload.kind == "decode" else self.workload.sequence),
            chips=chips,
            flops=stages.flops * copies,
            peak_flops=chip_pflops(chip, operands(chip, workload.weight_bytes).rate) * 1e15 * chips,
            hbm_bytes=stages.hbm_bytes * copies,
            peak_hbm=chip.hbm_tbytes * 1e12 * chips,
            link_bytes=stages.link_bytes,
            link_widths=self.fabric.network.widths,
            efa_bytes=stages.efa_bytes / self.parallel.pp,
            footprint=self.footprint,
            timeline=timeline,
            collectives={key: seconds / self.parallel.pp for key, seconds in stages.used.items()},
            model_seconds=time.perf_counter() - started,
        )

    def _lay_out(self, progress: Progress | None) -> None:
        """Emit every block once the block it receives from is there."""
        train, stages, parts = self.workload.kind == "train", self.parallel.pp, self.parallel.microbatches
        orders = [order(s, stages, parts) if train else [("F", part) for part in range(parts)] for s in range(stages)]
        arrived: dict[tuple[str, int, int], list[list[int]]] = {}
        positions, done, total = [0] * stages, 0, sum(map(len, orders))
        while done < total:
            for stage in range(stages):
                while positions[stage] < len(orders[stage]):
                    kind, part = orders[stage][positions[stage]]
                    source = stage - 1 if kind == "F" else stage + 1
                    if 0 <= source < stages and (kind, stage, part) not in arrived:
                        break
                    for chip, sends in zip(
                        self.stages.chips[stage], arrived.pop((kind, stage, part), []), strict=False
                    ):
                        chip.last = [*chip.last, *sends]
                    self._forward(stage) if kind == "F" else self._backward(stage, part == parts - 1)
                    following = stage + 1 if kind == "F" else stage - 1
                    if 0 <= following < stages:
                        amount = self.builder.tokens * self.model.hidden * self.builder.width / self.parallel.tp
                        arrived[kind, following, part] = self.stages.send(stage, following, amount)
                    positions[stage] += 1
                    done += 1
                    if progress:
                        progress(done, total)

    def _numbers(self, stage: int) -> range:
        """Layers of a stage."""
        layers = self.model.layers // self.parallel.pp
        return range(stage * layers, (stage + 1) * layers)

    def _forward(self, stage: int) -> None:
        """One microbatch forward."""
        for number in self._numbers(stage):
            self.stages.run(stage, self._layer(number))
        if stage == self.parallel.pp - 1:
            self.stages.run(stage, self.builder.head())

    def _backward(self, stage: int, last: bool) -> None:
        """One microbatch backward; with the last one, the update of each parameter."""
        embedding = self.builder.update(self.model.embedding_parameters // self.parallel.tp, 0)
        if stage == self.parallel.pp - 1:
            self.stages.run(stage, self.builder.head(backward=True))
            if last:
                self.stages.run(stage, embedding, self.stages.fork(stage), priority=1)
        for number in reversed(self._numbers(stage)):
            self.stages.run(stage, self._layer(number, backward=True))
            if last:
                self.stages.run(stage, self.builder.layer_update(), self.stages.fork(stage), priority=1)
        if last and stage == 0 and not self.model.tied:
            self.stages.run(stage, embedding, self.stages.fork(stage), priority=1)

    def _layer(self, number: int, backward: bool = False) -> list[Kernel]:
        """Kernels of a layer; backward runs it forward again first where activations are recomputed."""
        key = (number % self.builder.period, backward)
        if key not in self._layers:
            kernels = self.builder.layer(key[0], backward)
            if backward and self.workload.recompute:
                again = [dataclasses.replace(kernel, flops=0.0) for kernel in self.builder.layer(key[0])]
                kernels = [*again, *kernels]
            self._layers[key] = kernels
        return self._layers[key]
