#!/usr/bin/env python3
"""Compares what hone makes of SentencePiece and tiktoken files with the libraries of that name (0.2.3, 0.14.0 or newer).

  compare_token_files.py PROGRAM --texts TEXTS FILE...

PROGRAM is tools/tokenizer_lines.cc, built. A file is a SentencePiece model or, when it is text, a tiktoken file of as many
tokens as a known encoding has. Compared: ids and decoded text. Texts with the files' special tokens are left out, because
the libraries do not look for them. Exits 1 when they differ.
"""
import argparse
import base64
import json
import subprocess
import sys
from pathlib import Path

import sentencepiece
import tiktoken

GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
CL100K = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + r"*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = {50256: GPT2, 50280: GPT2, 100256: CL100K, 199998: O200K, 128000: CL100K, 151643: CL100K.replace("{1,3}", "")}


class Tiktoken:
    def __init__(self, path):
        ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in path.read_bytes().splitlines() if line)}
        self.encoding = tiktoken.Encoding("it", pat_str=PATTERNS[len(ranks)], mergeable_ranks=ranks, special_tokens={})

    def ask(self, text):
        ids = self.encoding.encode_ordinary(text)
        return ids, self.encoding.decode(ids)


class SentencePiece:
    def __init__(self, path):
        self.model = sentencepiece.SentencePieceProcessor(model_file=str(path))

    def ask(self, text):
        ids = self.model.encode(text)
        return ids, self.model.decode(ids)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--texts", type=Path, required=True, help="JSON list: what compare_tokenizers.py --write-texts made")
    args = parser.parse_args()
    texts, bad = [t for t in json.loads(args.texts.read_text()) if "<" not in t and "[" not in t], 0
    for path in args.files:
        is_text = path.read_bytes()[:1].isalnum() or path.suffix == ".tiktoken"
        reference = (Tiktoken if is_text else SentencePiece)(path)
        lines = "".join(json.dumps({"text": t, "special": False}) + "\n" for t in texts)
        answers = subprocess.run([args.program, str(path)], input=lines, capture_output=True, text=True).stdout.splitlines()
        wrong = abs(len(answers) - len(texts))
        for text, line in zip(texts, answers):
            got, (ids, decoded) = json.loads(line), reference.ask(text)
            mine = got.get("full", {}).get("ids")
            if mine == ids and got["decoded"] == decoded:
                continue
            wrong += 1
            if wrong < 4:
                print("   ", json.dumps(text)[:200], "\n        got ", str(mine)[:300], json.dumps(got.get("decoded", got))[:200], "\n        want", str(ids)[:300], json.dumps(decoded)[:200])
        print("%-40s %6d of %d differ" % (path.name, wrong, len(texts)), flush=True)
        bad += wrong
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
