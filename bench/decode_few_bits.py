#!/usr/bin/env python3
"""Decoding one row from weights in fewer bits beside the same weights in bf16: alternating processes.

  OMP_NUM_THREADS=2 python bench/decode_few_bits.py --hone build/release/hone [--rounds 3] [--tokens 128]

The model: a Llama of 723 M parameters (hidden 2,048, 16 layers, 259 tokens), of random weights. Prints the tokens a
second of each round, their medians, and what of them bf16's is. What waits for memory should go with the bits.
"""
import argparse
import re
import statistics
import subprocess
import tempfile

SHAPE = dict(hidden_size=2048, intermediate_size=5632, num_hidden_layers=16, num_attention_heads=32,
             num_key_value_heads=8, max_position_embeddings=2048)
KINDS = ["stored", "int8", "nf4", "fp4"]


def rate(options, model, kind):
    done = subprocess.run([options.hone, "generate", model, "--quantization", kind, "--prompt", "Once upon a time",
                           "--max-new-tokens", str(options.tokens), "--ignore-eos", "--temperature", "0", "--stats"],
                          capture_output=True, text=True, check=True)
    return float(re.search(r"generation: .* ([0-9.]+) tokens/s", done.stderr).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=128)
    options = parser.parse_args()
    rates = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        sizes = [f"--model.{key}={value}" for key, value in SHAPE.items()]
        model = f"{folder}/model"
        subprocess.run([options.hone, "init", model, "--model.type=llama", "--tokenizer", "bytes", "--precision",
                        "bf16", *sizes], check=True, capture_output=True)
        for _ in range(options.rounds):
            for kind in KINDS:
                rates[kind].append(rate(options, model, kind))
                print(f"{kind:8} {rates[kind][-1]:7.1f} tokens/s", flush=True)
    middle = {kind: statistics.median(values) for kind, values in rates.items()}
    for kind in KINDS[1:]:
        print(f"{kind}: {middle[kind]:.1f} tokens/s, bf16 {middle['stored']:.1f}: "
              f"{middle[kind] / middle['stored']:.2f} times as fast")


if __name__ == "__main__":
    main()
