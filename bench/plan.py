#!/usr/bin/env python3
"""`hone plan` beside the run that it foretells: six recipes, plan and run by turns, ratio of peak memory and of time.

  python bench/plan.py --hone build/release/hone [--cases 5m,32m-lora] [--rounds 1] [--steps 12] [--out DIR]

Three shapes of Llama, in bf16 where the machine computes it fast, with and without gradient checkpointing and LoRA, on
rows of random tokens. Peak memory is the process's VmHWM as the kernel gives it at its end; time is from the command
to its end.
A ratio is what was foretold over what came.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

# hidden, layers, vocabulary, rows, tokens in a row, accumulate, what else
CASES = {
    "5m": (256, 4, 16384, 8, 256, 1, {}),
    "32m": (512, 8, 16384, 8, 512, 2, {}),
    "32m-checkpoint": (512, 8, 16384, 8, 512, 1, {"trainer": {"checkpoint_blocks": True}}),
    "32m-lora": (512, 8, 16384, 8, 512, 1, {"adapter": {"type": "lora", "rank": 16}}),
    "125m": (768, 12, 32000, 4, 1024, 1, {}),
    "125m-lora-checkpoint": (768, 12, 32000, 4, 1024, 1, {"adapter": {"type": "lora", "rank": 16},
                                                          "trainer": {"checkpoint_blocks": True}}),
}


def model_of(hidden, layers, vocab):
    heads = hidden // 64
    return {"type": "llama", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": heads // 2, "intermediate_size": hidden * 11 // 4, "vocab_size": vocab,
            "max_position_embeddings": 2048, "tie_word_embeddings": True}


def run(command, **options):
    """Seconds, peak resident bytes, standard output."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: exit {os.waitstatus_to_exitcode(status)}\n{err[-2000:]}")
    return time.monotonic() - begun, usage.ru_maxrss * 1024, out


def make_recipe(hone, case, steps, folder):
    hidden, layers, vocab, rows, length, accumulate, more = CASES[case]
    draw = random.Random(1)
    data = os.path.join(folder, f"{case}.jsonl")
    with open(data, "w") as file:
        for _ in range(rows * accumulate * steps):
            file.write(json.dumps({"input_ids": [draw.randrange(vocab) for _ in range(length)]}) + "\n")
    recipe = {"model": model_of(hidden, layers, vocab), "tokenizer": "none",
              "data": {"train": data, "max_length": length, "append_eos": False},
              "trainer": {"batch_size": rows, "accumulate": accumulate, "steps": steps, "save": {"every": 0}},
              "run": os.path.join(folder, case)}
    for section, options in more.items():
        recipe[section] = {**recipe.get(section, {}), **options}
    if "adapter" in recipe:  # beside weights that are there
        base = os.path.join(folder, f"{case}-base")
        first = {**recipe, "run": base, "trainer": {**recipe["trainer"], "steps": 1}}
        del first["adapter"]
        path = os.path.join(folder, "base.json")
        json.dump(first, open(path, "w"))
        run([hone, "train", path, "--quiet"])
        recipe["model"] = base
    path = os.path.join(folder, f"{case}.json")
    json.dump(recipe, open(path, "w"))
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", default="build/release/hone")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--out", help="where the runs are made, and stay")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or scratch
        os.makedirs(folder, exist_ok=True)
        print(f"{'case':<22} {'foretold':>10} {'came':>10} {'ratio':>6}   {'foretold':>9} {'came':>9} {'ratio':>6}")
        for case in options.cases.split(","):
            recipe = make_recipe(options.hone, case, options.steps, folder)
            plans, runs = [], []
            for _ in range(options.rounds):
                plans.append(json.loads(run([options.hone, "plan", recipe, "--json"])[2]))
                runs.append(run([options.hone, "train", recipe, "--new", "--quiet"]))
            foretold = plans[0]["memory_bytes"]["peak"]
            came = max(peak for _, peak, _ in runs)
            seconds = statistics.median(plan["seconds"]["total"] for plan in plans)
            took = statistics.median(took for took, _, _ in runs)
            print(f"{case:<22} {foretold / 1e6:7.0f} MB {came / 1e6:7.0f} MB {foretold / came:6.3f}   {seconds:7.1f} s "
                  f"{took:7.1f} s {seconds / took:6.3f}", flush=True)


if __name__ == "__main__":
    main()
