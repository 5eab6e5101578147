"""Write a transformer operator by operator: linear layers, norms, attention, experts, as PyTorch runs them.

Every tensor is (rows, width): rows are the tokens of all sequences of the micro-batch. Flops are those that torch's
counter counts, 2 · rows · inner · outer of a product; other operators have none and cost their bytes. Attention is one
fused kernel (Dao et al., "FlashAttention", NeurIPS 2022), which does the products of its scores again in the backward
pass.
"""

from dataclasses import dataclass

from solvers.importers.network import Network, NetworkBuilder
from solvers.importers.workload import Mode, Tied


@dataclass(frozen=True, slots=True)
class Tensor:
    """The output of an operator: `rows` tokens of `width` features."""

    op: int
    rows: int
    width: int


@dataclass(frozen=True, slots=True)
class Span:
    """How far attention looks: each of `queries` tokens of a sequence at `keys` others, `cached` of them from a cache.

    `cache` is the number of tokens of a sequence whose keys and values are kept for the next run.
    """

    queries: int
    keys: int
    cached: int = 0
    cache: int = 0


class Writer:
    """Adds the operators of a network on `batch` sequences; `layer` is the block that the next ones belong to."""

    def __init__(self, name: str, batch: int, mode: Mode, tied: Tied) -> None:
        self.net = NetworkBuilder(name, batch)
        self.batch, self.mode, self.tied = batch, mode, tied

    def begin(self, layer: str) -> None:
        """Start a layer."""
        self.net.layer = layer

    def network(self) -> Network:
        """Return what was written."""
        return self.net.network()

    def lookup(self, name: str, table: int, rows: int, width: int, *, like: Tensor | None = None) -> Tensor:
        """Look up a row of a table for each token; `like` has the table already."""
        shared = like is not None and self.tied is Tied.SHARE
        op = self.net.add(
            name,
            (),
            flops=0,
            elements=rows * width,
            parameters=0 if shared else table * width,
            weight_reads=min(table, rows) * width,
            tied_to=like.op if like is not None and shared else None,
        )
        return Tensor(op, rows, width)

    def linear(
        self, name: str, x: Tensor, width: int, *, bias: bool = False, like: Tensor | None = None, unread: int = 0
    ) -> Tensor:
        """Multiply with a matrix, and add a bias in the same kernel; `like` has the matrix already.

        `unread` parameters are held beside these and never read.
        """
        shared = like is not None and self.tied is Tied.SHARE
        matrix, vector = x.width * width, width * bias
        op = self.net.add(
            name,
            (x.op,),
            flops=2 * x.rows * x.width * width,
            elements=x.rows * width,
            parameters=unread + (vector if shared else matrix + vector),
            weight_reads=matrix + vector,
            is_dense=True,
            keeps_inputs=True,
            tied_to=like.op if like is not None and shared else None,
        )
        return Tensor(op, x.rows, width)

    def per_head(self, name: str, x: Tensor, heads: int, inner: int, outer: int, beside: int = 0) -> Tensor:
        """Multiply each head's `inner` features with a matrix of its own; `beside` more of them pass as they are."""
        op = self.net.add(
            name,
            (x.op,),
            flops=2 * x.rows * heads * inner * outer,
            elements=x.rows * heads * (outer + beside),
            parameters=heads * inner * outer,
            is_dense=True,
            keeps_inputs=True,
        )
        return Tensor(op, x.rows, heads * (outer + beside))

    def patches(self, name: str, rows: int, inner: int, width: int, x: Tensor | None = None) -> Tensor:
        """Convolve: `rows` patches of `inner` numbers each, with a bias; without x on an input of the network."""
        op = self.net.add(
            name,
            () if x is None else (x.op,),
            flops=2 * rows * inner * width,
            elements=rows * width,
            parameters=(inner + 1) * width,
            input_reads=rows * inner if x is None else None,
            is_dense=True,
            keeps_inputs=x is not None,
        )
        return Tensor(op, rows, width)

    def norm(self, name: str, x: Tensor, *, bias: bool = False, parameters: int | None = None) -> Tensor:
        """Normalise; a layer norm has a bias, a root-mean-square norm has not."""
        own = x.width if parameters is None else parameters
        op = self.net.add(
            name, (x.op,), flops=0, elements=x.rows * x.width, parameters=own * (1 + bias), keeps_inputs=True
        )
        return Tensor(op, x.rows, x.width)

    def pointwise(
        self,
        name: str,
        *inputs: Tensor,
        width: int | None = None,
        parameters: int = 0,
        keeps_inputs: bool = False,
        keeps_output: bool = False,
    ) -> Tensor:
        """Work on each element of one or several tensors of the same rows."""
        first = inputs[0]
        own = first.width if width is None else width
        op = self.net.add(
            name,
            tuple(x.op for x in inputs),
            flops=0,
            elements=first.rows * own,
            parameters=parameters,
            keeps_inputs=keeps_inputs,
            keeps_output=keeps_output,
        )
        return Tensor(op, first.rows, own)

    def add(self, name: str, x: Tensor, y: Tensor) -> Tensor:
        """Add two tensors; the gradient passes unchanged."""
        op = self.net.add(name, (x.op, y.op), flops=0, elements=x.rows * x.width, passes_gradient=True)
        return Tensor(op, x.rows, x.width)

    def with_positions(self, name: str, x: Tensor, rows: int, parameters: int) -> Tensor:
        """Add learned positions to all rows, and a token before each sequence where there are more rows than x has."""
        op = self.net.add(name, (x.op,), flops=0, elements=rows * x.width, parameters=parameters)
        return Tensor(op, rows, x.width)

    def select(self, name: str, x: Tensor, rows: int) -> Tensor:
        """Take some rows."""
        op = self.net.add(name, (x.op,), flops=0, elements=rows * x.width, input_reads=rows * x.width)
        return Tensor(op, rows, x.width)

    def mean(self, name: str, x: Tensor, rows: int) -> Tensor:
        """Average runs of rows, so that so many are left."""
        op = self.net.add(name, (x.op,), flops=0, elements=rows * x.width)
        return Tensor(op, rows, x.width)

    def attention(
        self,
        name: str,
        inputs: tuple[Tensor, ...],
        span: Span,
        *,
        heads: int,
        key_width: int,
        value_width: int,
        cache_width: int = 0,
        extra: Tensor | None = None,
    ) -> Tensor:
        """Attend: `inputs` are queries, keys and values, in one tensor or several, and `extra` is added to the scores.

        `key_width` and `value_width` are of one head, `cache_width` what the cache keeps of one token.
        """
        pairs = self.batch * heads * span.queries * span.keys
        rows = self.batch * span.queries
        op = self.net.add(
            name,
            tuple(x.op for x in (*inputs, *((extra,) if extra else ()))),
            flops=2 * pairs * (key_width + value_width),
            elements=rows * heads * value_width,
            is_dense=True,
            keeps_inputs=True,
            keeps_output=True,
            recomputed_flops=2 * pairs * key_width,
            cache=self.batch * span.cache * cache_width,
            cache_reads=self.batch * span.cached * cache_width,
        )
        return Tensor(op, rows, heads * value_width)

    def experts(self, name: str, x: Tensor, *, experts: int, per_token: int, width: int) -> Tensor:
        """Route each token to `per_token` experts, gated feed-forward parts, and add what they return by weight.

        The experts' products are grouped, one operator for all. Tokens are taken to spread evenly: as many experts are
        read as tokens are routed to, all of them at most.
        """
        router = self.net.add(
            f"{name} router",
            (x.op,),
            flops=2 * x.rows * x.width * experts,
            elements=x.rows * experts,
            parameters=x.width * experts,
            is_dense=True,
            keeps_inputs=True,
            keeps_output=True,
        )
        routed = x.rows * per_token
        read, idle = min(experts, routed), experts - per_token

        def product(what: str, inputs: tuple[int, ...], inner: int, outer: int) -> int:
            return self.net.add(
                f"{name} {what}",
                inputs,
                flops=2 * routed * inner * outer,
                elements=routed * outer,
                parameters=experts * inner * outer,
                weight_reads=read * inner * outer,
                input_reads=routed * inner,
                is_dense=True,
                keeps_inputs=True,
                idle_parameters=idle * inner * outer,
            )

        y = product("experts up", (x.op, router), x.width, 2 * width)
        y = self.net.add(f"{name} experts gate", (y,), flops=0, elements=routed * width, keeps_inputs=True)
        y = product("experts down", (y,), width, x.width)
        sums = self.net.add(f"{name} experts sum", (y, router), flops=0, elements=x.rows * x.width, keeps_inputs=True)
        return Tensor(sums, x.rows, x.width)

    def loss(self, x: Tensor) -> None:
        """Add cross entropy over the logits, in the layer they are in: one number per member of the micro-batch."""
        self.net.add(f"{self.net.layer} loss", (x.op,), flops=0, elements=self.batch, keeps_inputs=True)
