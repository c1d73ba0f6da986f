#!/usr/bin/env python3
"""Trains byte-level BPE with `hone tokenizer train` and with the `tokenizers` library (0.23.3) on the same files and compares.

  compare_trainer.py HONE FILE...

For several sizes of the vocabulary: tokens with their ids and merges must be equal; prints the seconds of both. Exits 1
when they differ.
"""
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

hone, files, bad = sys.argv[1], sys.argv[2:], 0
for size, least in [(300, 0), (1000, 2), (5000, 0), (32000, 2)]:
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        subprocess.run([hone, "tokenizer", "train", *files, "--vocab-size", str(size), "--min-frequency", str(least), "--out", folder + "/made"], check=True, stdout=subprocess.DEVNULL)
        ours, middle = json.loads(Path(folder, "made/tokenizer.json").read_text()), time.perf_counter()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = [t["content"] for t in ours["added_tokens"]]
    tokenizer.train(files, trainers.BpeTrainer(vocab_size=size, min_frequency=least, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    end, theirs = time.perf_counter(), json.loads(tokenizer.to_str())["model"]
    equal = [theirs[k] == ours["model"][k] for k in ("vocab", "merges")]
    bad += not all(equal)
    print("%6d tokens, frequency %d: vocabulary %s, merges %s (%d tokens, hone %.2f s, library %.2f s)" % (size, least, *("equal" if e else "DIFFER" for e in equal), len(theirs["vocab"]), middle - begin, end - middle), flush=True)
sys.exit(bad > 0)
