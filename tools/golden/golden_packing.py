#!/usr/bin/env python3
# Documents one by one, the same packed into one row, and padded on the left: golden_packing.py [NAME...]
# -> tests/golden/models/<name>/packing.safetensors. Needs the folders that golden.py makes (golden.py also calls it).
#
# Tensors: doc<i>.input_ids [t], doc<i>.labels [t], doc<i>.logits [t,V], doc<i>.loss_sum;
# packed.{input_ids, position_ids, segments, labels} [T] (segments count from 1; the label of a document's first token
# is -100, so that nothing is predicted across documents), packed.logits [T,V], packed.loss (mean), grad.<name> of
# packed.loss (llama only); left.{input_ids, attention_mask, position_ids} [D,T]: each document padded on the left to
# the packed length.
import sys

import torch

import golden_common as common

NAMES = ["llama", "mistral-sliding", "qwen3-sliding"]
LENGTHS = [7, 11, 6]
IGNORE = -100
CLOSE = 2e-6  # between the ways of computing the same thing, relative to the largest logit


def documents(vocabulary, seed=77):
    generator = torch.Generator().manual_seed(seed)
    docs = []
    for length in LENGTHS:
        ids = torch.randint(3, vocabulary, (length,), generator=generator)
        labels = ids.clone()
        labels[: length // 3] = IGNORE  # the prompt
        docs.append((ids, labels))
    return docs


def loss_sum(logits, labels):
    """Labels unshifted: position t predicts labels[t + 1]."""
    return torch.nn.functional.cross_entropy(logits[:-1], labels[1:], ignore_index=IGNORE, reduction="sum")


def block_mask(segments, window):
    t = torch.arange(len(segments))
    seen = (segments[:, None] == segments[None, :]) & (t[None, :] <= t[:, None])
    if window:
        seen &= t[None, :] > t[:, None] - window
    return torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None]


def masks(config, segments):
    """What each layer may see, in the form that the model takes: a 4-D mask, or one per layer type."""
    window = getattr(config, "sliding_window", None)
    if getattr(config, "layer_types", None) is None:
        return block_mask(segments, window)
    return {"full_attention": block_mask(segments, None), "sliding_attention": block_mask(segments, window)}


def packed_row(docs):
    segments = torch.cat([torch.full((len(ids),), i + 1) for i, (ids, _) in enumerate(docs)])
    positions = torch.cat([torch.arange(len(ids)) for ids, _ in docs])
    labels = torch.cat([torch.cat([torch.tensor([IGNORE]), labels[1:]]) for _, labels in docs])
    return {
        "input_ids": torch.cat([ids for ids, _ in docs]),
        "position_ids": positions,
        "segments": segments,
        "labels": labels,
    }


def left_padded(docs):
    length = sum(LENGTHS)
    ids, mask = torch.zeros(len(docs), length, dtype=torch.int64), torch.zeros(len(docs), length, dtype=torch.int64)
    for row, (doc, _) in enumerate(docs):
        ids[row, length - len(doc) :], mask[row, length - len(doc) :] = doc, 1
    return {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}


def require_close(what, got, expected):
    worst = float((got - expected).abs().max())
    if worst > CLOSE * max(1.0, float(expected.abs().max())):
        raise SystemExit(f"{what}: differs by {worst:.2e}")


def make(name):
    folder = common.ROOT / "models" / name
    model = common.load_model(folder)
    docs = documents(model.config.vocab_size)
    tensors, alone = {}, []
    with torch.no_grad():
        for i, (ids, labels) in enumerate(docs):
            logits = model(input_ids=ids[None], use_cache=False).logits[0]
            alone.append(logits)
            tensors |= {
                f"doc{i}.input_ids": ids,
                f"doc{i}.labels": labels,
                f"doc{i}.logits": logits,
                f"doc{i}.loss_sum": loss_sum(logits, labels),
            }
    row = packed_row(docs)
    logits = model(
        input_ids=row["input_ids"][None],
        position_ids=row["position_ids"][None],
        attention_mask=masks(model.config, row["segments"]),
        use_cache=False,
    ).logits[0]
    targets = int((row["labels"][1:] != IGNORE).sum())
    loss = loss_sum(logits, row["labels"]) / targets
    loss.backward()
    require_close(f"{name}: packed logits", logits.detach(), torch.cat(alone))
    require_close(
        f"{name}: packed loss", loss.detach() * targets, sum(tensors[f"doc{i}.loss_sum"] for i in range(len(docs)))
    )
    with torch.no_grad():  # transformers' own packing: no mask, positions that restart
        own = model(input_ids=row["input_ids"][None], position_ids=row["position_ids"][None], use_cache=False).logits[0]
        require_close(f"{name}: transformers' own packing", own, logits.detach())
        left = left_padded(docs)
        padded = model(**left, use_cache=False).logits
    for i, (ids, _) in enumerate(docs):
        require_close(f"{name}: left padding of document {i}", padded[i, -len(ids) :], alone[i])
    tensors |= {f"packed.{key}": value for key, value in row.items()}
    tensors |= {"packed.logits": logits, "packed.loss": loss} | {f"left.{key}": value for key, value in left.items()}
    tensors |= {f"grad.{key}": weight.grad for key, weight in model.named_parameters()} if name == "llama" else {}
    common.write_safetensors(
        folder / "packing.safetensors", tensors, {"name": name, "targets": targets}, "tools/golden/golden_packing.py"
    )
    print(f"{name:32} packing  loss {float(loss.detach()):.6f} over {targets} targets")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or NAMES:
        make(wanted)
