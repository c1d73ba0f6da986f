#!/usr/bin/env python3
"""hone's fine-tuning run beside TRL's SFTTrainer: the same rows, one epoch, loss on the completion, alternating processes.

  OMP_NUM_THREADS=2 python bench/sft.py --hone build/release/hone --rows FILE.jsonl --tokenizer FOLDER [--rounds 1]

FILE has a prompt and a response per line; FOLDER holds a tokenizer.json. Needs torch, transformers, datasets and trl. The
model: a Llama of hidden 512, 8 layers and the tokenizer's vocabulary; batches of 8 rows, at most 1,024 tokens, bf16. Prints
the seconds of each run (hone's with its start and the saving of the result), its tokens, and the ratio.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROWS = 160
SHAPE = dict(hidden_size=512, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4, intermediate_size=1408,
             max_position_embeddings=2048, tie_word_embeddings=True)


def rows(path):
    with open(path) as file:
        return [json.loads(next(file)) for _ in range(ROWS)]


def run_trl(options):
    import torch
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(options.tokenizer, "tokenizer.json"))
    tokenizer.pad_token = tokenizer.eos_token = "<|endoftext|>"
    data = Dataset.from_list([dict(prompt=r["prompt"], completion=r["response"]) for r in rows(options.rows)])
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **SHAPE))
    config = SFTConfig(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=8, num_train_epochs=1, bf16=True,
                       use_cpu=True, report_to=[], save_strategy="no", logging_steps=1000, max_length=1024, packing=False,
                       disable_tqdm=True)
    trainer = SFTTrainer(model=model, args=config, train_dataset=data, processing_class=tokenizer)
    tokens = sum(len(r["input_ids"]) for r in trainer.train_dataset)
    start = time.perf_counter()
    trainer.train()
    print(json.dumps({"seconds": time.perf_counter() - start, "tokens": tokens}))


def trl(options):
    done = subprocess.run([sys.executable, __file__, "--hone", "", "--rows", options.rows, "--tokenizer", options.tokenizer,
                           "--run-trl"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"seconds')))


def hone(options, folder):
    data, recipe = os.path.join(folder, "rows.jsonl"), os.path.join(folder, "recipe.json")
    with open(data, "w") as file:
        file.writelines(json.dumps({"prompt": r["prompt"], "completion": r["response"]}) + "\n" for r in rows(options.rows))
    run = os.path.join(folder, f"run-{time.time_ns()}")
    with open(recipe, "w") as file:
        json.dump({"model": {"type": "llama", **SHAPE}, "tokenizer": os.path.abspath(options.tokenizer),
                   "data": {"train": data, "max_length": 1024, "packing": "none", "overlong": "keep_start"},
                   "optimizer": {"type": "adamw", "learning_rate": 2e-5},
                   "trainer": {"batch_size": 8, "epochs": 1, "max_grad_norm": 1.0, "precision": "bf16", "log_every": 1},
                   "run": {"folder": run, "seed": 1}}, file)
    start = time.perf_counter()
    done = subprocess.run([options.hone, "train", recipe], capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(done.stderr)
    with open(os.path.join(run, "metrics.jsonl")) as file:
        steps = [json.loads(line) for line in file]
    return {"seconds": seconds, "tokens": steps[-1]["tokens"], "in_steps": sum(step.get("step_seconds", 0) for step in steps)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", required=True)
    parser.add_argument("--rows", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--run-trl", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run_trl:
        return run_trl(options)
    mine, other = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for name, run, seconds in [("hone", lambda: hone(options, folder), mine), ("TRL", lambda: trl(options), other),
                                       ("hone", lambda: hone(options, folder), mine)]:
                made = run()
                seconds.append(made["seconds"])
                steps = f", {made['in_steps']:.1f} s of it in steps" if "in_steps" in made else ""
                print(f"{name:5} {made['seconds']:7.1f} s{steps}, {made['tokens']} tokens", flush=True)
    print(f"hone {statistics.median(mine):.1f} s, TRL {statistics.median(other):.1f} s: "
          f"{statistics.median(other) / statistics.median(mine):.1f} times as fast")


if __name__ == "__main__":
    main()
