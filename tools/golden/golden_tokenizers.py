#!/usr/bin/env python3
"""Makes the goldens of tests/text and the Unicode tables of src/text from the `tokenizers` library (0.23.3).

  golden_tokenizers.py unicode           writes src/text/unicode/unicode_data.inc: the character classes the library really uses
  golden_tokenizers.py made              writes tests/golden/text/<case>.json: small tokenizers of our own, each with texts, ids,
                                         byte offsets and decoded text
  golden_tokenizers.py real DATA         writes tests/golden/text/real.json: ids of real tokenizers below DATA (a folder
                                         laid out as tests expect under HONE_TEST_DATA); only ids and hashes are kept
  golden_tokenizers.py compare DATA PROGRAM [N]
                                         N random texts per tokenizer through the library and PROGRAM, which reads lines
                                         {"tokenizer": path, "text": ...} and answers {"ids", "offsets", "decoded", "plain"}
"""
import json
import random
import subprocess
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden" / "text"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
SCRIPTS = "Han Hiragana Katakana Hangul Latin Greek Cyrillic Arabic Hebrew Thai Devanagari".split()


# ------------------------------------------------------------------------------------------------------ Unicode tables
def matched_by(pattern):
    """Code points that the library's regular expressions match alone."""
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    found = set()
    for i in range(0, len(CODE_POINTS), 65536):
        chunk = CODE_POINTS[i:i + 65536]
        for _, (begin, end) in split.pre_tokenize_str("".join(map(chr, chunk))):
            found.update(chunk[begin:end])
    return found


def isolated_by(pre_tokenizer):
    """Code points that a pre-tokenizer cuts off from the letters around them."""
    found = set()
    for i in range(0, len(CODE_POINTS), 32768):
        chunk = CODE_POINTS[i:i + 32768]
        pieces = {span for _, span in pre_tokenizer.pre_tokenize_str("a" + "a".join(map(chr, chunk)) + "a")}
        found.update(c for k, c in enumerate(chunk) if (2 * k + 1, 2 * k + 2) in pieces)
    return found


