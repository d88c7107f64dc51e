"""Control of vector and scalar engine: rows under way never exceed the output queue, whatever the streams do."""

from typing import Any, cast

from amaranth.hdl import Assert, Assume, Cover, Module, Signal

from hdl.scalar.control import Control as ScalarControl
from hdl.vector.control import Control as VectorControl
from spec.scalar import ScalarConfig
from spec.vector import VectorConfig
from verif.harness.formal import Properties


class CreditProperties(Properties):
    """Counts what the control has issued and the output queue has not returned.

    With the control's free places that makes the depth of the queue, always: the relation is inductive, so the proof
    holds for every number of cycles. The queue returns only what it was given.
    """

    def __init__(self, control: ScalarControl | VectorControl) -> None:
        self.control = cast(Any, control)
        c = self.control
        operands = (c.operand_valid,) if isinstance(control, ScalarControl) else (c.left_valid, c.right_valid)
        self.inputs = (
            c.instructions.valid,
            c.instructions.payload.as_value(),
            c.constants.valid,
            c.constants.payload.as_value(),
            c.returned,
            *operands,
        )

    def elaborate(self, platform: Any) -> Module:
        """The control, the count, the properties."""
        m = Module()
        control = self.control
        depth = control.config.latency + 1
        m.submodules.control = platform.place(control)
        token = control.token
        issued = token.row | token.last | getattr(token, "issued", 0) if self._vector else token.row | token.last
        outstanding = Signal(range(depth + 2))
        m.d.comb += Assume(~control.returned | (outstanding != 0), "the queue returns what it was given")
        m.d.sync += outstanding.eq(outstanding + issued - control.returned)
        m.d.comb += [
            Assert(outstanding + control.places == depth, "issued, returned and free places agree"),
            Assert(outstanding <= depth, "never more under way than the queue holds"),
            Assert(~issued | (outstanding != depth), "issues only into a free place"),
            Assert(~(token.last & (token.code != 0)) | ~token.row, "what is refused gives no row"),
            Cover(token.last & (token.code != 0), "an instruction is refused"),
            Cover(outstanding == 3, "several rows are under way"),
        ]
        if self._vector:
            m.d.comb += [
                Assert(~control.take_left | (control.left_valid & issued), "a left row is taken when issued"),
                Assert(~control.take_right | (control.right_valid & issued), "a right row is taken when issued"),
            ]
        else:
            taken, state = control.take & control.operand_valid, control.state
            m.d.comb += [
                Assert(~state["active"] | (state["remaining"] != 0), "what is active has a row left"),
                Assert(~state["active"] | (state["error"] == 0) | (state["remaining"] == 1), "refused once"),
                Assert(~taken | token.row, "a row that is taken enters the lanes"),
                Assert(~token.row | token.read | taken, "a row that enters the lanes was taken"),
            ]
        return m

    @property
    def _vector(self) -> bool:
        return isinstance(self.control, VectorControl)


def scalar_credit() -> CreditProperties:
    """The scalar engine's control, one lane."""
    return CreditProperties(ScalarControl(ScalarConfig(lanes=1, functions=("copy", "exp"), formats=("fp32", "bf16"))))


def vector_credit() -> CreditProperties:
    """The vector engine's control, one lane, operations of two cycles so that its pace matters."""
    return CreditProperties(VectorControl(VectorConfig(lanes=1, formats=("fp32", "bf16"), operation_stages=2)))
