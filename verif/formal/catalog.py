"""Every proof: what ``make formal`` runs. Add yours at the end."""

import concurrent.futures
import os
from collections.abc import Sequence
from functools import partial

from rich.console import Console
from rich.table import Table

from spec.core import ShareConfig
from spec.fifo import FifoConfig
from spec.parameters import lookup
from spec.results import Record, write
from verif.formal.core import SemaphoreProperties, ShareProperties
from verif.formal.engines import scalar_credit, vector_credit
from verif.formal.fifo import FifoProperties
from verif.formal.hbm import (
    MergeProperties,
    OrderProperties,
    RefreshProperties,
    SchedulerProperties,
    WindowProperties,
)
from verif.formal.hbm_banks import BankProperties
from verif.formal.link import LINK, CreditProperties, ReplayProperties, TurnProperties
from verif.formal.tensor import SMALL, TILED, ColumnProperties, HandOverProperties, SwapProperties
from verif.harness.formal import Proof, Verdict


def _fifo(depth: int) -> FifoProperties:
    return FifoProperties(FifoConfig(width=4, depth=depth))


def _share(burst: int) -> ShareProperties:
    return ShareProperties(ShareConfig(ports=3, request=2, response=1, depth=2, burst=burst))


PROOFS: list[Proof] = [
    *(Proof(f"fifo of {depth}: nothing lost, nothing twice", partial(_fifo, depth)) for depth in (1, 2, 3, 5, 8)),
    Proof("fifo of 3: fills and drains", partial(_fifo, 3), mode="cover", depth=12),
    Proof("scalar control: rows under way never exceed the queue", scalar_credit, depth=3),
    Proof("router: credits are neither lost nor doubled, no lane overflows", CreditProperties),
    Proof("router: somebody is served, and everybody's turn comes", TurnProperties),
    Proof("link: nothing lost, doubled or reordered", partial(ReplayProperties, LINK), mode="bmc", depth=12),
    Proof("link: recovers from damage", partial(ReplayProperties, LINK), mode="cover", depth=16),
    Proof("hbm banks: no command is ready before any constraint allows it", BankProperties),
    Proof("hbm scheduler: every command is ready, an old read goes first", SchedulerProperties, depth=1),
    Proof("hbm window: no line lost, doubled or changed", WindowProperties),
    Proof("hbm window: fills, and the line leaves", WindowProperties, mode="cover", depth=8),
    Proof("hbm refresh: never later than the limit, every bank in every round", RefreshProperties, depth=12),
    Proof("hbm merge: everybody's turn comes within the bound", MergeProperties),
    Proof("hbm merge: the bound is met", MergeProperties, mode="cover", depth=10),
    Proof("hbm port: responses in order, none lost or doubled", OrderProperties, mode="bmc", depth=8),
    Proof("vector control: rows under way never exceed the queue", vector_credit, depth=3),
    Proof("tensor sequencer: no column lost or doubled", partial(ColumnProperties, SMALL)),
    Proof("tensor sequencer: stationaries change hands whole", partial(SwapProperties, SMALL), depth=3),
    Proof("tensor sequencer: no sum is read too early", partial(HandOverProperties, SMALL), depth=6),
    Proof("tensor sequencer: nor where rows are split", partial(HandOverProperties, TILED), depth=6),
    Proof("semaphores: every update counts once, in its turn", SemaphoreProperties),
    Proof("semaphores: they count", SemaphoreProperties, mode="cover", depth=12),
    *(Proof(f"shared port, turns of {burst}: everybody's comes", partial(_share, burst)) for burst in (1, 3)),
    Proof("shared port: the bound is met", partial(_share, 3), mode="cover", depth=12),
    Proof("tensor sequencer: works without idling", partial(ColumnProperties, SMALL), mode="cover", depth=10),
]


def run_proofs(names: Sequence[str] | None = None, *, console: Console | None = None) -> list[Verdict]:
    """Run the named proofs (all without a name) on the machine's cores; results go to ``build/formal``."""
    known = {proof.name: proof for proof in PROOFS}
    chosen = [lookup("proof", known, name) for name in names] if names else PROOFS
    console = console or Console()
    with (
        console.status(f"proving {len(chosen)} properties"),
        concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool,
    ):
        verdicts = list(pool.map(Proof.run, chosen))
    records = []
    for verdict in verdicts:
        passed = int(verdict.result == "pass")
        records.append(Record(verdict.name, f"{verdict.mode}, depth {verdict.depth}: proven", passed, target=1))
        records.append(
            Record(verdict.name, f"{verdict.mode}, depth {verdict.depth}: time", round(verdict.seconds, 1), "s")
        )
    write("formal", "proofs", records)
    return verdicts


def table(verdicts: Sequence[Verdict]) -> Table:
    """The verdicts as one table."""
    shown = Table("proof", "mode", "depth", "seconds", "result", "why", title="Proofs")
    for verdict in verdicts:
        colour = "green" if verdict.result == "pass" else "bold red"
        seconds = f"{verdict.seconds:.1f}"
        row = (
            verdict.name,
            verdict.mode,
            str(verdict.depth),
            seconds,
            f"[{colour}]{verdict.result}[/]",
            verdict.detail,
        )
        shown.add_row(*row)
    return shown
