#!/usr/bin/env python3
"""What checkpoints and callbacks cost a run: the 32 M Llama with and without them, by turns.

  python bench/trainer_costs.py --hone build/release/hone [--rounds 3] [--steps 50] [--folder DIR]

All runs have the callback timers, which says where time went. saves: a checkpoint with the optimizer's state every ten
steps; seconds that one keeps the loop waiting, as a share of a minute. beside: the same with trainer.save.asynchronous.
callbacks: all that only look, at their own intervals; what they take between passes, and by how much the passes and the
update beside them are slower (medians over the steps), as a share of a step. A share is the median over the rounds.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

ROWS, LENGTH, VOCAB, EVERY = 8, 512, 16384, 10
MODEL = {"type": "llama", "hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8,
         "num_key_value_heads": 4, "intermediate_size": 1408, "vocab_size": VOCAB, "max_position_embeddings": 2048,
         "tie_word_embeddings": True}
CALLBACKS = ["timers", "learning_rate", "throughput", "intermediates", "loss_spike", {"type": "memory", "seconds": 10},
             {"type": "norms", "updates": True}, {"type": "histograms", "gradients": True},
             {"type": "profiler", "start": 20}, {"type": "trigger_file", "file": "SAVE", "action": "save"},
             {"type": "shell", "on": ["save"], "command": "true"}]
CASES = {"saves": {"save": {"every": EVERY}, "callbacks": ["timers"]},
         "beside": {"save": {"every": EVERY, "asynchronous": True}, "callbacks": ["timers"]},
         "callbacks": {"callbacks": CALLBACKS}}
PASSES = ("time/data", "time/forward", "time/backward", "time/ranks", "time/update")


def steps_of(hone, steps, data, more):
    """The lines of metrics.jsonl, but for the first two steps'."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(data)) as folder:
        recipe = {"model": MODEL, "tokenizer": "none",
                  "data": {"train": data, "max_length": LENGTH, "append_eos": False},
                  "trainer": {"batch_size": ROWS, "steps": steps, "log_every": 1,
                              "save": {"every": 0, **more.get("save", {})}},
                  "callbacks": more.get("callbacks", ["timers"]), "run": os.path.join(folder, "run")}
        path = os.path.join(folder, "recipe.json")
        json.dump(recipe, open(path, "w"))
        done = subprocess.run([hone, "train", path, "--quiet"], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return [json.loads(line) for line in open(os.path.join(folder, "run", "metrics.jsonl"))][2:]


def passes(lines):
    return statistics.median(sum(line[part] for part in PASSES) for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", default="build/release/hone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--folder", help="where the runs are made, on the disk that is meant")
    options = parser.parse_args()
    draw, shares = random.Random(1), {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        data = os.path.join(folder, "rows.jsonl")
        with open(data, "w") as file:
            for _ in range(ROWS * options.steps):
                file.write(json.dumps({"input_ids": [draw.randrange(VOCAB) for _ in range(LENGTH)]}) + "\n")
        for _ in range(options.rounds):
            plain = passes(steps_of(options.hone, options.steps, data, {}))
            print(f"plain: {plain:.3f} s a step", flush=True)
            for case, more in CASES.items():
                lines = steps_of(options.hone, options.steps, data, more)
                if case == "callbacks":
                    between = statistics.mean(line["time/other"] + line["time/log"] for line in lines)
                    share = (between + passes(lines) - plain) / plain
                    print(f"{case}: {between:.4f} s between passes, {passes(lines):.3f} s a step", flush=True)
                else:
                    waits = [line["time/save"] for line in lines if line.get("time/save", 0) > 0]
                    share = statistics.mean(waits) / 60
                    print(f"{case}: {statistics.mean(waits):.3f} s each, {passes(lines):.3f} s a step", flush=True)
                shares.setdefault(case, []).append(share)
    for case, found in shares.items():
        print(f"{case}: {100 * statistics.median(found):.2f} %")


if __name__ == "__main__":
    main()