def ranges(points):
    out = []
    for c in sorted(points):
        if out and c == out[-1][1] + 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def write_unicode():
    category = {}
    for name in CATEGORIES:
        for c in matched_by(r"\p{%s}" % name) if name != "Cs" else range(0xD800, 0xE000):
            category[c] = name
    of = lambda *heads: {c for c, name in category.items() if name.startswith(heads)}
    runs = []
    for c in range(0x110000):
        if not runs or runs[-1][1] != category[c]:
            runs.append((c, category[c]))
    ascii_punctuation = {c for c in range(128) if chr(c) in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"}
    word = matched_by("[[:word:]]")
    strip = normalizers.StripAccents()
    marks = {c for c in CODE_POINTS if strip.normalize_str(chr(c)) == ""}
    lists = {  # name: what, code points
        "kWordExtra": ("word characters that are no L, M, Nd, Nl or Pc", word - of("L", "M", "Nd", "Nl", "Pc")),
        "kNumberExtra": ("numbers for Digits that are no N here (its table is newer)", isolated_by(pre_tokenizers.Digits(True)) - of("N")),
        "kNotPunctuation": ("P that Punctuation does not know (its table is older)",
                            of("P") - isolated_by(pre_tokenizers.Punctuation())),
        "kPunctuationExtra": ("no P, but Punctuation cuts there", isolated_by(pre_tokenizers.Punctuation()) - of("P") - ascii_punctuation),
        "kNotMark": ("M that the normalizers do not know (their table is Unicode 9)", of("M") - marks),
        "kMarkExtra": ("no M, but a combining mark for StripAccents", marks - of("M")),
    }
    assert not word ^ (matched_by(r"\w") - {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE}), "\\w"
    lines = [
        "// Character classes as Hugging Face's tokenizers 0.23.3 has them. Made by tools/golden/golden_tokenizers.py unicode.", "",
        "// General categories: {first code point, category}; each run goes on until the next.",
        "constexpr Run kCategories[] = {"]
    row = "    "
    for first, name in runs:
        item = "{0x%X,%s}," % (first, name)
        if len(row) + len(item) > 120:
            lines.append(row)
            row = "    "
        row += item
    lines += [row, "};"]
    for script in SCRIPTS:
        lists["k" + script] = ("script " + script, matched_by(r"\p{%s}" % script))
    for name, (what, points) in lists.items():
        lines += ["", "// %s." % (what[0].upper() + what[1:]), "constexpr Range %s[] = {" % name]
        row = "    "
        for first, last in ranges(points):
            item = "{0x%X,0x%X}," % (first, last)
            if len(row) + len(item) > 120:
                lines.append(row)
                row = "    "
            row += item
        lines += [row, "};"]
    (ROOT / "src" / "text" / "unicode" / "unicode_data.inc").write_text("\n".join(lines) + "\n")



# ------------------------------------------------------------------------------------------------------ texts
POOLS = [
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", "   \t\n\r\n\x0b\x0c\x1c\x1f", "'\"`,.;:!?()[]{}<>|/\\@#$%^&*-_=+~",
    "áéíóúñçüßøåœæŒÅİıſK", "e\u0301a\u0300\u0323o\u0308\u0304u\u031b\u0301\u0345\u0344", "абвгдёжзАБВЁ", "αβγδσςΣάΆᾂ", "你好世界漢字々〇", "かなカナｶﾞ",
    "한글각힣\u1100\u1161\u11a8\uac00\u11a7", "العربية١٢٣", "हिन्दी१२", "ไทย๑", "🎉👩‍👩‍👧🇩🇪👍🏽🀄", "\u00a0\u2003\u3000\u200b\u200d\u2028\u2029\u0085\ufeff\u1680",
    "ⅫⅷⒶ①²½¾٪", "ﬁﬃ㎏™Å", "\u0000\u0001\u007f\u0080\u009f\u00ad", "▁Ġ�\ufffe\U0010ffff\ue000", "𝒜𝟘𐐀𐐨𞤀", "\U0001e030\u32ff\U00011938\ua7cb\u1c89\U00016ea0",
]
PHRASES = [
    "Hello, world!", "it's we'll I'VE they'RE don'T he'D o'ſ 'LL", "The quick brown fox", "for (int i = 0; i < 10; ++i) {\n\treturn x[i];\n}", "  indented\n    more\n\n\n",
    "3.14159 1,000,000 0xFF", "http://example.org/a?b=c&d=%20", "Ünïcödé tëxt", "don't stop", "x\n\n  y", "   ", "\n", "a  b   c", "<s>", "</s>", "<unk>", "<|endoftext|>",
    "<|im_start|>user\nhi<|im_end|>", "<mask>", "[MASK]", "<0x0A>", "WORD", "word", "éa", "aaaaaaaaaaaa", "        ", "\r\n\r\n", "ΑΣ", "Straße", "ﬀ", "é", "e\u0301",
]


def random_text(rng):
    out = []
    for _ in range(rng.randrange(1, 12)):
        if rng.random() < 0.4:
            out.append(rng.choice(PHRASES))
        else:
            pool = rng.choice(POOLS)
            out.append("".join(rng.choice(pool) for _ in range(rng.randrange(1, 7))))
        if rng.random() < 0.3:
            out.append(" ")
        if rng.random() < 0.03:
            out.append(chr(rng.choice(CODE_POINTS)))
    return "".join(out)


def byte_offsets(text, offsets):
    starts = [0]
    for c in text:
        starts.append(starts[-1] + len(c.encode()))
    return [[starts[min(a, len(text))], starts[min(b, len(text))]] for a, b in offsets]


def ask(tokenizer, text):
    found = tokenizer.encode(text)
    return {"ids": found.ids, "offsets": byte_offsets(text, found.offsets), "decoded": tokenizer.decode(found.ids),
            "plain": tokenizer.decode(found.ids, skip_special_tokens=False)}


def load(path):
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


# ------------------------------------------------------------------------------------------------------ our own tokenizers
CORPUS = ["the quick brown fox jumps over the lazy dog", "hello world, it's the world of words", "don't they'll we've",
          "größe über naïve café", "def f(x):\n    return x + 1\n", "1234 5678 2024", "привет мир", "你好世界", "a  b   c    d"] * 3
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?"
         r"[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def trained(pre_tokenizer, size, normalizer=None, alphabet=(), **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    extra = {k: v for k, v in options.items() if k in ("continuing_subword_prefix", "end_of_word_suffix")}
    specials = ["<unk>"] if options.get("unk_token") else []
    specials += ["<0x%02X>" % b for b in range(256)] if options.get("byte_fallback") else []
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=list(alphabet), special_tokens=specials, **extra)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return json.loads(tokenizer.to_str())["model"]


