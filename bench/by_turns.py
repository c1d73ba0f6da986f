"""Training runs of hone and of a peer by turns, each in its own process: what encoders.py and fine_tune.py share."""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time


def timed(train):
    """A peer's run, in its own process; prints a JSON object for main()."""
    start = time.perf_counter()
    train()
    print(json.dumps({"seconds": time.perf_counter() - start,
                      "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def run_peer(options, mode):
    printed = output_of([sys.executable, sys.argv[0], options.kind, "--rows", options.rows, "--tokenizer",
                         options.tokenizer, "--count", str(options.count), "--run-peer", mode])
    return json.loads(next(line for line in printed.splitlines() if line.startswith('{"seconds')))


def run_hone(options, folder, rows, recipe):
    """One run on these rows: its seconds, with its start and the saving of the result, and those of its steps."""
    data, file_name = os.path.join(folder, "rows.jsonl"), os.path.join(folder, "recipe.json")
    with open(data, "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    run = os.path.join(folder, f"run-{time.time_ns()}")
    recipe = {**recipe, "data": {"train": data, **recipe["data"]}, "run": {"folder": run, "seed": 1},
              "trainer": {"epochs": 1, "max_grad_norm": 1.0, "precision": "bf16", "log_every": 1, **recipe["trainer"]}}
    with open(file_name, "w") as file:
        json.dump(recipe, file)
    start = time.perf_counter()
    output_of([options.hone, "train", file_name])
    seconds = time.perf_counter() - start
    with open(os.path.join(run, "metrics.jsonl")) as file:
        steps = [json.loads(line) for line in file]
    return {"seconds": seconds, "in_steps": sum(step.get("step_seconds", 0) for step in steps),
            "peak_memory": max(step.get("peak_memory_bytes", 0) for step in steps)}


def main(doc, kinds, hone, train_peer, count, peer, whose):
    """hone(options, folder): one run of it; train_peer(options, mode): the same of the peer, in this process. peer: its
    modes unless they are given; whose: how it is called."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--hone")
    parser.add_argument("--rows", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--count", type=int, default=count, help="rows")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--peer", default=peer)
    parser.add_argument("--run-peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run_peer:
        return train_peer(options, options.run_peer)
    modes, seconds = options.peer.split(","), {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for name in ["hone", *modes, "hone"]:
                made = hone(options, folder) if name == "hone" else run_peer(options, name)
                seconds.setdefault(name, []).append(made["seconds"])
                steps = f", {made['in_steps']:.1f} s of it in steps" if "in_steps" in made else ""
                print(f"{name:10} {made['seconds']:7.1f} s{steps}, at most {made['peak_memory'] / 1e9:.2f} GB",
                      flush=True)
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    fastest = min(modes, key=middle.get)
    print(f"hone {middle['hone']:.1f} s, {whose} {fastest} {middle[fastest]:.1f} s: "
          f"{middle[fastest] / middle['hone']:.1f} times as fast")
