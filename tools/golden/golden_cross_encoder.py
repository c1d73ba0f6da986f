#!/usr/bin/env python3
# A cross-encoder as sentence-transformers has it: golden_cross_encoder.py -> tests/golden/train/cross_encoder/
# (development time only). The folder that it has written, the scores that it gives pairs, and steps of SGD with its
# BinaryCrossEntropyLoss.
import json
import shutil

import torch
import transformers
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

import golden_common as common
import golden_embedding as base

FOLDER = common.ROOT / "train" / "cross_encoder"
STEPS, BATCH, RATE = 4, 6, 0.01


def tell_types(folder):
    """As BERT's own class of tokenizers has it."""
    file = folder / "tokenizer_config.json"
    told = {**json.loads(file.read_text()), "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    file.write_text(json.dumps(told, indent=2) + "\n")


def make_folder():
    tokenizer = base.bert_tokenizer()
    torch.manual_seed(79)
    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=len(tokenizer), hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=32, max_position_embeddings=64, num_labels=1, initializer_range=0.2,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )
    )  # fmt: skip
    start = FOLDER / "base"
    model.save_pretrained(start)
    tokenizer.save_pretrained(start)
    tell_types(start)
    shutil.rmtree(FOLDER / "model", ignore_errors=True)
    CrossEncoder(str(start), device="cpu").save(str(FOLDER / "model"))
    tell_types(FOLDER / "model")
    shutil.rmtree(start)
    (FOLDER / "model" / "README.md").unlink(missing_ok=True)
    for path in (FOLDER / "model").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def records():
    topics = base.TOPICS
    return [
        {"text": f"what of {t}?", "text_pair": f"{topics[(i * 5) % 12]}: {i}", "label": round(((i * 5) % 7) / 6, 3)}
        for i, t in enumerate(topics)
    ]


def steps(rows):
    model = CrossEncoder(str(FOLDER / "model"), device="cpu")
    loss_of = BinaryCrossEntropyLoss(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    history = {"loss": [], "grad_norm": []}
    model.train()
    for step in range(STEPS):
        batch = [rows[(step * BATCH + i) % len(rows)] for i in range(BATCH)]
        labels = torch.tensor([row["label"] for row in batch])
        loss = loss_of([[row["text"] for row in batch], [row["text_pair"] for row in batch]], labels)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
        history["loss"].append(loss.item())
        history["grad_norm"].append(norm.item())
        optimizer.step()
    return history


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    make_folder()
    rows = records()
    (FOLDER / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = CrossEncoder(str(FOLDER / "model"), device="cpu")
    pairs = [(row["text"], row["text_pair"]) for row in rows]
    report = {
        "batch": BATCH, "rate": RATE, "scores": model.predict(pairs).tolist(),
        "logits": model.predict(pairs, activation_fn=torch.nn.Identity()).tolist(), "run": steps(rows),
    }  # fmt: skip
    common.write_json(FOLDER / "scores.json", report, "tools/golden/golden_cross_encoder.py")
    print(report["run"], report["scores"][:3])


if __name__ == "__main__":
    main()
