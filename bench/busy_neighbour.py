#!/usr/bin/env python3
"""hone on an idle machine and beside a process that keeps one processor busy: an old and a new build by turns.

  bench/busy_neighbour.py --old OLD/hone --new build/release/hone [--cpus 0,1] [--rounds 3] [--cases small,step,32m,generate]

Everything runs on the processors of --cpus (default: the first two that are allowed). Prints for each case the seconds of a
training step, or of a generated token, as medians over the rounds, and three ratios:
  idle        new to old, both with their default threads, nothing else running; aim: at most 1.01
  neighbour   new with its default threads beside a busy process, to new with one thread on a processor of its own, without
              that process; aim: at most 1.3
  old         the same of the old build, once, cut off after --patience seconds
Cases: small: the quickstart's model with 16 rows, thousands of parallel regions a second; step: the same with its 128 rows;
32m: 32 M parameters, 4,096 tokens, bf16; generate: 32 M, bf16, one prompt.
"""
import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile

SMALL = dict(type="llama", hidden_size=128, intermediate_size=384, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=4, max_position_embeddings=64, tie_word_embeddings=True)
LARGE = dict(type="llama", hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8,
             num_key_value_heads=4, vocab_size=16384, max_position_embeddings=2048, tie_word_embeddings=True)
CLEAR = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def own_group():
    """Where the scheduler groups by session, as for processes of different people."""
    os.setsid()


class Runner:
    def __init__(self, folder, cpus):
        self.folder, self.cpus = folder, cpus

    def run(self, program, arguments, one_thread=False, patience=120):
        """Standard output and error; nothing when it took longer than that."""
        env = {k: v for k, v in os.environ.items() if k not in CLEAR}
        if one_thread:
            env["OMP_NUM_THREADS"] = "1"
        cpus = self.cpus[:1] if one_thread else self.cpus
        process = subprocess.Popen(["taskset", "-c", ",".join(map(str, cpus)), program, *arguments], env=env, cwd=self.folder,
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=own_group)
        try:
            output = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None
        if process.returncode != 0:
            raise SystemExit(f"{program} {' '.join(arguments)}: exit {process.returncode}\n{output[1]}")
        return output

    def neighbour(self):
        return subprocess.Popen(["taskset", "-c", ",".join(map(str, self.cpus)), "sh", "-c", "while :; do :; done"],
                                preexec_fn=own_group)


def write_data(folder):
    with open(f"{folder}/sums.jsonl", "w") as file:
        for i in range(9500):
            a, b = i * 7919 % 100, i * 104729 // 97 % 100
            file.write(json.dumps({"prompt": f"{a}+{b}=", "completion": str(a + b)}) + "\n")
    with open(f"{folder}/ids.jsonl", "w") as file:
        for row in range(80):
            file.write(json.dumps({"input_ids": [(row * 509 + i * i * 31) % 16384 for i in range(512)]}) + "\n")


def write_recipe(path, model, file, rows, length, precision):
    recipe = dict(model=model, tokenizer="bytes", data=dict(train=[dict(path=file)], max_length=length, packing="none"),
                  optimizer=dict(type="adamw", learning_rate=1e-3),
                  trainer=dict(batch_size=rows, steps=100000, precision=precision), run=dict(folder="run", seed=1))
    with open(path, "w") as out:
        json.dump(recipe, out)


def training(recipe, steps, warmup=2):
    def seconds(runner, program, **options):
        output = runner.run(program, ["bench", recipe, "--steps", str(steps), "--warmup", str(warmup), "--json"], **options)
        return output and json.loads(output[0].splitlines()[-1])["step_seconds"]
    return seconds


def generation(tokens):
    def seconds(runner, program, **options):
        output = runner.run(program, ["generate", "model", "--tokenizer", "bytes", "--prompt", "abcdefgh" * 8, "--stats",
                                      "--ignore-eos", "--max-new-tokens", str(tokens)], **options)
        return output and float(re.findall(r" tokens in ([0-9.]+) s", output[1])[-1]) / tokens
    return seconds


def prepare(folder, program):
    write_data(folder)
    write_recipe(f"{folder}/small.json", SMALL, "sums.jsonl", 16, 64, "fp32")
    write_recipe(f"{folder}/step.json", SMALL, "sums.jsonl", 128, 64, "fp32")
    write_recipe(f"{folder}/32m.json", LARGE, "ids.jsonl", 8, 512, "bf16")
    subprocess.run([program, "init", "model", "--precision", "bf16", *[f"--model.{k}={json.dumps(v).strip(chr(34))}" for k, v in
                                                                    LARGE.items()]], cwd=folder, check=True, capture_output=True)
    return {"small": training("small.json", 60), "step": training("step.json", 25), "32m": training("32m.json", 2, warmup=1),
            "generate": generation(300)}


def sure(value):
    if value is None:
        raise SystemExit("a run took more than two minutes: is the machine idle?")
    return value


def shown(seconds):
    return "-" if seconds is None else f"{1000 * seconds:.3f}"


def measure(name, seconds, runner, options):
    idle = {"old": [], "new": []}
    one, busy = [], []
    for turn in range(options.rounds):
        for build in ("old", "new")[:: 1 if turn % 2 == 0 else -1]:
            idle[build].append(sure(seconds(runner, getattr(options, build))))
        one.append(sure(seconds(runner, options.new, one_thread=True)))
        neighbour = runner.neighbour()
        try:
            busy.append(sure(seconds(runner, options.new)))
            if turn == 0:
                old_busy = seconds(runner, options.old, patience=options.patience)
        finally:
            os.killpg(neighbour.pid, signal.SIGKILL)
            neighbour.wait()
    all_one, all_busy = one, busy
    old, new, one, busy = (statistics.median(x) for x in (*idle.values(), one, busy))
    print(f"{name:<10}{shown(old):>10}{shown(new):>10}{shown(one):>10}{shown(busy):>10}{shown(old_busy):>10}"
          f"{new / old:>10.3f}{busy / one:>11.2f}{'more' if old_busy is None else f'{old_busy / one:.2f}':>8}", flush=True)
    return dict(case=name, old=idle["old"], new=idle["new"], one_thread=all_one, neighbour=all_busy, old_neighbour=old_busy,
                idle_ratio=new / old, neighbour_ratio=busy / one)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("--cpus", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default="small,step,32m,generate")
    parser.add_argument("--patience", type=float, default=10)
    parser.add_argument("--json", help="also write all figures to this file")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no busy process is left behind
    options.old, options.new = os.path.abspath(options.old), os.path.abspath(options.new)
    cpus = [int(x) for x in options.cpus.split(",")] if options.cpus else sorted(os.sched_getaffinity(0))[:2]
    with tempfile.TemporaryDirectory() as folder:
        cases = prepare(folder, options.new)
        print(f"milliseconds on processors {cpus}")
        print(f"{'case':<10}{'old idle':>10}{'new idle':>10}{'1 thread':>10}{'new busy':>10}{'old busy':>10}"
              f"{'idle':>10}{'neighbour':>11}{'old':>8}")
        results = [measure(name, cases[name], Runner(folder, cpus), options) for name in options.cases.split(",")]
    if options.json:
        with open(options.json, "w") as out:
            json.dump(results, out, indent=2)


if __name__ == "__main__":
    main()
