#!/usr/bin/env python3
"""Steps of two ranks with a thread each, whole and in shares, beside one process with two threads, DDP and FSDP2.

  python bench/ranks.py --hone build/release/hone --case 32m-fp32 [--rounds 3] [--peer ddp,fsdp2]

Needs torch and transformers, for the peers; --peer none does without. All train on the same rows a step: one process
makes two micro-batches of half of them, each rank one. By turns; ratios are of medians over the rounds.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

# hidden, layers, vocabulary, rows of a rank, tokens in a row, measured steps, precision
CASES = {
    "32m-fp32": (512, 8, 16384, 4, 512, 5, "fp32"),
    "32m": (512, 8, 16384, 4, 512, 6, "bf16"),
    "5m-fp32": (256, 4, 4096, 4, 256, 12, "fp32"),
    "5m": (256, 4, 4096, 4, 256, 4, "bf16"),
    "5m-short": (256, 4, 4096, 1, 128, 4, "bf16"),  # where the peer has no kernels for bf16
}
WARMUP = 2


def shape(case):
    hidden, layers, vocab = CASES[case][:3]
    return dict(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 64,
                num_key_value_heads=hidden // 128, intermediate_size=hidden * 11 // 4, vocab_size=vocab,
                max_position_embeddings=2048, tie_word_embeddings=True)


def worker(case, mode):
    """A rank of the peer, under torchrun: forward, backward, clipping, AdamW; rank 0 prints a JSON object."""
    import torch
    import torch.distributed as dist
    import transformers
    _, _, vocab, rows, length, steps, precision = CASES[case]
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape(case)))
    if mode == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.fsdp import fully_shard
        mesh = torch.distributed.init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=mode == "ddp")
    seconds = []
    for step in range(WARMUP + steps):
        ids = torch.randint(0, vocab, (rows, length))
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
    if dist.get_rank() == 0:
        print(json.dumps({"step_seconds": statistics.median(seconds[WARMUP:])}), flush=True)
    dist.destroy_process_group()


def run(command, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


def peer(case, mode):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29655"]
    return run([*launcher, os.path.abspath(__file__), "--case", case, "--worker", mode], 1)


def write_recipe(case, folder):
    _, _, vocab, rows, length, steps, precision = CASES[case]
    data, recipe = os.path.join(folder, "rows.jsonl"), os.path.join(folder, "recipe.json")
    with open(data, "w") as file:
        state = 1
        for _ in range(2 * rows * (steps + WARMUP)):
            ids = []
            for _ in range(length):
                state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
                ids.append((state >> 33) % vocab)
            file.write(json.dumps({"input_ids": ids}) + "\n")
    made = {"model": {"type": "llama", **shape(case)}, "tokenizer": "bytes",
            "data": {"train": data, "max_length": length}, "optimizer": {"type": "adamw", "learning_rate": 5e-5},
            "trainer": {"batch_size": rows, "accumulate": 2, "max_grad_norm": 1.0, "precision": precision},
            "run": {"folder": os.path.join(folder, "run"), "seed": 1}}
    with open(recipe, "w") as file:
        json.dump(made, file)
    return recipe


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone")
    parser.add_argument("--case", choices=CASES, default="32m-fp32")
    parser.add_argument("--peer", default="ddp", help="ddp, fsdp2, both with a comma, or none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options.case, options.worker)
    peers = [] if options.peer == "none" else options.peer.split(",")
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        recipe = write_recipe(options.case, folder)
        bench = ["bench", recipe, "--steps", str(CASES[options.case][5]), "--warmup", str(WARMUP), "--json"]
        for _ in range(options.rounds):
            launch = [options.hone, "launch", "-n", "2", *bench]
            runs = {"one process": lambda: run([options.hone, *bench], 2), "two ranks": lambda: run(launch, 1),
                    "two shares": lambda: run([*launch, "--parallel.fsdp=-1"], 1),
                    "two together": lambda: run([*launch, "--parallel.context=2"], 1),
                    "two slices": lambda: run([*launch, "--parallel.tensor=2"], 1)}
            runs |= {name: lambda name=name: peer(options.case, name) for name in peers}
            for name, one in runs.items():
                made = one()
                seconds.setdefault(name, []).append(made["step_seconds"])
                waiting = made.get("seconds_by_op", {}).get("other ranks", 0)
                of_it = f", {waiting:.3f} s of it waiting" if waiting else ""
                memory = f", {made['peak_memory_bytes'] / 1e9:.2f} GB a rank" if "peak_memory_bytes" in made else ""
                print(f"{name:12} {made['step_seconds']:8.3f} s{of_it}{memory}", flush=True)
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    for own, others in [("two ranks", ["one process", *peers]), ("two shares", ["one process", "two ranks", *peers]),
                        ("two slices", ["one process", "two together", "two shares"])]:
        for name in others:
            print(f"{own}: {middle[own] / middle[name]:.2f} times the time of {name}")


if __name__ == "__main__":
    main()
