#!/usr/bin/env python3
"""Compares hone's tokenizers with the `tokenizers` library (0.23.3) and prints every kind of difference.

  compare_tokenizers.py PROGRAM [--data DATA] [--random N] [--only NAME] [--made] [--more PATH...] [--folders]

PROGRAM is tools/compare/tokenizer_lines.cc, built. DATA holds tokenizers/ and datasets/ as tests expect under HONE_TEST_DATA.
Texts: the data sets, random strings over all planes, Unicode's normalisation and emoji tests, and awkward ones. Compared:
ids, offsets, decoded text, streaming, pairs with types, words, sequences, masks and overflow, truncation and padding.
--folders compares what the files beside tokenizer.json change (ids, decoded text) with transformers instead.
"""
import argparse
import bz2
import csv
import gc
import json
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "golden"))
import made_tokenizers  # noqa: E402
from golden_tokenizers import PHRASES, random_text  # noqa: E402

SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "[MASK]", "[CLS]", "[SEP]", "<mask>", "<|endoftext|>", "<|im_start|>", "<extra_id_0>", "[INST]"]
AWKWARD = ["", " ", "  ", "\n", "\r\n", "\r", "\t", "\0", "a\0b", "\u0301", "e\u0301\u0301", "\u0301a", "\u200d", "👩\u200d👩", "👩\u200d", "\u200da", "\ufeff", "\ufeffa", "a\ufeff",
           " a", "a ", " a ", "  a  b  ", "\u00a0a\u00a0", "\u3000a\u3000", "\u2028a\u2029", "a\r\nb", "\r\na", "\x7f", "\x01\x02", "\u0085", "x\u0085y", "\ufffd", "\U0010ffff", "\ue000",
           "﷽", "ﷺ", "ﬃ", "Å", "각", "\u1100\u1161\u11a8", "İ", "ΑΣ", "ß", "ſ", "ı", "ǅ", "🇩🇪🇫🇷", "👍🏽", "1️⃣", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
           "a" * 300, " " * 100, "\n" * 50, "é" * 200, "你" * 200, "🎉" * 60, "\u0301" * 60, "1" * 100, "." * 120, "ab" * 150, "▁", "▁▁a", "Ġ", "##a", "<0x41>", "<0x0A>", "don't", "it's",
           "a\u0345\u0323\u0301b", "\u0323\u0302a", "\u0f71\u0f74\u0f72", "क्षि", "क़\u0301", "©\u200d©", "\u0600x", "\u0600\u0301", "x\u0903", "\r\u0301", "\n\u0301", "™\u0301", "½\u0301", "\u1100\u0301",
           "\u115f\u1160", "\uffa0", "\u00ad", "a\u00adb", "\u202eabc", "ＡＢＣ", "ｶﾞ", "㍿", "①", "ﾡ", "\ud7ff", "𝒜", "𐐀", "\U0001d15e", "\U0002f800", "豈"]

WORK = Path(tempfile.mkdtemp(prefix="compare_tokenizers"))


def data_texts(data, limit):
    """Texts of all data sets: every string of every record, at most `limit` characters a data set (0: all)."""
    for folder in sorted((data / "datasets").iterdir()):
        left = limit or 1 << 60
        for file in sorted(folder.rglob("*")):
            for text in strings_of(file):
                if left <= 0:
                    break
                left -= len(text)
                yield text


def strings_of(file):
    try:
        if file.suffix in (".json", ".jsonl"):
            content = file.read_text()
            rows = [json.loads(content)] if file.suffix == ".json" else [json.loads(line) for line in content.splitlines() if line.strip()]
            yield from walk(rows)
        elif file.suffix == ".parquet":
            import pyarrow.parquet
            yield from walk(pyarrow.parquet.read_table(file).to_pylist())
        elif file.suffix in (".csv", ".tsv"):
            for row in csv.reader(file.open()):
                yield from row
        elif file.is_file():
            content = file.read_text()
            yield from (content[i:i + 4000] for i in range(0, len(content), 4000))
    except (UnicodeDecodeError, json.JSONDecodeError, ImportError):
        return


