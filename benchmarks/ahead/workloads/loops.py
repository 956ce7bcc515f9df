"""The loops: a GPT that is bound by GPU and host, a decoder in a CUDA graph, a recurrence bound by
launches, one bound by the GPU alone, and one for machines without a GPU."""

from __future__ import annotations

import nvtx
import torch
from torch import Tensor, nn
from torch.nn import functional

from perfgate import Steps, workload

VOCABULARY = 8192


class Block(nn.Module):
    """Attention and a feed-forward part, each behind its norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries, self.attended = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """One layer."""
        batch, length, width = x.shape
        split = (batch, length, 3, self.heads, width // self.heads)
        parts = self.queries(self.before_attention(x)).view(*split).permute(2, 0, 3, 1, 4)
        query, key, value = parts
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attended(found.transpose(1, 2).reshape(batch, length, width))
        added: Tensor = x + self.down(functional.gelu(self.up(self.before_forward(x))))
        return added


class Gpt(nn.Module):
    """A small GPT."""

    def __init__(self, *, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of the next token at each place."""
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        scores: Tensor = self.head(self.norm(self.blocks(x)))
        return scores


@workload(steps=40, warmup=15)
def gpt(steps: Steps) -> None:
    """Training of 55 M parameters in bf16."""
    torch.manual_seed(0)
    model = Gpt(width=768, layers=6, heads=12, length=512).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    data = torch.randint(0, VOCABULARY, (64, 16, 513)).pin_memory()
    for number in steps:
        with nvtx.annotate("load"):
            batch = data[number % 64].to("cuda", non_blocking=True)
        with nvtx.annotate("forward"), torch.autocast("cuda", torch.bfloat16):
            scores = model(batch[:, :-1])
            loss = functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())
        with nvtx.annotate("backward"):
            loss.backward()  # type: ignore[no-untyped-call]
        with nvtx.annotate("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


@workload(steps="auto", warmup=20)
def decode(steps: Steps) -> None:
    """Decoding, its forward pass as one CUDA graph."""
    torch.manual_seed(0)
    model = Gpt(width=512, layers=8, heads=8, length=256).cuda().half().eval()
    tokens = torch.randint(0, VOCABULARY, (8, 128), device="cuda")
    with torch.no_grad():
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                model(tokens)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            scores = model(tokens)
        for _ in steps:
            with nvtx.annotate("replay"):
                graph.replay()
            with nvtx.annotate("sample"):
                token = scores[:, -1].float().softmax(-1).multinomial(1)
                tokens.copy_(torch.cat([tokens[:, 1:], token], 1))


@workload(steps="auto", warmup=20)
def recurrence(steps: Steps) -> None:
    """Many tiny kernels, one behind the other."""
    torch.manual_seed(0)
    inward = torch.randn(256, 256, device="cuda") * 0.05
    onward = torch.randn(256, 256, device="cuda") * 0.05
    seen = torch.randn(64, 32, 256, device="cuda")
    for _ in steps:
        state = torch.zeros(32, 256, device="cuda")
        with nvtx.annotate("unroll"):
            for one in seen:
                state = torch.tanh(one @ inward + state @ onward)
        with nvtx.annotate("reduce"):
            state.square().mean()


@workload(steps=60, warmup=20)
def dense(steps: Steps) -> None:
    """Few long kernels, bound by the GPU's memory, whose clock holds still."""
    torch.manual_seed(0)
    held, added = (torch.randn(1 << 26, device="cuda") for _ in range(2))
    for _ in steps:
        with nvtx.annotate("add"):
            for _ in range(4):
                torch.add(held, added, alpha=1e-3, out=held)


@workload(steps=30, warmup=5)
def cpu(steps: Steps) -> None:
    """For machines without a GPU."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    held = torch.randn(200, 200)
    for _ in steps:
        for _ in range(20):
            held = (held @ held).tanh()
