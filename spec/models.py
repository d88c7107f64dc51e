"""Transformer models as data: their public shapes, and the parameters that follow from these.

Sources are the papers and the public ``config.json`` of each release (``source``). Parameter counts are computed from
the shapes; a test holds them against the published counts.
"""

import dataclasses

from spec.parameters import Parameters, lookup, parameter, refuse


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig(Parameters):
    """A decoder-only transformer with grouped-query attention and gated feed-forward, dense or mixture of experts."""

    layers: int = parameter(unit="layers", low=1, high=1024, doc="transformer blocks")
    hidden: int = parameter(unit="elements", low=1, high=1 << 20, doc="width of the residual stream")
    heads: int = parameter(unit="heads", low=1, high=1024, doc="query heads")
    kv_heads: int = parameter(unit="heads", low=1, high=1024, doc="key and value heads")
    head_size: int = parameter(unit="elements", low=1, high=4096, doc="width of one head")
    ffn: int = parameter(unit="elements", low=1, high=1 << 20, doc="width of the feed-forward, of one expert")
    vocabulary: int = parameter(unit="tokens", low=1, high=1 << 24, doc="tokens")
    experts: int = parameter(1, unit="experts", low=1, high=4096, doc="experts of a layer; 1 is a dense layer")
    active_experts: int = parameter(1, unit="experts", low=1, high=4096, doc="experts a token visits")
    window: int = parameter(
        0, unit="tokens", low=0, high=1 << 24, doc="attention window of the windowed layers; 0: none"
    )
    window_every: int = parameter(1, unit="layers", low=1, high=1024, doc="one layer in so many is windowed")
    biases: bool = parameter(False, doc="whether projections, router and experts carry biases, attention a sink a head")
    tied: bool = parameter(False, doc="whether input and output embedding are one")
    source: str = parameter("", doc="where the shape was published")

    def check(self) -> None:
        """Refuse heads that cannot be grouped and more active experts than there are."""
        if self.heads % self.kv_heads:
            raise refuse("ModelConfig", "kv_heads", self.kv_heads, f"a divisor of heads = {self.heads}")
        if self.active_experts > self.experts:
            raise refuse("ModelConfig", "active_experts", self.active_experts, f"at most experts = {self.experts}")

    @property
    def query_width(self) -> int:
        """Elements of all query heads."""
        return self.heads * self.head_size

    @property
    def kv_width(self) -> int:
        """Elements of all key heads; as many again are values."""
        return self.kv_heads * self.head_size

    @property
    def attention_parameters(self) -> int:
        """Parameters of one layer's attention."""
        q, kv, h = self.query_width, self.kv_width, self.hidden
        return h * (q + 2 * kv) + q * h + (q + 2 * kv + h + self.heads if self.biases else 0)

    @property
    def expert_parameters(self) -> int:
        """Parameters of one expert: gate, up and down projection."""
        return 3 * self.hidden * self.ffn + (2 * self.ffn + self.hidden if self.biases else 0)

    @property
    def router_parameters(self) -> int:
        """Parameters that choose the experts of a token; none in a dense layer."""
        return 0 if self.experts == 1 else self.experts * (self.hidden + self.biases)

    @property
    def norm_parameters(self) -> int:
        """Parameters of one layer's two norms."""
        return 2 * self.hidden

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer, all experts included."""
        shared = self.attention_parameters + self.router_parameters + self.norm_parameters
        return shared + self.experts * self.expert_parameters

    @property
    def embedding_parameters(self) -> int:
        """Parameters of one embedding table."""
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """Parameters of the whole model."""
        return self.layers * self.layer_parameters + (1 if self.tied else 2) * self.embedding_parameters + self.hidden

    @property
    def active_parameters(self) -> int:
        """Parameters one token meets: the experts it visits, without the input embedding, which is only looked up."""
        idle = self.layers * (self.experts - self.active_experts) * self.expert_parameters
        return self.parameters - idle - (0 if self.tied else self.embedding_parameters)

    def windowed(self, layer: int) -> bool:
        """Whether a layer attends to its window only."""
        return self.window > 0 and layer % self.window_every == 0


def _llama(layers: int, hidden: int, heads: int, ffn: int) -> ModelConfig:
    return ModelConfig(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=8,
        head_size=128,
        ffn=ffn,
        vocabulary=128_256,
        source="arXiv 2407.21783 (The Llama 3 Herd of Models), table 3; meta-llama/Llama-3.1 config.json",
    )


def _gpt_oss(layers: int, experts: int) -> ModelConfig:
    return ModelConfig(
        layers=layers,
        hidden=2880,
        heads=64,
        kv_heads=8,
        head_size=64,
        ffn=2880,
        vocabulary=201_088,
        experts=experts,
        active_experts=4,
        window=128,
        window_every=2,
        biases=True,
        source="arXiv 2508.10925 (gpt-oss model card), table 1; openai/gpt-oss config.json",
    )


MODELS: dict[str, ModelConfig] = {
    "llama3.1-8b": _llama(32, 4096, 32, 14_336),
    "llama3.1-70b": _llama(80, 8192, 64, 28_672),
    "llama3.1-405b": _llama(126, 16_384, 128, 53_248),
    "gpt-oss-20b": _gpt_oss(24, 32),
    "gpt-oss-120b": _gpt_oss(36, 128),
    "tiny-dense": ModelConfig(
        layers=2, hidden=32, heads=4, kv_heads=4, head_size=8, ffn=64, vocabulary=64, source="made up, for tests"
    ),
}
"""Models by the name the command line takes."""


def model_named(name: str) -> ModelConfig:
    """The model called ``name``; an unknown name is refused with the list of known ones."""
    model: ModelConfig = lookup("model", MODELS, name)
    return model
