#!/usr/bin/env python3
# Training as HF Trainer does it: golden_train.py -> tests/golden/train/{rows.jsonl, tiny_12_steps.json,
# stories260k_50_steps.json}. `tiny` trains tests/golden/models/llama on rows.jsonl for three epochs; `stories`
# fine-tunes stories260K for 50 steps and needs HONE_TEST_DATA (without it the file is left alone).
#
# Data convention of `stories`: datasets/tinystories/tinystories_1000.json is a JSON list of texts, used in file order
# and never shuffled. ids = tokenizer(text): the post-processor of tokenizer.json puts <s> in front; no eos is
# appended. The first max_length ids are kept (keep_start). A batch is padded on the right to its longest row with id
# 0, masked, labels -100; labels = ids elsewhere, so a row of n ids has n - 1 targets. The loss of a step is the mean
# over all targets of its micro-batches; the learning rate of step s (from 0) is the schedule at s, so the first step
# of a warm-up is at 0.
import json
import tempfile

import torch
from transformers import AutoTokenizer, Trainer, TrainingArguments

import golden_common as common

FOLDER = common.ROOT / "train"
MAKER = "tools/golden/golden_train.py"
BATCH, ACCUMULATE, STEPS, WARMUP, MAX_LENGTH, EVAL_LENGTH = 4, 2, 50, 5, 256, 512
LEARNING_RATE, WEIGHT_DECAY, MAX_GRAD_NORM = 1e-3, 0.1, 1.0


def rows(data, tokenizer, max_length):
    texts = json.loads((data / "datasets/tinystories/tinystories_1000.json").read_text())
    return [tokenizer(text).input_ids[:max_length] for text in texts]


def collate(examples):
    longest = max(len(example["input_ids"]) for example in examples)

    def padded(values, fill):
        return torch.tensor([row + [fill] * (longest - len(row)) for row in values])

    ids = [example["input_ids"] for example in examples]
    labels = [example.get("labels", example["input_ids"]) for example in examples]
    return {
        "input_ids": padded(ids, 0),
        "attention_mask": padded([[1] * len(row) for row in ids], 0),
        "labels": padded(labels, -100),
    }


class InFileOrder(Trainer):
    def _get_train_sampler(self, *arguments):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def fine_tune(folder, ids, **changes):
    """`ids`: rows of ids, or of examples that have labels of their own."""
    settings = {
        "max_steps": STEPS,
        "per_device_train_batch_size": BATCH,
        "gradient_accumulation_steps": ACCUMULATE,
        "warmup_steps": WARMUP,
    } | changes
    with tempfile.TemporaryDirectory() as out:
        arguments = TrainingArguments(
            output_dir=out,
            **settings,
            learning_rate=LEARNING_RATE,
            weight_decay=WEIGHT_DECAY,
            max_grad_norm=MAX_GRAD_NORM,
            adam_beta1=0.9,
            adam_beta2=0.999,
            adam_epsilon=1e-8,
            lr_scheduler_type="cosine",
            optim="adamw_torch",
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            seed=1,
            bf16=False,
        )
        trainer = InFileOrder(
            model=common.load_model(folder),
            args=arguments,
            data_collator=collate,
            train_dataset=[row if isinstance(row, dict) else {"input_ids": row} for row in ids],
        )
        trainer.train()
        return trainer


def mean_loss(model, ids):
    """Token-weighted mean over all rows, one row at a time, summed in fp64; and the number of targets."""
    total, targets = 0.0, 0
    with torch.no_grad():
        for row in ids:
            logits = model(input_ids=torch.tensor([row]), use_cache=False).logits[0, :-1]
            total += float(torch.nn.functional.cross_entropy(logits.double(), torch.tensor(row[1:]), reduction="sum"))
            targets += len(row) - 1
    return total / targets, targets


def stories(data):
    folder = data / "models/stories260K"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    train, held = rows(data, tokenizer, MAX_LENGTH), rows(data, tokenizer, EVAL_LENGTH)
    untrained, targets = mean_loss(common.load_model(folder), held)
    trainer = fine_tune(folder, train)
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    trained, _ = mean_loss(trainer.model.eval(), held)
    used = train[: BATCH * ACCUMULATE * STEPS]
    common.write_json(
        FOLDER / "stories260k_50_steps.json",
        {
            "model": "models/stories260K",
            "data": "datasets/tinystories/tinystories_1000.json",
            "convention": "file order; ids = <s> + text, no eos; first max_length ids; right padding without loss",
            "settings": {
                "steps": STEPS,
                "batch_size": BATCH,
                "accumulate": ACCUMULATE,
                "max_length": MAX_LENGTH,
                "learning_rate": LEARNING_RATE,
                "weight_decay": WEIGHT_DECAY,
                "decay_excludes": "biases and norms",
                "betas": [0.9, 0.999],
                "eps": 1e-8,
                "max_grad_norm": MAX_GRAD_NORM,
                "schedule": "cosine to 0",
                "warmup_steps": WARMUP,
            },
            "first_row_ids": train[0],
            "row_lengths": [len(row) for row in used],
            "loss": [entry["loss"] for entry in history],
            "grad_norm": [entry["grad_norm"] for entry in history],
            "learning_rate": [entry["learning_rate"] for entry in history],
            "evaluation": {
                "max_length": EVAL_LENGTH,
                "rows": len(held),
                "targets": targets,
                "untrained_loss": untrained,
                "trained_loss": trained,
            },
        },
        MAKER,
    )
    print(
        f"stories260K: {untrained:.9f} nats over {targets} targets untrained, {trained:.6f} after {len(history)} steps"
    )


def tiny():
    """Without real data: 24 rows of 2 to 20 ids with labels of their own, batch 2, accumulation 3: 4 steps an epoch."""
    generator = torch.Generator().manual_seed(11)
    examples = []
    for _ in range(24):
        length = int(torch.randint(2, 21, (1,), generator=generator))
        ids = torch.randint(3, 80, (length,), generator=generator).tolist()
        prompt = int(torch.randint(0, length, (1,), generator=generator))
        examples.append({"input_ids": ids, "labels": [-100] * prompt + ids[prompt:]})
    (FOLDER / "rows.jsonl").write_text("".join(json.dumps(example) + "\n" for example in examples))
    settings = {"max_steps": 12, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 3, "warmup_steps": 2}
    trainer = fine_tune(common.ROOT / "models" / "llama", examples, **settings)
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    common.write_json(
        FOLDER / "tiny_12_steps.json",
        {
            "model": "llama",
            "data": "rows.jsonl",
            "settings": {
                **settings,
                "learning_rate": LEARNING_RATE,
                "weight_decay": WEIGHT_DECAY,
                "max_grad_norm": MAX_GRAD_NORM,
                "schedule": "cosine to 0",
            },
            "targets": [
                sum(label != -100 for e in examples[i * 6 % 24 : i * 6 % 24 + 6] for label in e["labels"][1:])
                for i in range(12)
            ],
            **{key: [entry[key] for entry in history] for key in ("loss", "grad_norm", "learning_rate", "epoch")},
        },
        MAKER,
    )
    print("tiny:", history[0]["loss"], "->", history[-1]["loss"])


if __name__ == "__main__":
    tiny()
    if common.data_folder():
        stories(common.data_folder())
