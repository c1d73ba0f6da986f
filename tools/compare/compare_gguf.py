#!/usr/bin/env python3
"""compare_gguf.py [--type TYPE] [GOLDEN...]: `hone export --gguf` against llama.cpp, which opens the files.

Of goldens of models (default: all of tests/golden/gguf/families.json): llama.cpp's logits of the golden's batch are
those of transformers, within 1e-3 of the largest (fp32 files). With HONE_TEST_DATA also stories260K, a trained Llama:
the same greedy text as `hone generate`, and texts cut into the same tokens by tokenizers of HONE_TEST_DATA. Needs a
built hone and `pip install llama-cpp-python safetensors tokenizers`. Exits 1 when something differs.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
HONE = os.environ.get("HONE", str(ROOT / "build" / "release" / "hone"))
TEXTS = ["Hello world", "  two blanks, 12345 and 3.14", "naïve Zürich 你好 👍\n\nline", "def f(x):\n    return x  # it's"]
# Goldens with windows of five tokens, which llama.cpp does not have of these types; with yarn and longrope over so few
# positions that how it rounds them counts.
KNOWN = {"decoders/starcoder2", "decoders/phi3-partial", "decoders/phi3-longrope", "decoders/gpt_oss"}
KNOWN |= {"decoders/ministral3", "decoders/gemma4-moe"}
LOGITS = """
import sys, numpy, llama_cpp
model, ids, out = sys.argv[1:]
ids = numpy.load(ids)
llm = llama_cpp.Llama(model, n_ctx=max(64, ids.shape[1] + 8), n_batch=512, logits_all=True, verbose=False)
made = []
for row in ids:
    llm.reset()
    llm.eval([int(i) for i in row])
    made.append(numpy.array(llm.scores[: len(row)]))
numpy.save(out, numpy.stack(made))
"""


def byte_characters():
    return [chr(b) for b in [*range(33, 127), *range(161, 173), *range(174, 256)]]


def tokenizer(rows):
    """Of as many tokens as the model has rows; no text is cut with it."""
    characters = byte_characters()
    vocab = {text: i for i, text in enumerate((characters + ["Ġ" + c for c in characters])[: rows - 1])}
    vocab["Ċ"] = len(vocab)
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    model = {"type": "BPE", "vocab": vocab, "merges": []}
    return {"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "decoder": level, "model": model}


def export(folder, out, file_type):
    done = subprocess.run(
        [HONE, "export", str(folder), "--out", str(out), "--gguf", file_type, "--quiet"], capture_output=True, text=True
    )
    return "" if done.returncode == 0 else done.stderr.strip().split("\n")[0]


def compare_logits(golden, file_type):
    from safetensors.numpy import load_file

    wanted = load_file(golden / "golden.safetensors")
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        shutil.copytree(golden, work / "model", ignore=shutil.ignore_patterns("golden*", "packing*"))
        rows = json.loads((work / "model" / "config.json").read_text())["vocab_size"]
        (work / "model" / "tokenizer.json").write_text(json.dumps(tokenizer(rows)))
        (work / "model" / "tokenizer_config.json").write_text('{"eos_token": "!"}')
        if refused := export(work / "model", work / "model.gguf", file_type):
            return f"refused: {refused[:200]}"
        np.save(work / "ids.npy", wanted["input_ids"])
        files = [str(work / name) for name in ("model.gguf", "ids.npy", "out.npy")]
        done = subprocess.run([sys.executable, "-c", LOGITS, *files], capture_output=True, text=True)
        if done.returncode != 0:
            return f"LLAMA.CPP FAILS: {done.stderr.strip().splitlines()[-1][:150]}"
        whole = wanted["attention_mask"].astype(bool).all(1)  # rows without padding
        got, wanted = np.load(work / "out.npy")[whole], wanted["logits"][whole]
        error = np.abs(got - wanted).max() / np.abs(wanted).max()
        return f"{'ok' if error < 1e-3 else 'DIFFERS'}: {error:.1e}"


def compare_stories(data):
    import llama_cpp

    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "stories.gguf"
        if refused := export(data / "models" / "stories260K", out, "f32"):
            return f"REFUSED: {refused}"
        llm = llama_cpp.Llama(str(out), n_ctx=256, verbose=False)
        prompt = "Once upon a time"
        got = llm(prompt, max_tokens=100, temperature=0)["choices"][0]["text"]
        done = subprocess.run(
            [HONE, "generate", str(data / "models" / "stories260K"), "--prompt", prompt, "--max-new-tokens", "100",
             "--temperature", "0", "--quiet"], capture_output=True, text=True)  # fmt: skip
        wanted = done.stdout.strip()
        same = bool(got.strip()) and got.strip() in wanted
        return "ok: " + got[:60] if same else f"DIFFERS: {got!r} {wanted!r} {done.stderr}"


def compare_tokens(source):
    import llama_cpp
    import tokenizers

    with tempfile.TemporaryDirectory() as temporary:
        model, out = Path(temporary) / "model", Path(temporary) / "model.gguf"
        model.mkdir()
        for name in ("tokenizer.json", "tokenizer_config.json"):
            if (source / name).exists():
                shutil.copy(source / name, model / name)
        wanted = tokenizers.Tokenizer.from_file(str(source / "tokenizer.json"))
        rows = max(wanted.get_vocab(with_added_tokens=True).values()) + 1
        sizes = [f"--model.{key}={value}" for key, value in
                 {"type": "llama", "vocab_size": rows, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
                  "num_attention_heads": 1, "num_key_value_heads": 1}.items()]  # fmt: skip
        command = [HONE, "init", str(model / "made"), *sizes, "--tokenizer", str(model), "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return f"FAILS: {done.stderr.strip()}"
        if refused := export(model / "made", out, "f16"):
            return f"refused: {refused[:150]}"
        llm = llama_cpp.Llama(str(out), vocab_only=True, verbose=False)
        for text in TEXTS:
            got = llm.tokenize(text.encode(), add_bos=False, special=False)
            if got != wanted.encode(text, add_special_tokens=False).ids:
                return f"DIFFERS: {text!r}: {got} {wanted.encode(text, add_special_tokens=False).ids}"
        return "ok"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--type", default="f32")
    parser.add_argument("goldens", nargs="*")
    flags = parser.parse_args()
    families = json.loads((ROOT / "tests" / "golden" / "gguf" / "families.json").read_text())
    names = flags.goldens or [name for name in families if " " not in name]
    bad = False
    for name in names:
        result = compare_logits(ROOT / "tests" / "golden" / name, flags.type)
        bad |= not result.startswith(("ok", "refused")) and name not in KNOWN
        print(name, result, flush=True)
    if not flags.goldens and os.environ.get("HONE_TEST_DATA"):
        data = Path(os.environ["HONE_TEST_DATA"])
        results = {"stories260K": compare_stories(data)}
        for source in sorted((data / "tokenizers").iterdir()):
            results[f"tokens of {source.name}"] = compare_tokens(source)
        for name, result in results.items():
            bad |= not result.startswith(("ok", "refused"))
            print(name, result)
    sys.exit(bad)


if __name__ == "__main__":
    main()