def our_models():
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    byte = pre_tokenizers.ByteLevel(add_prefix_space=False)
    spaces = normalizers.Replace(" ", "▁")
    none = pre_tokenizers.Split("\n", "isolated")
    made = {
        "byte": trained(byte, 340, alphabet=sorted(alphabet)),
        "fallback": trained(none, 400, spaces, unk_token="<unk>", byte_fallback=True, fuse_unk=True),
        "char": trained(none, 110, spaces, unk_token="<unk>"),
        "fused": trained(none, 90, spaces, unk_token="<unk>", fuse_unk=True),
        "dropping": trained(none, 90, spaces),
        "words": trained(pre_tokenizers.Whitespace(), 110, unk_token="<unk>", end_of_word_suffix="</w>"),
        "pieces": trained(pre_tokenizers.Whitespace(), 110, unk_token="<unk>", continuing_subword_prefix="##"),
    }
    made["whole"] = dict(made["byte"], ignore_merges=True, vocab=dict(made["byte"]["vocab"]))
    made["whole"]["vocab"]["Ġfoxes"] = len(made["whole"]["vocab"])
    made["old"] = {"vocab": made["byte"]["vocab"], "merges": [" ".join(m) for m in made["byte"]["merges"]]}  # no type, merges as text
    return made


def token(id, content, special=True, **flags):
    return dict({"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": not special,
                 "special": special}, **flags)