def walk(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from walk(v)
    elif isinstance(value, list):
        for v in value:
            yield from walk(v)


def normalization_texts():
    """As NormalizationTest: characters with a decomposition, their forms, and marks in all orders."""
    marks = [chr(c) for c in range(0x110000) if unicodedata.combining(chr(c))]
    rng = random.Random(5)
    for c in range(0xA0, 0x110000):
        char = chr(c)
        if not unicodedata.decomposition(char) and not unicodedata.combining(char):
            continue
        yield char
        yield unicodedata.normalize("NFD", char) + rng.choice(marks) + unicodedata.normalize("NFKD", char)
        yield "a" + rng.choice(marks) + char + rng.choice(marks) + rng.choice(marks) + "b"


def unicode_texts(folder):
    """Every field of NormalizationTest, every sequence of the emoji tests: Debian's unicode-data has them."""
    test = folder / "NormalizationTest.txt"
    content = test.read_text() if test.exists() else bz2.open(str(test) + ".bz2", "rt").read()
    for file in sorted((folder / "emoji").glob("emoji-*.txt")):
        content += file.read_text()
    for line in content.splitlines():
        fields = line.split("#")[0].split(";")[:5]
        for field in fields if len(fields) == 5 else fields[:1]:
            ends = field.strip().split("..")
            if len(ends) == 2:
                yield from map(chr, range(int(ends[0], 16), int(ends[1], 16) + 1))
            elif ends[0] and not ends[0].startswith("@"):
                yield "".join(chr(int(c, 16)) for c in ends[0].split())


def emoji_texts():
    rng = random.Random(6)
    people = [chr(c) for r in (range(0x1F400, 0x1F64F), range(0x1F900, 0x1F9FF), range(0x2600, 0x27BF)) for c in r]
    parts = ["\u200d", "\ufe0f", "\u20e3", "\U0001f3fb", "\U0001f3ff", "\u2640", "♂️", "❤️", "🇦", "🇧", "🇨"]
    for _ in range(3000):
        yield "".join(rng.choice(people if rng.random() < 0.5 else parts) for _ in range(rng.randrange(1, 8)))


def random_texts(count, seed=9):
    rng = random.Random(seed)
    planes = [(0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x2FFFF), (0x30000, 0xDFFFF), (0xE0000, 0x10FFFF)]
    for i in range(count):
        if i % 2:
            text = random_text(rng)
            if rng.random() < 0.2:
                text += rng.choice(SPECIAL) + rng.choice(["", " ", "x"]) + random_text(rng)[:20]
            yield text
        else:
            yield "".join(chr(rng.randint(*rng.choice(planes))) for _ in range(rng.randrange(1, 24)))


def full(e):
    out = {"ids": e.ids, "types": e.type_ids, "words": [-1 if w is None else w for w in e.word_ids], "sequences": [-1 if s is None else s for s in e.sequence_ids],
           "special": e.special_tokens_mask, "attention": e.attention_mask, "offsets": [list(o) for o in e.offsets]}
    if e.overflowing:
        out["overflow"] = [full(o) for o in e.overflowing]
    return out


def ask(tokenizer, plain, question):
    try:
        out, ids = {}, question.get("ids")
        if ids is None:
            if "pair" not in question:
                e = plain.encode(question["text"])
                out.update(ids=e.ids, offsets=[list(o) for o in e.offsets])
                ids = e.ids
            pair = question.get("pair")
            special = question.get("special", True)
            found = tokenizer.encode(question["text"], pair, add_special_tokens=special) if pair is not None else tokenizer.encode(question["text"], add_special_tokens=special)
            out["full"] = full(found)
        out.update(decoded=plain.decode(ids or []), plain=plain.decode(ids or [], skip_special_tokens=False), stream=True)
        return out
    except BaseException as error:  # a panic of the library is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return {"error": str(error), "panic": "bad split" in str(error)}


def questions(texts, rng, size, truncates):
    for i, text in enumerate(texts):
        question = {"text": text}
        if i % (250 if truncates and i > 2000 else 5) == 1:
            question["pair"] = rng.choice(texts)[:300]
            if truncates:  # each part of the text comes with each of the pair's, and parts hold parts
                question = {"text": text[:60], "pair": question["pair"][:20]}
        if i % 7 == 1:
            question["special"] = False
        if i % 11 == 3:
            question = {"ids": [rng.randrange(size + 5) for _ in range(rng.randrange(12))]}
        yield question


def differences(got, want, ignore):
    if "error" in want and ("error" in got or want["panic"]):  # after "bad split" the library has no answer to compare
        return []
    wrong = [k for k in sorted(set(want) | set(got)) if got.get(k) != want.get(k) and k not in ignore]
    if "full" in wrong and "full" in got and "full" in want:
        wrong.remove("full")
        wrong += ["full." + k for k in want["full"] | got["full"] if got["full"].get(k) != want["full"].get(k) and "full." + k not in ignore]
    return wrong


def show(name, question, wrong, got, want):
    print("   ", name, wrong, json.dumps(question)[:300])
    for k in wrong:
        pick = lambda d: d.get(k) if "." not in k else d["full"].get(k[5:])
        print("        ", k, "\n            got ", json.dumps(pick(got))[:400], "\n            want", json.dumps(pick(want))[:400])


def compare_answers(name, path, program, asked, reference, ignore=()):
    kinds, bad = {}, 0
    for begin in range(0, len(asked), 5000):  # answers are large
        some = asked[begin:begin + 5000]
        lines = "".join(json.dumps(q) + "\n" for q in some)
        answers = subprocess.run([program, str(path)], input=lines, capture_output=True, text=True).stdout.splitlines()
        bad += abs(len(some) - len(answers))
        for question, line in zip(some, answers):
            got, want = json.loads(line), reference(question)
            wrong = differences(got, want, ignore)
            if not wrong:
                continue
            bad += 1
            if kinds.setdefault(tuple(wrong), 0) < 2:
                show(name, question, wrong, got, want)
            kinds[tuple(wrong)] += 1
    print("%-28s %6d of %d differ %s" % (name, bad, len(asked), {",".join(k): n for k, n in kinds.items()} or ""), flush=True)
    return bad


def compare(name, path, program, texts, ignore=()):
    """With the library, which knows only tokenizer.json: a copy of it, without the files beside it."""
    alone = WORK / (name + ".json")
    alone.write_text(Path(path).read_text())
    tokenizer, plain = Tokenizer.from_file(str(path)), Tokenizer.from_file(str(path))
    plain.no_truncation()
    plain.no_padding()
    asked = list(questions(texts, random.Random(name), tokenizer.get_vocab_size(), bool(tokenizer.truncation)))
    return compare_answers(name, alone, program, asked, lambda q: ask(tokenizer, plain, q), ignore)


def compare_folder(name, folder, program, texts):
    """With transformers, which reads the files beside tokenizer.json too."""
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(str(folder))

    def reference(question):
        ids = tokenizer(question["text"])["input_ids"]
        return {"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=True), "plain": tokenizer.decode(ids), "stream": True}
    return compare_answers(name, folder, program, [{"text": t} for t in texts], reference, ("full", "offsets"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--random", type=int, default=2000)
    parser.add_argument("--characters", type=int, default=200_000, help="of each data set; 0: all")
    parser.add_argument("--only", default="")
    parser.add_argument("--made", action="store_true")
    parser.add_argument("--all-normal", action="store_true")
    parser.add_argument("--more", type=Path, nargs="*", default=[])
    parser.add_argument("--folders", action="store_true")
    parser.add_argument("--write-texts", type=Path, help="only write the texts, for compare_token_files.py")
    parser.add_argument("--unicode", type=Path, default="/usr/share/unicode")
    args = parser.parse_args()
    gc.disable()  # answers have no cycles, and are many
    normal = list(normalization_texts())
    fixed = AWKWARD + PHRASES + list(made_tokenizers.cluster_texts(args.random // 20)) + list(emoji_texts())[:args.random] + (normal + list(unicode_texts(args.unicode)) if args.all_normal else normal[::97])
    small = lambda name: fixed + list(random_texts(args.random, name))
    if args.write_texts:
        args.write_texts.write_text(json.dumps(small("texts") + (list(data_texts(args.data, args.characters)) if args.data else [])))
        return
    bad, large = 0, list(data_texts(args.data, args.characters)) if args.data else []
    if args.made:
        for name, config in made_tokenizers.all_tokenizers():
            if args.only in name:
                (WORK / "made.json").write_text(json.dumps(config))
                bad += compare(name, WORK / "made.json", args.program, small(name) + large, made_tokenizers.IGNORED.get(name, ()))
    if args.data:
        for path in sorted(args.data.glob("tokenizers/*/tokenizer.json")) + sorted(args.data.glob("models/*/tokenizer.json")):
            name = path.parent.name
            if args.only in name:
                texts = small(name) + large
                bad += compare_folder(name, path.parent, args.program, texts) if args.folders else compare(name, path, args.program, texts)
    for path in args.more:
        if args.only in str(path):
            name = path.stem if path.stem != "tokenizer" else path.parent.name
            bad += compare(name, path, args.program, small(name) + large)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
