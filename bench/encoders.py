#!/usr/bin/env python3
"""hone's training of an encoder beside its peer's: the same rows, the same steps, alternating processes.

  OMP_NUM_THREADS=2 python bench/encoders.py embedding --hone build/release/hone --rows FILE.jsonl --tokenizer FOLDER
  OMP_NUM_THREADS=2 python bench/encoders.py classification --hone build/release/hone --rows FILE.tsv --tokenizer FOLDER

embedding: FILE has a question and an answer per line, 64 pairs a step, sentence-transformers' trainer with
MultipleNegativesRankingLoss. classification: FILE has a label and a text per line, 32 texts a step, transformers'
Trainer. FOLDER holds BERT's tokenizer.json. The model: a BERT of hidden 384 and 6 layers (MiniLM's shape), texts of at
most 256 tokens, one epoch. hone runs in bf16. --peer: modes, separated by commas: fp32, bf16 (autocast). Both pad or
pack as they do by default. Needs torch, transformers and datasets, and sentence-transformers for embedding. Prints the
seconds of each run's steps, its peak memory, and the ratio to the fastest mode.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

LENGTH = 256
SHAPE = dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
             max_position_embeddings=512)
BATCH = {"embedding": 64, "classification": 32}


def rows_of(options):
    with open(options.rows) as file:
        if options.kind == "embedding":
            read = (json.loads(line) for line in file)
            made = [{"query": row["question"], "positive": row["answer"]} for row, _ in zip(read, range(options.count))]
        else:
            read = (line.rstrip("\n").split("\t", 1) for line in file)
            made = [{"text": row[1], "label": row[0]} for row, _ in zip(read, range(options.count))]
    return made


def fast_tokenizer(options):
    from transformers import PreTrainedTokenizerFast
    return PreTrainedTokenizerFast(tokenizer_file=os.path.join(options.tokenizer, "tokenizer.json"), pad_token="[PAD]",
                                   cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]", mask_token="[MASK]",
                                   model_max_length=LENGTH)


def embedding_trainer(options, arguments, tokenizer):
    from datasets import Dataset
    from sentence_transformers import (SentenceTransformer, SentenceTransformerTrainer,
                                       SentenceTransformerTrainingArguments, losses, models)
    from transformers import BertConfig, BertModel
    folder = tempfile.mkdtemp()
    BertModel(BertConfig(vocab_size=len(tokenizer), **SHAPE)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    body = models.Transformer(folder, max_seq_length=LENGTH)
    model = SentenceTransformer(modules=[body, models.Pooling(SHAPE["hidden_size"])], device="cpu")
    return SentenceTransformerTrainer(model, SentenceTransformerTrainingArguments(**arguments),
                                      train_dataset=Dataset.from_list(rows_of(options)),
                                      loss=losses.MultipleNegativesRankingLoss(model))


def classification_trainer(options, arguments, tokenizer):
    from datasets import Dataset
    from transformers import (BertConfig, BertForSequenceClassification, DataCollatorWithPadding, Trainer,
                              TrainingArguments)
    rows = rows_of(options)
    labels = sorted({row["label"] for row in rows})
    data = Dataset.from_list([{**tokenizer(row["text"], truncation=True, max_length=LENGTH),
                               "label": labels.index(row["label"])} for row in rows])
    model = BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), num_labels=len(labels), **SHAPE))
    return Trainer(model, TrainingArguments(**arguments), train_dataset=data,
                   data_collator=DataCollatorWithPadding(tokenizer))


def run_peer(options, mode):
    import torch
    torch.manual_seed(0)
    arguments = dict(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=BATCH[options.kind], num_train_epochs=1,
                     bf16=mode == "bf16", use_cpu=True, report_to=[], save_strategy="no", logging_steps=1000,
                     disable_tqdm=True, dataloader_drop_last=True)
    make = embedding_trainer if options.kind == "embedding" else classification_trainer
    trainer = make(options, arguments, fast_tokenizer(options))
    start = time.perf_counter()
    trainer.train()
    print(json.dumps({"seconds": time.perf_counter() - start,
                      "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def peer(options, mode):
    done = subprocess.run([sys.executable, __file__, options.kind, "--rows", options.rows, "--tokenizer",
                           options.tokenizer, "--count", str(options.count), "--run-peer", mode],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"seconds')))


def hone(options, folder):
    data, recipe = os.path.join(folder, "rows.jsonl"), os.path.join(folder, "recipe.json")
    with open(data, "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows_of(options))
    run = os.path.join(folder, f"run-{time.time_ns()}")
    with open(recipe, "w") as file:
        json.dump({"model": {"type": "bert", **SHAPE}, "tokenizer": os.path.abspath(options.tokenizer),
                   "data": {"train": data, "max_length": LENGTH, "overlong": "keep_start"},
                   "objective": {"type": options.kind}, "optimizer": {"type": "adamw", "learning_rate": 2e-5},
                   "trainer": {"batch_size": BATCH[options.kind], "epochs": 1, "max_grad_norm": 1.0,
                               "precision": "bf16", "log_every": 1},
                   "run": {"folder": run, "seed": 1}}, file)
    packing = ["--data.packing=none"] if options.kind == "classification" else []  # rows of the batch are texts
    done = subprocess.run([options.hone, "train", recipe, *packing], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    with open(os.path.join(run, "metrics.jsonl")) as file:
        steps = [json.loads(line) for line in file]
    return {"seconds": sum(step.get("step_seconds", 0) for step in steps),
            "peak_memory": max(step.get("peak_memory_bytes", 0) for step in steps)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=BATCH)
    parser.add_argument("--hone")
    parser.add_argument("--rows", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--count", type=int, default=512, help="rows")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--peer", default="fp32,bf16")
    parser.add_argument("--run-peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run_peer:
        return run_peer(options, options.run_peer)
    modes, seconds = options.peer.split(","), {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for name in ["hone", *modes, "hone"]:
                made = hone(options, folder) if name == "hone" else peer(options, name)
                seconds.setdefault(name, []).append(made["seconds"])
                print(f"{name:10} {made['seconds']:7.1f} s, at most {made['peak_memory'] / 1e9:.2f} GB", flush=True)
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    fastest = min(modes, key=middle.get)
    print(f"hone {middle['hone']:.1f} s, the peer's {fastest} {middle[fastest]:.1f} s: "
          f"{middle[fastest] / middle['hone']:.1f} times as fast")


if __name__ == "__main__":
    main()
