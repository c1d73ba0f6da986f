#!/usr/bin/env python3
"""A run that is killed at random moments and gone on with has the bits of one that was not.

  python3 bench/kills.py --hone build/cuda/hone --device cuda [--precision bf16] [--kills 20] [--seed 1]

Trains a small model to its end, then the same recipe under kill -9, again and again from its last checkpoint. Ends with
1 if the last checkpoint's tensors or the logged losses differ.
"""
import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time

STEPS = 120


def recipe(folder, device, precision):
    data = os.path.join(folder, "text.jsonl")
    words = random.Random(7)
    with open(data, "w") as file:
        for _ in range(400):
            file.write(json.dumps({"text": " ".join(str(words.randrange(1000)) for _ in range(60))}) + "\n")
    path = os.path.join(folder, "recipe.json")
    with open(path, "w") as file:
        json.dump({"model": {"type": "llama", "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 2,
                             "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256},
                   "tokenizer": "bytes",
                   "data": {"train": data, "max_length": 128, "packing": "concat", "cache": "none"},
                   "optimizer": {"type": "adamw", "learning_rate": 1e-3},
                   "trainer": {"batch_size": 8, "steps": STEPS, "log_every": 1, "save": {"every": 5, "keep": 2},
                               "device": device, "precision": precision}}, file)
    return path


def train(program, path, run, **how):
    return subprocess.Popen([program, "train", path, f"--run.folder={run}", "--run.seed=3", "--quiet"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **how)


def steps_of(run):
    """How many steps it has logged."""
    try:
        with open(os.path.join(run, "metrics.jsonl")) as file:
            return sum('"loss"' in line for line in file)
    except FileNotFoundError:
        return 0


def killed_after(process, run, steps, delay):
    """Kills it a moment after so many steps more; False: it came to its end before."""
    begin = steps_of(run)
    while steps_of(run) < begin + steps:
        if process.poll() is not None:
            return False
        time.sleep(0.005)
    time.sleep(delay)
    process.kill()
    process.wait()
    return process.returncode < 0


def finish(process):
    error = process.communicate()[1].decode()
    if process.returncode != 0:
        sys.exit(f"hone train ended with {process.returncode}:\n{error}")


def result(run):
    with open(os.path.join(run, "metrics.jsonl")) as file:
        losses = {line["step"]: line["loss"] for line in map(json.loads, file) if "loss" in line}
    last = os.path.join(run, "checkpoints", f"step-{STEPS:08}")  # weights, and the optimizer's state
    files = [os.path.join(where, name) for where, _, names in os.walk(last) for name in names
             if name.endswith(".safetensors")]
    digest = hashlib.sha256()
    for name in sorted(files):
        with open(name, "rb") as file:
            digest.update(file.read())
    return losses, digest.hexdigest(), len(files)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", required=True, help="the program")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    moments = random.Random(flags.seed)
    with tempfile.TemporaryDirectory() as folder:
        path = recipe(folder, flags.device, flags.precision)
        begin = time.perf_counter()
        finish(train(flags.hone, path, os.path.join(folder, "whole")))
        seconds = time.perf_counter() - begin
        print(f"undisturbed: {seconds:.1f} s", flush=True)
        run, done, killed = os.path.join(folder, "killed"), [], 0
        while killed < flags.kills:
            process = train(flags.hone, path, run)
            if killed_after(process, run, moments.randrange(12), moments.uniform(0, 0.1)):
                killed += 1
                continue
            finish(process)
            done.append(result(run))  # it came to its end between kills: from the beginning once more
            subprocess.run(["rm", "-rf", run], check=True)
        finish(train(flags.hone, path, run))
        done.append(result(run))
        whole = result(os.path.join(folder, "whole"))
        if whole[2] == 0 or len(whole[0]) != STEPS:
            sys.exit(f"the undisturbed run has {len(whole[0])} losses and {whole[2]} files of weights")
        wrong = sum(one != whole for one in done)
        print(f"{killed} kills, {len(done)} runs that came to their end, {wrong} with other bits")
        sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