def our_cases(made):
    """(name, model, parts): everything that tokenizer.json may hold, at least once."""
    byte_level = lambda prefix=False, trim=True, regex=True: {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": trim, "use_regex": regex}
    sequence = lambda key, *items: {"type": "Sequence", key: list(items)}
    split = lambda pattern, behavior="Isolated", invert=False, kind="Regex": {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}
    spell = byte_level(False, False, False)
    n = len(made["byte"]["vocab"])
    bos, eos = token(n, "<s>"), token(n + 1, "</s>")
    template = lambda *single: {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}} if s == "$" else {"SpecialToken": {"id": s, "type_id": 0}} for s in single],
                                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                                "special_tokens": {"<s>": {"id": "<s>", "ids": [n], "tokens": ["<s>"]}, "two": {"id": "two", "ids": [n, n + 1], "tokens": ["<s>", "</s>"]}}}
    replace = lambda pattern, content, kind="String": {"type": "Replace", "pattern": {kind: pattern}, "content": content}
    underline = sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, replace(" ", "▁"))
    metaspace = lambda scheme, cut=True: {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cut}
    llama_decoder = sequence("decoders", replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0})
    gpt2 = dict(pre_tokenizer=byte_level(), decoder=byte_level())
    yield "gpt2", "byte", dict(gpt2, post_processor=byte_level(True, False), added_tokens=[token(n, "<|endoftext|>", normalized=True)])
    yield "gpt2-trimmed", "byte", dict(gpt2, pre_tokenizer=byte_level(True), post_processor=byte_level(True, True))
    yield "gpt2-trimmed-plain", "byte", dict(gpt2, post_processor=byte_level(False, True))
    yield "no-type", "old", gpt2
    yield "llama3", "whole", dict(pre_tokenizer=sequence("pretokenizers", split(LLAMA3), spell), decoder=byte_level(),
                                  added_tokens=[token(n + 1, "<s>"), token(n + 2, "<|im_start|>")],
                                  post_processor=sequence("processors", byte_level(True, False), dict(template("<s>", "$"), special_tokens={"<s>": {"id": "<s>", "ids": [n + 1], "tokens": ["<s>"]}})))
    yield "qwen", "byte", dict(normalizer={"type": "NFC"}, pre_tokenizer=sequence("pretokenizers", split(QWEN), spell), decoder=byte_level(), post_processor=spell)
    for name, pattern in dict(o200k=O200K, deepseek=DEEPSEEK, quantifiers=r"\p{N}{1,3}+|\w{2}?|a{,2}b|[^\W_&&[^a-m]]+|(?i)HELLO|\s", anchors=r"^\w|\b'|\w$|(?m).+|[[:punct:]]\h*").items():
        yield "regex-" + name, "byte", dict(pre_tokenizer=sequence("pretokenizers", split(pattern), spell), decoder=byte_level())
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        yield "split-" + behavior, "byte", dict(pre_tokenizer=sequence("pretokenizers", split(r"\s+|[0-9]", behavior), spell))
        yield "split-inverted-" + behavior, "byte", dict(pre_tokenizer=sequence("pretokenizers", split(" ", behavior, True, "String"), spell))
        yield "punctuation-" + behavior, "byte", dict(pre_tokenizer=sequence("pretokenizers", {"type": "Punctuation", "behavior": behavior}, spell))
    yield "digits", "byte", dict(pre_tokenizer=sequence("pretokenizers", {"type": "Digits", "individual_digits": False}, {"type": "WhitespaceSplit"}, spell))
    yield "each-digit", "byte", dict(pre_tokenizer=sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, {"type": "Whitespace"}, spell))
    yield "bytes-then-more", "byte", dict(pre_tokenizer=sequence("pretokenizers", byte_level(True), {"type": "Digits", "individual_digits": True}))
    yield "bytes-normalizer", "byte", dict(normalizer=sequence("normalizers", {"type": "NFC"}, {"type": "ByteLevel"}), decoder=byte_level())
    for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase"):
        yield form, "byte", dict(normalizer={"type": form}, pre_tokenizer=byte_level(), decoder=byte_level(), added_tokens=[token(n, "WORD", False), token(n + 1, "éa", False, single_word=True)])
    yield "accents", "byte", dict(normalizer=sequence("normalizers", {"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": True}), pre_tokenizer=byte_level())
    yield "strip-left", "byte", dict(normalizer={"type": "Strip", "strip_left": True, "strip_right": False}, pre_tokenizer=byte_level(True))
    yield "replace", "byte", dict(normalizer=sequence("normalizers", replace(r"\s+", " ", "Regex"), replace("``", '"'), replace("o", ""), replace("fox", "wolves")), pre_tokenizer=byte_level())
    yield "added", "byte", dict(gpt2, normalizer={"type": "Lowercase"}, added_tokens=[
        token(n, "<s>"), token(n + 1, "</s>", lstrip=True), token(n + 2, "<mask>", lstrip=True, rstrip=True), token(n + 3, "word", False, single_word=True, normalized=False),
        token(n + 4, "Hello", False), token(n + 5, "hello, w", False, normalized=False), token(n + 6, "<s></s>", rstrip=True), token(n + 7, "  ", False, normalized=False)], post_processor=byte_level(False, True))
    around = dict(gpt2, added_tokens=[bos, eos])
    yield "roberta", "byte", dict(around, post_processor={"type": "RobertaProcessing", "sep": ["</s>", n + 1], "cls": ["<s>", n], "trim_offsets": True, "add_prefix_space": False})
    yield "bert-ends", "byte", dict(around, post_processor={"type": "BertProcessing", "sep": ["</s>", n + 1], "cls": ["<s>", n]})
    yield "template", "byte", dict(around, post_processor=template("two", "$", "<s>"))
    yield "llama2", "fallback", dict(normalizer=underline, decoder=llama_decoder, added_tokens=[token(0, "<unk>")])
    yield "unknown", "char", dict(normalizer=underline, decoder=metaspace("always"), added_tokens=[token(0, "<unk>")])
    yield "unknown-fused", "fused", dict(pre_tokenizer=metaspace("always"), decoder=metaspace("always"))
    yield "unknown-dropped", "dropping", dict(pre_tokenizer=metaspace("never", False), decoder=metaspace("never"))
    for scheme in ("always", "first", "never"):
        yield "metaspace-" + scheme, "fallback", dict(pre_tokenizer=metaspace(scheme), decoder=sequence("decoders", {"type": "ByteFallback"}, metaspace(scheme)), added_tokens=[token(0, "<unk>")])
        yield "metaspace-whole-" + scheme, "fallback", dict(pre_tokenizer=metaspace(scheme, False), decoder=metaspace(scheme), added_tokens=[token(0, "<unk>")])
    yield "metaspace-old", "fallback", dict(pre_tokenizer={"type": "Metaspace", "replacement": "▁", "str_rep": "▁", "add_prefix_space": True}, decoder={"type": "Metaspace", "replacement": "▁", "add_prefix_space": True})
    yield "suffix", "words", dict(normalizer={"type": "Lowercase"}, pre_tokenizer={"type": "Whitespace"}, decoder={"type": "BPEDecoder", "suffix": "</w>"})
    yield "prefix", "pieces", dict(pre_tokenizer={"type": "WhitespaceSplit"})
    yield "decoder-mix", "fallback", dict(normalizer=underline, decoder=sequence("decoders", {"type": "ByteFallback"}, {"type": "Strip", "content": "▁", "start": 0, "stop": 1}, replace("[aeiou]", "*", "Regex"), {"type": "Fuse"}, replace("▁", "_")))


