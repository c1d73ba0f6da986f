#!/usr/bin/env python3
"""Decoding one row from weights in fewer bits, beside the same weights in bf16 and beside llama.cpp, by turns.

  OMP_NUM_THREADS=2 python bench/decode_few_bits.py --hone build/release/hone [--rounds 3] [--tokens 128]
  OMP_NUM_THREADS=2 python bench/decode_few_bits.py --hone build/release/hone --tokenizer FOLDER --peer llama

The model: a Llama (hidden 2,048, 16 layers; with 259 tokens 723 M parameters) of random weights. --peer llama: the same
weights as `hone export --gguf` writes them, in bf16, q8_0 and q4_0, by llama-cpp-python; FOLDER holds a tokenizer
that GGUF can have. Prints the tokens a second of each round, their medians, and what of them bf16's is. What waits for
memory should go with the bits.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

SHAPE = dict(hidden_size=2048, intermediate_size=5632, num_hidden_layers=16, num_attention_heads=32,
             num_key_value_heads=8, max_position_embeddings=2048)
KINDS = ["stored", "int8", "nf4", "fp4"]
PEER = {"bf16": "stored", "q8_0": "int8", "q4_0": "nf4"}  # a file's type, and what it stands beside


def rate(options, model, kind):
    done = subprocess.run([options.hone, "generate", model, "--quantization", kind, "--prompt", "Once upon a time",
                           "--max-new-tokens", str(options.tokens), "--ignore-eos", "--temperature", "0", "--stats"],
                          capture_output=True, text=True, check=True)
    return float(re.search(r"generation: .* ([0-9.]+) tokens/s", done.stderr).group(1))


def run_llama(path, tokens):
    """In a process of its own; prints its rate."""
    from llama_cpp import Llama
    threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count()))
    model = Llama(path, n_ctx=1024, n_threads=threads, n_threads_batch=threads, verbose=False)
    model.eval(list(range(5, 10)))
    start = time.perf_counter()
    for i in range(tokens):
        model.eval([100 + i])
    print(tokens / (time.perf_counter() - start))


def rate_of_llama(options, folder, kind):
    done = subprocess.run([sys.executable, __file__, "--hone", options.hone, "--tokens", str(options.tokens),
                           "--run-llama", f"{folder}/{kind}.gguf"], capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def make(options, folder):
    sizes = [f"--model.{key}={value}" for key, value in SHAPE.items()]
    subprocess.run([options.hone, "init", f"{folder}/model", "--model.type=llama", "--tokenizer", options.tokenizer,
                    "--precision", "bf16", *sizes], check=True, capture_output=True)
    for kind in PEER if options.peer == "llama" else []:
        subprocess.run([options.hone, "export", f"{folder}/model", "--gguf", kind, "--out", f"{folder}/{kind}.gguf"],
                       check=True, capture_output=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--tokenizer", default="bytes")
    parser.add_argument("--peer", choices=["none", "llama"], default="none")
    parser.add_argument("--run-llama", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run_llama:
        return run_llama(options.run_llama, options.tokens)
    peers = PEER if options.peer == "llama" else {}
    rates = {kind: [] for kind in [*KINDS, *peers]}
    with tempfile.TemporaryDirectory() as folder:
        make(options, folder)
        for _ in range(options.rounds):
            for kind, seen in rates.items():
                seen.append(rate_of_llama(options, folder, kind) if kind in peers
                            else rate(options, f"{folder}/model", kind))
                print(f"{kind:8} {seen[-1]:7.1f} tokens/s", flush=True)
    middle = {kind: statistics.median(values) for kind, values in rates.items()}
    for kind in KINDS[1:]:
        print(f"{kind}: {middle[kind]:.1f} tokens/s, bf16 {middle['stored']:.1f}: "
              f"{middle[kind] / middle['stored']:.2f} times as fast")
    for kind, ours in peers.items():
        print(f"llama.cpp {kind}: {middle[kind]:.1f} tokens/s, hone {ours} {middle[ours]:.1f}: "
              f"{middle[ours] / middle[kind]:.2f} times as fast")


if __name__ == "__main__":
    main()
