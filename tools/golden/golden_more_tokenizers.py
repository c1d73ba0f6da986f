#!/usr/bin/env python3
"""Makes tests/golden/text/{components,clusters,train}.json from the `tokenizers` library (0.23.3).

components.json: the tokenizers of made_tokenizers.py that are not byte-pair encoding alone, each with a few texts and
what the library makes of them (FullEncoding's columns). clusters.json: texts and what Precompiled makes of their
grapheme clusters. train.json: vocabularies of its BPE trainer.
"""
import json
import random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import golden_tokenizers as golden
import made_tokenizers as made
from compare_tokenizers import AWKWARD, full

FIXED = ["", "Hello, World! it's 12345 foxes", "  größe ÜBER naïve\tcafé e\u0301x ", "你好世界 どこで カタカナ\n<s>Word über</s> word", "™\x1eg ½ ﬁ \u200b A\u0301 ﷺ ß 각",
         "[CLS] jumping [MASK] do not . , ' n't"]


def answers(tokenizer, rng, count):
    texts = FIXED + rng.sample(AWKWARD, count)
    plain = Tokenizer.from_str(tokenizer.to_str())
    plain.no_truncation()
    plain.no_padding()
    for i, text in enumerate(texts):
        answer = {"text": text}
        if i % 3 == 1:
            answer["pair"] = FIXED[(i + 1) % len(FIXED)][:40]
        try:
            e = tokenizer.encode(text, answer["pair"]) if "pair" in answer else tokenizer.encode(text)
        except BaseException:  # a panic is no Exception
            yield dict(answer, error=True)
            continue
        ids = plain.encode(text).ids
        answer["full"] = {k: v for k, v in full(e).items() if v}
        if "pair" not in answer:
            answer["decoded"] = plain.decode(ids)
        if len(json.dumps(answer)) < 1500:  # truncation of a pair makes many parts
            yield answer


def write_components():
    bytes_model = golden.our_models()["byte"]
    models_, cases = {"byte": bytes_model}, []
    rng = random.Random(12)
    for name, config in [*made.other_models(), *made.components(), *made.sections()]:
        tokenizer = Tokenizer.from_str(json.dumps(config))
        model = config.pop("model")
        key = next((k for k, m in models_.items() if m == model), None)
        if key is None:
            key = "model%d" % len(models_)
            models_[key] = model
        cases.append({"name": name, "model": key, "parts": {k: v for k, v in config.items() if v not in (None, [])}, "answers": list(answers(tokenizer, rng, 3))})
    golden.write("components.json", {"models": models_, "cases": cases})


def write_clusters():
    [(_, config)] = made.clusters()
    tokenizer = Tokenizer.from_str(json.dumps(config))
    texts = made.cluster_texts(1000)
    golden.write("clusters.json", {"tokenizer": config, "answers": [[t, tokenizer.normalizer.normalize_str(t)] for t in texts]})


def write_train():
    rng = random.Random(13)
    lines = [line + "\n" for line in golden.CORPUS] + ["".join(rng.choice("abcab ") for _ in range(60)) + "\n" for _ in range(30)] + ["aaaaaaa aaaa aaa baaaab\n"] * 3 + ["last line without end"]
    cases = []
    for size, least, special in [(300, 0, ["<|endoftext|>"]), (420, 2, ["<s>", "</s>"]), (600, 0, ["ab", "a"])]:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=least, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
        tokenizer.train_from_iterator(lines, trainer)
        model = json.loads(tokenizer.to_str())["model"]
        cases.append({"vocab_size": size, "min_frequency": least, "special_tokens": special, "vocab": model["vocab"], "merges": model["merges"]})
    golden.write("train.json", {"lines": lines, "cases": cases})


if __name__ == "__main__":
    write_components()
    write_clusters()
    write_train()