def make_case(made, model, parts):
    config = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
              "post_processor": None, "decoder": None}
    config.update(parts)
    config["model"] = made[model]
    return config


FIXED = ["", " ", "Hello world, it's 1234 words", "  the  QUICK brown\n\nfox don'T\t", "größe ÜBER café e\u0301 o\u0302\u0323 \u1100\u1161\u11a8", "你好世界 привет 🎉👩‍👩‍👧 ﬁ ½ ①",
         "<s>foo </s> <mask> bar word words <s></s>  x", "``quoted'' \u00a0\u3000 \x00\x7f \ufffd İ ſ's <0x41>"]


def write_made():
    made = our_models()
    rng = random.Random(7)
    cases = []
    for name, model, parts in our_cases(made):
        config = make_case(made, model, parts)
        tokenizer = Tokenizer.from_str(json.dumps(config))
        texts = FIXED + [random_text(rng)[:32] for _ in range(2)]
        answers = [dict(text=t, **ask(tokenizer, t)) for t in texts]
        for a in answers:  # left out: decoded when it is the text, plain when it is decoded
            if a["plain"] == a["decoded"]:
                del a["plain"]
            if a["decoded"] == a["text"]:
                del a["decoded"]
        cases.append({"name": name, "model": model, "parts": parts, "answers": answers})
    write("made.json", {"models": made, "cases": cases})


