"""Capture does not know one function of a model of 200 lines.

    DYNAMO_FAULT='unsupported:op=atan2' python unsupported_in_200_lines.py
"""

import torch
import torch.nn.functional as F

import dynamo


class Embedding(torch.nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.words = torch.nn.Embedding(words, width)
        self.places = torch.nn.Parameter(torch.zeros(32, width))
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, tokens):
        length = tokens.shape[1]
        h = self.words(tokens) + self.places[:length]
        return self.norm(h)


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.size = width // heads
        self.query = torch.nn.Linear(width, width)
        self.key = torch.nn.Linear(width, width)
        self.value = torch.nn.Linear(width, width)
        self.out = torch.nn.Linear(width, width)

    def split(self, h):
        batch, length, _ = h.shape
        return h.view(batch, length, self.heads, self.size).transpose(1, 2)

    def forward(self, h, mask):
        q = self.split(self.query(h))
        k = self.split(self.key(h))
        v = self.split(self.value(h))
        scores = q @ k.transpose(-2, -1) / self.size**0.5
        scores = scores.masked_fill(~mask, float("-inf"))
        mixed = scores.softmax(-1) @ v
        batch, _, length, _ = mixed.shape
        joined = mixed.transpose(1, 2).reshape(batch, length, self.heads * self.size)
        return self.out(joined)


class Rotation(torch.nn.Module):
    """Angles of pairs of features, as weights."""

    def __init__(self, width):
        super().__init__()
        self.mix = torch.nn.Linear(width // 2, width // 2)
        self.scale = torch.nn.Parameter(torch.ones(width // 2))

    def forward(self, h):
        first, second = h.chunk(2, dim=-1)
        length = (first.square() + second.square()).sqrt()
        angle = torch.atan2(second, first + 1e-6)
        turned = self.mix(angle * self.scale)
        first = length * torch.cos(turned)
        second = length * torch.sin(turned)
        return torch.cat([first, second], dim=-1)


class Gated(torch.nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.up = torch.nn.Linear(width, inner)
        self.gate = torch.nn.Linear(width, inner)
        self.down = torch.nn.Linear(inner, width)
        self.drop = torch.nn.Dropout(0.1)

    def forward(self, h):
        up = self.up(h)
        gate = F.silu(self.gate(h))
        inner = self.drop(up * gate)
        return self.down(inner)


class Block(torch.nn.Module):
    def __init__(self, width, heads, turns):
        super().__init__()
        self.before = torch.nn.LayerNorm(width)
        self.between = torch.nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.rotation = Rotation(width) if turns else None
        self.gated = Gated(width, 2 * width)

    def forward(self, h, mask):
        seen = self.before(h)
        if self.rotation is not None:
            seen = self.rotation(seen)
        h = h + self.attention(seen, mask)
        h = h + self.gated(self.between(h))
        return h


class Pool(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.score = torch.nn.Linear(width, 1)

    def forward(self, h, lengths):
        places = torch.arange(h.shape[1])
        inside = places[None, :] < lengths[:, None]
        scores = self.score(h).squeeze(-1)
        scores = torch.where(inside, scores, torch.full_like(scores, -1e9))
        weights = scores.softmax(-1)
        return (h * weights[:, :, None]).sum(1)


class Head(torch.nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.first = torch.nn.Linear(width, width)
        self.norm = torch.nn.LayerNorm(width)
        self.last = torch.nn.Linear(width, classes)

    def forward(self, pooled):
        h = F.gelu(self.first(pooled))
        h = self.norm(h)
        return self.last(h)


class Classifier(torch.nn.Module):
    def __init__(self, words=100, width=32, heads=4, depth=3, classes=5):
        super().__init__()
        self.embedding = Embedding(words, width)
        self.blocks = torch.nn.ModuleList()
        for number in range(depth):
            self.blocks.append(Block(width, heads, turns=number == 1))
        self.pool = Pool(width)
        self.head = Head(width, classes)
        self.temperature = torch.nn.Parameter(torch.tensor(1.0))

    def mask(self, tokens, lengths):
        length = tokens.shape[1]
        rows = torch.arange(length)
        causal = rows[:, None] >= rows[None, :]
        inside = rows[None, :] < lengths[:, None]
        return causal[None, None] & inside[:, None, None, :]

    def forward(self, tokens, lengths):
        h = self.embedding(tokens)
        mask = self.mask(tokens, lengths)
        for block in self.blocks:
            h = block(h, mask)
        pooled = self.pool(h, lengths)
        logits = self.head(pooled) / self.temperature
        return logits


def batch(size=4, length=12, words=100):
    tokens = torch.randint(0, words, (size, length))
    lengths = torch.randint(length // 2, length + 1, (size,))
    labels = torch.randint(0, 5, (size,))
    return tokens, lengths, labels


def accuracy(logits, labels):
    best = logits.argmax(-1)
    right = best == labels
    return right.float().mean().item()


def evaluate(model, batches):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for tokens, lengths, labels in batches:
            logits = model(tokens, lengths)
            loss = F.cross_entropy(logits, labels)
            total += loss.item() + accuracy(logits, labels)
    return total / len(batches)


def main():
    torch.manual_seed(0)
    model = Classifier()
    compiled = dynamo.compile(model, fullgraph=True)
    batches = [batch() for _ in range(2)]
    before = evaluate(compiled, batches)
    print(f"{before:.3f}")


if __name__ == "__main__":
    main()
