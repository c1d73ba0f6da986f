"""SentencePiece models with user-defined pieces, and what sentencepiece makes of texts: tests/golden/text/sentencepiece.json.

Usage: tools/golden/golden_sentencepiece.py    (sentencepiece 0.2.3)
{"models": {name: base64 of a model}, "texts": [...], "ids": {name: [ids of each text]}}. The models are small ones of the
texts below, without a character map, which would be 240 KB.
"""
import base64
import json
import tempfile
from pathlib import Path

import sentencepiece

OUT = Path(__file__).resolve().parent.parent.parent / "tests/golden/text/sentencepiece.json"
LINES = ["the quick brown fox jumps over the lazy dog", "a rose is a rose is a rose", "(one) and (two) - 3.14 and 1+1=2", "to be or not to be: that is the question",
         "all the world's a stage - and all the men and women merely players", "one two three four five six seven"] * 20
SYMBOLS = ["(", ")", "-", ".", "€", "<sep>", "fox", "1+1"]
OPTIONS = {"plain": {}, "keep": {"remove_extra_whitespaces": False, "user_defined_symbols": SYMBOLS + ["▁▁", "▁▁▁"]}, "no-prefix": {"add_dummy_prefix": False, "byte_fallback": True},
           "across": {"split_by_whitespace": False}}
TEXTS = ["", " ", "(", "(a)", "the (quick) fox", " the  fox ", "(((", "a-b-c", "3.14", "1+1=2", "11+1+1", "<sep>", "a<sep>b", "a <sep> b", "€5 €", "fox foxes outfox", "the\nfox", "日本", "(日)", "  ((  ))  ",
         "is a rose is a", "the end.", "...", "- - -", "to be or not to be", "<0x41>"]


def main():
    models, ids = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus.txt")
        corpus.write_text("\n".join(LINES))
        for kind in ["unigram", "bpe", "char"]:
            for name, options in OPTIONS.items():
                options = {"user_defined_symbols": SYMBOLS, **options}
                path = Path(folder, "m")
                size = 420 if options.get("byte_fallback") else 120
                sentencepiece.SentencePieceTrainer.train(input=str(corpus), model_prefix=str(path), model_type=kind, vocab_size=size, hard_vocab_limit=False, minloglevel=2, num_threads=1,
                                                         normalization_rule_name="identity", **options)
                models["%s-%s" % (kind, name)] = base64.b64encode(path.with_suffix(".model").read_bytes()).decode()
                model = sentencepiece.SentencePieceProcessor(model_file=str(path.with_suffix(".model")))
                ids["%s-%s" % (kind, name)] = [model.encode(text) for text in TEXTS]
    dumped = {"models": models, "texts": TEXTS, "ids": ids}
    OUT.write_text("{\n" + ",\n".join('"%s": %s' % (k, json.dumps(v, ensure_ascii=False, separators=(",", ":"))) for k, v in dumped.items()) + "\n}\n")
    print(OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
