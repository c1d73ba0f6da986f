"""Small tokenizers that together use every component and option of tokenizer.json, for tests and comparisons.

all_tokenizers() gives (name, tokenizer.json as a dict). Those of golden_tokenizers.py (byte-pair encoding and what
goes with it) come first, then the other models, normalizers, pre-tokenizers, decoders and sections.
"""
import base64
import json
import random

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import golden_tokenizers as golden
from charsmap import charsmap

# A made tokenizer whose reference is wrong in a way that hone does not repeat (docs/formats.md): parts not compared.
IGNORED = {"unknown-dropped": ("offsets", "full.offsets")}

CORPUS = golden.CORPUS + ["the quick brown foxes were jumping", "naïve café résumé Größe", "你好 世界 こんにちは カタカナ", "x = y * 2; // comment", "[CLS] [SEP] , . ! ?"]


def trained(model, trainer, pre_tokenizer=None, normalizer=None):
    tokenizer = Tokenizer(model)
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(CORPUS, trainer)
    return json.loads(tokenizer.to_str())["model"]


def word_piece(size=150):
    """By hand: the library's WordPiece trainer is not repeatable."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted({w for line in CORPUS for w in "".join(c.lower() if c.isalnum() else " " for c in line).split()})
    rng = random.Random(3)
    letters = sorted({c for w in words for c in w})
    pieces = specials + letters + ["##" + c for c in letters] + sorted({w[:rng.randrange(1, 5)] for w in words} | {"##" + w[-rng.randrange(2, 4):] for w in words if len(w) > 2} | set(words[::3]))
    vocab = {}
    for p in pieces + [".", ",", "!", "'", "#", "##"]:
        vocab.setdefault(p, len(vocab))
    return {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 20, "vocab": vocab}


def unigram(byte_fallback=False, unk=True):
    rng = random.Random(4)
    text = " ".join(CORPUS).replace(" ", "▁")
    counts = {}
    for n in range(1, 6):
        for i in range(len(text) - n + 1):
            counts[text[i:i + n]] = counts.get(text[i:i + n], 0) + n
    pieces = sorted(counts, key=lambda p: (-counts[p], p))[:400]
    vocab = [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]]
    if byte_fallback:
        vocab += [["<0x%02X>" % b, 0.0 - 20] for b in range(256)]
    vocab += [[p, -1.5 * rng.random() * 8 - 1] for p in pieces]
    return {"type": "Unigram", "unk_id": 2 if unk else None, "vocab": vocab, "byte_fallback": byte_fallback}


def config(model, **parts):
    out = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None}
    out.update(parts)
    out["model"] = model
    return out


def sequence(key, *items):
    return {"type": "Sequence", key: list(items)}


def bert(**flags):
    return dict({"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}, **flags)


def metaspace(scheme="always", split=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


def template(single, pair, ids):
    piece = lambda p: {"Sequence": {"id": p[1], "type_id": int(p[2:] or 0)}} if p[0] == "$" else {"SpecialToken": {"id": p.split(":")[0], "type_id": int((p.split(":") + ["0"])[1])}}
    return {"type": "TemplateProcessing", "single": [piece(p) for p in single.split()], "pair": [piece(p) for p in pair.split()],
            "special_tokens": {k: {"id": k, "ids": [v], "tokens": [k]} for k, v in ids.items()}}


def truncation(length, strategy="LongestFirst", stride=0, direction="Right"):
    return {"direction": direction, "max_length": length, "strategy": strategy, "stride": stride}


def padding(strategy="BatchLongest", direction="Right", multiple=None):
    return {"strategy": strategy, "direction": direction, "pad_to_multiple_of": multiple, "pad_id": 0, "pad_type_id": 3, "pad_token": "[PAD]"}


def some_charsmap():
    """Replacements of every kind that SentencePiece has: to nothing, to one, to many, of several characters."""
    return base64.b64encode(charsmap({
        "\u00a0": " ", "\t": " ", "\r": " ", "\n": " ", "\x01": "", "\x1e": "", "\u200b": "", "\ufeff": "", "™": "TM", "½": "1/2", "①": "1", "ﬁ": "fi", "Å": "Å", "é": "e", "e\u0301": "é", "カ\u3099": "ガ",
        "ﷺ": "صلى الله عليه وسلم", "A": "a", "B": "b", "ß": "ss", "\u0301": "", "각": "각", "क": "K", "𝒜": "A", "\u1100": "G", "©": "(c)", "\u0600": "N"})).decode()


def other_models():
    wp = word_piece()
    ids = wp["vocab"]
    specials = [golden.token(i, t) for t, i in ids.items() if i < 5]
    cls = template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B1 [SEP]:1", {"[CLS]": ids["[CLS]"], "[SEP]": ids["[SEP]"]})
    words = dict(normalizer=bert(), pre_tokenizer={"type": "BertPreTokenizer"}, decoder={"type": "WordPiece", "prefix": "##", "cleanup": True}, added_tokens=specials)
    yield "bert", config(wp, **words, post_processor=cls)
    yield "bert-cased", config(wp, **dict(words, normalizer=bert(lowercase=False, strip_accents=False), decoder={"type": "WordPiece", "prefix": "##", "cleanup": False}))
    yield "bert-accents", config(wp, **dict(words, normalizer=bert(lowercase=False, strip_accents=True, handle_chinese_chars=False)))
    yield "bert-unclean", config(wp, **dict(words, normalizer=bert(clean_text=False, strip_accents=False)))
    yield "bert-processing", config(wp, **words, post_processor={"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})
    yield "word-piece-no-type", config({k: v for k, v in wp.items() if k != "type"}, **words)
    yield "word-piece-prefix", config(dict(wp, continuing_subword_prefix=""), **dict(words, decoder={"type": "WordPiece", "prefix": "", "cleanup": True}))
    level = {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(["<unk>"] + sorted({w for line in CORPUS for w in line.split()}))}, "unk_token": "<unk>"}
    yield "word-level", config(level, pre_tokenizer={"type": "WhitespaceSplit"})
    yield "word-level-no-type", config({k: v for k, v in level.items() if k != "type"}, pre_tokenizer={"type": "Whitespace"}, normalizer={"type": "Nmt"})
    t5 = dict(normalizer={"type": "Precompiled", "precompiled_charsmap": some_charsmap()}, pre_tokenizer=sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace()), decoder=metaspace())
    yield "unigram", config(unigram(), **t5, post_processor=template("$A </s>", "$A </s> $B </s>", {"</s>": 1}))
    yield "unigram-bytes", config(unigram(True), **dict(t5, decoder=sequence("decoders", {"type": "ByteFallback"}, metaspace())))
    yield "unigram-whole", config(unigram(), normalizer=sequence("normalizers", {"type": "Nmt"}, {"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}), pre_tokenizer=metaspace("first", False), decoder=metaspace("first"))
    yield "unigram-no-unk", config(unigram(unk=False), **t5)
    yield "unigram-no-type", config({k: v for k, v in unigram().items() if k != "type"}, **t5)
    yield "unigram-roberta", config(unigram(), **t5, post_processor={"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<pad>", 0], "trim_offsets": True, "add_prefix_space": True})
    twice = unigram()
    twice["vocab"] = twice["vocab"] + twice["vocab"][10:20]
    yield "unigram-twice", config(twice, **t5)


def components():
    byte = golden.our_models()["byte"]
    n = len(byte["vocab"])
    byte_level = lambda prefix=False, regex=True: {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}
    spell = byte_level(False, False)
    gpt2 = dict(pre_tokenizer=byte_level(), decoder=byte_level())
    for name, step in {"delimiter": {"type": "CharDelimiterSplit", "delimiter": "e"}, "scripts": {"type": "UnicodeScripts"}, "fixed": {"type": "FixedLength", "length": 3},
                       "bert-words": {"type": "BertPreTokenizer"}, "regex-scripts": {"type": "Split", "pattern": {"Regex": r"\p{Han}+|\p{Thai}|[\p{Latin}&&\p{Ll}]+|\p{Devanagari}+|\p{Greek}|\p{Common}|\p{Inherited}"}, "behavior": "Isolated", "invert": False}}.items():
        yield "pre-" + name, config(byte, pre_tokenizer=sequence("pretokenizers", step, spell), decoder=byte_level())
    steps = [{"type": "NFD"}, {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "StripAccents"}, {"type": "Nmt"}, bert(), {"type": "Prepend", "prepend": "_x"}, {"type": "Strip", "strip_left": True, "strip_right": True},
             {"type": "Replace", "pattern": {"String": "a"}, "content": "xyz"}, {"type": "Replace", "pattern": {"Regex": "[aeiou ]"}, "content": ""}, {"type": "Precompiled", "precompiled_charsmap": some_charsmap()}]
    rng = random.Random(8)
    for i in range(16):
        picked = rng.sample(steps, 3)
        yield "normalizers-%d" % i, config(byte, **gpt2, normalizer=sequence("normalizers", *picked), added_tokens=[golden.token(n, "WORD", False), golden.token(n + 1, "<s>")])
    yield "nmt", config(byte, **gpt2, normalizer={"type": "Nmt"})
    yield "charsmap", config(byte, **gpt2, normalizer={"type": "Precompiled", "precompiled_charsmap": some_charsmap()})
    yield "ctc", config(byte, pre_tokenizer=byte_level(), decoder={"type": "CTC", "pad_token": "e", "word_delimiter_token": "Ġ", "cleanup": True})
    yield "ctc-plain", config(byte, pre_tokenizer=byte_level(), decoder={"type": "CTC", "pad_token": "th", "word_delimiter_token": "Ġ", "cleanup": False})
    added = [golden.token(n, "<s>"), golden.token(n + 1, "</s>", lstrip=True), golden.token(n + 2, "Word", False, single_word=True), golden.token(n + 3, "über", False, rstrip=True), golden.token(n + 4, "  ", False, normalized=False, lstrip=True),
             golden.token(n + 5, "<s>x", rstrip=True, lstrip=True), golden.token(n + 6, "éé", False, single_word=True, lstrip=True)]
    for i, normalizer in enumerate([None, {"type": "Lowercase"}, {"type": "NFD"}, sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"})]):
        yield "added-flags-%d" % i, config(byte, **gpt2, normalizer=normalizer, added_tokens=added)
    ends = {"<s>": n, "</s>": n + 1}
    yield "template-odd", config(byte, **gpt2, added_tokens=[golden.token(n, "<s>"), golden.token(n + 1, "</s>")], post_processor=sequence("processors", byte_level(True), template("<s>:2 $A5 $A6 </s>", "$B7 <s>:3 $A2 </s>:4", ends)))


def sections():
    made = golden.our_models()
    byte, n = made["byte"], len(made["byte"]["vocab"])
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    ends = {"<s>": n, "</s>": n + 1}
    tokens = [golden.token(n, "<s>"), golden.token(n + 1, "</s>")]
    post = {"none": None, "template": template("<s> $A </s>", "<s> $A </s> $B1 </s>:1", ends),
            "bert": {"type": "BertProcessing", "sep": ["</s>", n + 1], "cls": ["<s>", n]},
            "roberta": {"type": "RobertaProcessing", "sep": ["</s>", n + 1], "cls": ["<s>", n], "trim_offsets": True, "add_prefix_space": True}}
    i = 0
    for kind, processor in post.items():
        for strategy in ("LongestFirst", "OnlyFirst", "OnlySecond"):
            for direction in ("Right", "Left"):
                length, stride = [(12, 0), (9, 3), (6, 1), (20, 4)][i % 4]
                pad = [None, padding(), padding({"Fixed": 16}, "Left"), padding("BatchLongest", "Right", 8), padding({"Fixed": 5})][i % 5]
                yield "limits-%s-%s-%s" % (kind, strategy, direction), config(byte, pre_tokenizer=byte_level, decoder=byte_level, post_processor=processor, added_tokens=tokens, truncation=truncation(length, strategy, stride, direction), padding=pad)
                i += 1


def clusters():
    """Shows where grapheme clusters end: only a short one is replaced as a whole, by what its first character becomes."""
    byte = golden.our_models()["byte"]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    shown = charsmap({"y": "Y", "©": "Q", "क": "K", "ᅡ": "V", "ᆨ": "T", "\u0301": "A"})
    yield "charsmap-clusters", config(byte, pre_tokenizer=byte_level, decoder=byte_level, normalizer={"type": "Precompiled", "precompiled_charsmap": base64.b64encode(shown).decode()})


# Characters of every class that UAX 29 knows, of two to four bytes, and of classes that overlap.
CLUSTER_PARTS = ("\0 \x01 \r \n \x9f \u00ad \u200b \u2060 \U00013430 \U000e0001 \U0001d173 y \u0600 \u06dd \U000110bd \U00011d46 \u0301 \u031b \u0327 \u200c \u200d \ufe0f "
                 "\U0001f3fd \U000e0067 \u0903 \u093e \u09be \u0e33 \u0cf3 \U0001612a \U000113b9 \u094d \u09cd \u0bcd \U00011133 \U00010a3f \u0915 \u0937 \u0995 \u1000 \u1039 "
                 "\U00011103 \U00010a10 \u1100 \u1161 \u11a8 \uac00 \uac01 \ua960 \ud7b0 \ud7cb \U00016d63 \U00016d67 © ™ \U0001f600 \U0001f469 \U0001f1e9 \U0001f1ea").split(" ")


def cluster_texts(count, seed=5):
    rng = random.Random(seed)
    for _ in range(count):
        part = lambda: rng.choice(CLUSTER_PARTS)
        yield "".join(part() for _ in range(rng.randrange(1, 7))) + rng.choice("y©कᅡᆨ\u0301" + part()) + "\u0301" * rng.randrange(2) + "\u031b" * rng.randrange(2)


def all_tokenizers():
    made = golden.our_models()
    for name, model, parts in golden.our_cases(made):
        yield name, golden.make_case(made, model, parts)
    yield from other_models()
    yield from components()
    yield from sections()
    yield from clusters()
