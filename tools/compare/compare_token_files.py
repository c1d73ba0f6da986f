#!/usr/bin/env python3
"""Compares what hone makes of SentencePiece and tiktoken files with the libraries of that name (0.2.3, 0.14.0 or newer).

  compare_token_files.py PROGRAM [--texts TEXTS] [--made 5000] [--train CORPUS] [FILE...]

PROGRAM is tools/compare/tokenizer_lines.cc, built. A file is a SentencePiece model or, when it is text, a tiktoken file of as many
tokens as a known encoding has. --train also makes SentencePiece models of CORPUS with every option that changes texts.
Texts: --texts (what compare_tokenizers.py --write-texts made) and, for SentencePiece, made ones with punctuation in runs,
blanks, numbers, other scripts and the model's own user-defined, control and byte pieces. Compared: ids and decoded text, with
SentencePiece also those of the `tokenizers` library for the tokenizer.json that hone makes of the file. hone finds control
pieces in a text, which sentencepiece takes as characters: there, the texts between them are compared. The same pieces in another
order, which have the same score in Unigram, are counted apart: sentencepiece chooses by rounding. Exits 1 when others differ.
"""
import argparse
import base64
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer

GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
CL100K = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + r"*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = {50256: GPT2, 50280: GPT2, 100256: CL100K, 199998: O200K, 128000: CL100K, 151643: CL100K.replace("{1,3}", "")}

WORDS = ("the of and a to in is you that it he was for on are as with his they I at be this have from or one had by word but not what all were we when your can said there use an each which she do how "
         "their if will up other about out many then them these so some her would make like him into time has look two more write go see number no way could people my than first water been call who "
         "oil its now find long down day did get come made may part café naïve Straße 日本 語 東京 мир Привет Ωmega ßtraße l'eau don't it's e.g. U.S. x86_64 foo_bar ﬁne ① ½ ﾊ Ａ № 🙂 👍🏽 €5 £7 10% 3.14 1,000").split()
MARKS = list("()[]{}<>\"'`.,;:!?-_=+*/\\|&%$#@~^") + ["–", "—", "…", "“", "”", "„", "«", "»", "€", "£", "•", "→", "...", "--", "---", "====", "!!!", "??", "((", "))", "1+1=2", "\n", "\n\n", "\t", "\r\n"]
BLANKS = [" ", " ", " ", " ", "", "", "  ", "   ", "\n", "\t", "\u00a0", "\u3000", "\u2581"]
SYMBOLS = ["(", ")", '"', "-", ".", "–", "£", "€", "<sep>", "<cls>", "foo", "1+1"]
BLANK_RUNS = ["▁▁", "▁▁▁", "▁▁▁▁"]


class Tiktoken:
    def __init__(self, path):
        import tiktoken
        ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in path.read_bytes().splitlines() if line)}
        self.encoding = tiktoken.Encoding("it", pat_str=PATTERNS[len(ranks)], mergeable_ranks=ranks, special_tokens={})
        self.pieces, self.found = [], None

    def ask(self, text):
        ids = self.encoding.encode_ordinary(text)
        return ids, self.encoding.decode(ids)


class SentencePiece:
    def __init__(self, path):
        self.model = m = sentencepiece.SentencePieceProcessor(model_file=str(path))
        ids = range(m.get_piece_size())
        found = [m.id_to_piece(i) for i in ids if m.is_control(i) or m.is_unknown(i)]
        proto = sentencepiece_model_pb2.ModelProto()
        proto.ParseFromString(path.read_bytes())
        user = [p.piece for p in proto.pieces if p.type == p.USER_DEFINED]
        self.pieces = found + user * 3 + ["<0x41>", "<0x0A>"]
        self.found = re.compile("(" + "|".join(sorted(map(re.escape, found), key=len, reverse=True)) + ")")

    def ask(self, text):
        ids = []
        for i, part in enumerate(self.found.split(text)):
            ids += [self.model.piece_to_id(part)] if i % 2 else self.model.encode(part)
        return ids, None if any(map(self.model.is_unknown, ids)) else self.model.decode(ids)


def made_texts(pieces, count, seed):
    """As many texts of words, punctuation, blanks and pieces."""
    rng = random.Random(seed)
    for _ in range(count):
        parts = []
        for _ in range(rng.randrange(1, 16)):
            kind = rng.random()
            parts.append(rng.choice(WORDS) if kind < 0.55 else rng.choice(MARKS) * rng.choice([1, 1, 1, 2, 5]) if kind < 0.85 or not pieces else rng.choice(pieces))
            parts.append(rng.choice(BLANKS))
        yield "".join(parts)