def write(name, content):
    """JSON with one line per entry of each list or map at the second level."""
    lines = []
    for key, value in content.items():
        pairs = value.items() if isinstance(value, dict) else [(None, v) for v in value]
        rows = [("" if k is None else json.dumps(k) + ": ") + json.dumps(v, ensure_ascii=True, separators=(",", ":")) for k, v in pairs]
        brackets = "{}" if isinstance(value, dict) else "[]"
        lines.append("%s: %s\n%s\n%s" % (json.dumps(key), brackets[0], ",\n".join(rows), brackets[1]))
    (GOLDEN / name).write_text("{\n" + ",\n".join(lines) + "\n}\n")


# ------------------------------------------------------------------------------------------------------ real tokenizers
REAL = ["tokenizers/qwen3", "tokenizers/gpt2", "tokenizers/roberta-base", "tokenizers/mistral-7b-instruct", "tokenizers/minimind", "models/stories260K"]


def documents(data, name):
    """The texts of a data set, as the tests read them."""
    folder = Path(data) / "datasets" / name
    if name == "tinyshakespeare":
        return [(folder / "input.txt").read_text()]
    if name == "tinystories":
        return [row if isinstance(row, str) else row.get("story") or row["text"] for row in json.loads((folder / "tinystories_1000.json").read_text())]
    if name == "gsm8k":
        rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
        return [r["question"] + "\n" + r["answer"] for r in rows]
    return [m["value"] for c in json.loads((folder / "dummy_conversation.json").read_text()) for m in c["conversations"]]


def write_real(data):
    rng = random.Random(11)
    texts = PHRASES + [random_text(rng) for _ in range(60)]
    sets = ["tinystories", "tinyshakespeare", "gsm8k", "fastchat"]
    found = {}
    for name in REAL:
        tokenizer = load(Path(data) / name / "tokenizer.json")
        found[name] = {"ids": [tokenizer.encode(t).ids for t in texts],
                       "sets": {s: fold([e.ids for e in tokenizer.encode_batch(documents(data, s))]) for s in sets}}
    write("real.json", {"texts": texts, "tokenizers": found})


def fold(all_ids):
    """A hash that C++ repeats in one line: FNV-1a over the ids, 2^32 - 1 after each text."""
    h = 0xCBF29CE484222325
    for ids in all_ids:
        for i in ids + [0xFFFFFFFF]:
            h = ((h ^ i) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return "%016x" % h


# ------------------------------------------------------------------------------------------------------ comparison by hand
def compare(data, program, count):
    made = our_models()
    work = Path("/tmp/golden_tokenizers")
    work.mkdir(exist_ok=True)
    tokenizers = {name: Path(data) / name / "tokenizer.json" for name in REAL}
    for name, model, parts in our_cases(made):
        tokenizers[name] = work / (name + ".json")
        tokenizers[name].write_text(json.dumps(make_case(made, model, parts)))
    for name, path in tokenizers.items():
        tokenizer, rng, bad = load(path), random.Random(name), 0
        texts = [random_text(rng) for _ in range(count)]
        lines = "".join(json.dumps({"tokenizer": str(path), "text": t}) + "\n" for t in texts)
        answers = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
        for text, line in zip(texts, answers):
            got, want = json.loads(line), ask(tokenizer, text)
            if name == "unknown-dropped":  # the library's offsets are wrong behind a dropped character
                del want["offsets"]
            wrong = [k for k in want if got.get(k) != want[k]] + (["stream"] if got.get("stream") is False else []) + (["error"] if "error" in got else [])
            if wrong:
                bad += 1
                if bad <= 2:
                    print(name, wrong, json.dumps(text))
                    for k in wrong:
                        print("   ", k, "\n      got ", json.dumps(got.get(k))[:600], "\n      want", json.dumps(want.get(k))[:600])
        print("%-32s %d of %d differ" % (name, bad, len(texts)), flush=True)


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "unicode":
        write_unicode()
    elif what == "made":
        write_made()
    elif what == "real":
        write_real(sys.argv[2])
    elif what == "compare":
        compare(sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 1000)
    else:
        sys.exit(__doc__)
