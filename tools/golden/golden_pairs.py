"""Prompt and completion as one text, by the tokenizers library: tests/golden/text/pairs.json.

Usage: tools/golden/golden_pairs.py    (tokenizers 0.23.3)
For the tokenizers of made.json and components.json: {"tokenizer", "prompt", "completion", "ids", "first", "seams",
"diverges"}. `ids` are those of prompt + completion with special tokens, `first` is the first one that is learnt (by the
offsets, without trimming, and for bytes of a run, which share theirs, by `diverges`; their number when none is), `seams`
those that hold characters of both. `diverges` is where TRL 1.16 begins to learn: where the ids of the prompt alone and of both differ. It is earlier where ids before the completion
change because of it, and later where a token that holds some of it has the same id without it.
"""
import json
from pathlib import Path

from tokenizers import Tokenizer

TEXT = Path(__file__).resolve().parent.parent.parent / "tests/golden/text"
CASES = {"made.json": ["gpt2", "gpt2-trimmed", "llama3", "qwen", "NFD", "accents", "roberta", "bert-ends", "template", "llama2", "unknown-fused",
                       "metaspace-always", "metaspace-first", "metaspace-never", "suffix", "split-Removed", "added"],
         "components.json": ["bert", "bert-processing", "word-level", "unigram", "unigram-bytes", "unigram-roberta", "charsmap", "nmt",
                             "limits-template-LongestFirst-Right"]}
PAIRS = [("1+1=", "2"), ("a=", "b"), ("Hello ", "world"), ("Hello", " world"), ("日", "本"), ("", "x y"), ("", " x"), ("cafe", "\u0301 noir"), ("cafe\u0301", "\u0323"),
         ("the ", "  cat"), ("the\n", "\ncat"), ("on", "e two"), ("x", "   "), ("   ", "x"), ("a", "b</s>"), ("A.", "B."), ("don", "'t"), ("x", ""), ("the the ", "the")]


def tokenizer_of(config, with_ends):
    config = {"version": "1.0", **config, "truncation": None, "padding": None}
    if not with_ends:
        config["post_processor"] = None
    return Tokenizer.from_str(json.dumps(config))


def place_of(inner, outer):
    return next(k for k in range(len(outer) - len(inner) + 1) if outer[k:k + len(inner)] == inner)


def case(name, config, prompt, completion):
    plain, full = tokenizer_of(config, False), tokenizer_of(config, True)
    text, size = prompt + completion, len(prompt)
    inner, ids, alone = plain.encode(text), full.encode(text).ids, full.encode(prompt).ids
    if not inner.ids:
        return None
    at = place_of(inner.ids, ids)
    held = [i for i, (_, end) in enumerate(inner.offsets) if end > size or size == 0]
    first = at + held[0] if held else len(ids)
    seams = [at + i for i, (begin, end) in enumerate(inner.offsets) if begin < size < end and not inner.tokens[i].startswith("<0x")]
    same = next((i for i, (a, b) in enumerate(zip(alone, ids)) if a != b), min(len(alone), len(ids)))
    if held and size and inner.tokens[held[0]].startswith("<0x"):  # bytes of a run share its offsets
        first = max(first, same)
    return {"tokenizer": name, "prompt": prompt, "completion": completion, "ids": ids, "first": first, "seams": seams, "diverges": same}


def main():
    out = []
    for file, names in CASES.items():
        golden = json.loads((TEXT / file).read_text())
        for c in golden["cases"]:
            if c["name"] not in names:
                continue
            config = {**c["parts"], "model": golden["models"][c["model"]]}
            out += [made for pair in PAIRS if (made := case(c["name"], config, *pair))]
    (TEXT / "pairs.json").write_text("[\n" + ",\n".join(json.dumps(o, ensure_ascii=False) for o in out) + "\n]\n")
    print(len(out), "pairs,", sum(o["diverges"] < o["first"] for o in out), "where TRL learns earlier,", sum(o["diverges"] > o["first"] for o in out), "later,", sum(bool(o["seams"]) for o in out), "with a seam")


if __name__ == "__main__":
    main()