def trained_models(corpus, folder):
    """Models with every option that changes what comes of a text."""
    options = {"plain": {}, "user": {"user_defined_symbols": SYMBOLS}, "identity": {"user_defined_symbols": SYMBOLS, "normalization_rule_name": "identity"},
               "control": {"control_symbols": ["<ctl>", "[INST]", "<|im|>"], "user_defined_symbols": SYMBOLS, "byte_fallback": True},
               "keep": {"byte_fallback": True, "split_digits": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False},
               "no-prefix": {"add_dummy_prefix": False, "user_defined_symbols": SYMBOLS, "byte_fallback": True},
               "no-prefix-keep": {"add_dummy_prefix": False, "remove_extra_whitespaces": False, "user_defined_symbols": SYMBOLS + BLANK_RUNS + ["\n", "\n\n"], "normalization_rule_name": "identity", "byte_fallback": True},
               "keep-user": {"remove_extra_whitespaces": False, "user_defined_symbols": SYMBOLS + BLANK_RUNS}, "nfkc_cf": {"normalization_rule_name": "nfkc_cf", "user_defined_symbols": SYMBOLS},
               "nmt_nfkc_cf": {"normalization_rule_name": "nmt_nfkc_cf"}, "nfkc": {"normalization_rule_name": "nfkc"},
               "across": {"split_by_whitespace": False, "split_by_unicode_script": False, "split_by_number": False},
               "blanks": {"allow_whitespace_only_pieces": True, "remove_extra_whitespaces": False}, "suffix": {"treat_whitespace_as_suffix": True}}
    for kind in ["unigram", "bpe", "char", "word"]:
        for name, extra in options.items():
            path = folder / ("%s-%s.model" % (kind, name))
            sentencepiece.SentencePieceTrainer.train(input=str(corpus), model_prefix=str(path.with_suffix("")), model_type=kind, vocab_size=500 if kind == "char" else 1500,
                                                     hard_vocab_limit=False, minloglevel=2, num_threads=1, **extra)
            yield path


def answers_of(program, path, questions):
    lines = "".join(json.dumps(q) + "\n" for q in questions)
    return [json.loads(line) for line in subprocess.run([program, str(path)], input=lines, capture_output=True, text=True).stdout.splitlines()]


def compare(program, path, texts, made):
    """How many texts differ, or nothing when hone refuses the file."""
    is_text = path.read_bytes()[:1].isalnum() or path.suffix == ".tiktoken"
    reference = (Tiktoken if is_text else SentencePiece)(path)
    if is_text:
        texts = [t for t in texts if "<" not in t and "[" not in t]
    else:
        texts = texts + list(made_texts(reference.pieces, made, 7))
    files, *answers = answers_of(program, path, [{"files": True}] + [{"text": t, "special": False} for t in texts])
    if "error" in files:
        print("%-40s refused: %s" % (path.name, files["error"][:200]), flush=True)
        return 0
    library = None if is_text else Tokenizer.from_str(dict(files)["tokenizer.json"])
    wrong, ties = abs(len(answers) - len(texts)), 0
    for text, got in zip(texts, answers):
        ids, decoded = reference.ask(text)
        mine = got.get("full", {}).get("ids")
        theirs = library.encode(text, add_special_tokens=False).ids if library else mine
        if mine == ids == theirs and (decoded is None or got["decoded"] == decoded) and got["stream"]:
            continue
        if mine == theirs and sorted(mine or []) == sorted(ids) and (decoded is None or got["decoded"] == decoded):
            ties += 1
            continue
        wrong += 1
        if wrong < 4:
            print("   ", json.dumps(text)[:300], "\n        got ", str(mine)[:300], json.dumps(got.get("decoded", got))[:200], "\n        want", str(ids)[:300], json.dumps(decoded)[:200],
                  "" if theirs == mine else "\n        library " + str(theirs)[:300])
    print("%-40s %6d of %d differ%s" % (path.name, wrong, len(texts), ", %d in the order of pieces" % ties if ties else ""), flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--texts", type=Path, help="JSON list: what compare_tokenizers.py --write-texts made")
    parser.add_argument("--made", type=int, default=5000, help="how many texts to make for a SentencePiece model")
    parser.add_argument("--train", type=Path, help="a text to train SentencePiece models of")
    args = parser.parse_args()
    texts = json.loads(args.texts.read_text()) if args.texts else []
    with tempfile.TemporaryDirectory() as folder:
        files = args.files + (list(trained_models(args.train, Path(folder))) if args.train else [])
        sys.exit(sum(compare(args.program, path, texts, args.made) for path in files) > 0)


if __name__ == "__main__":
    main()
