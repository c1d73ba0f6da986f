#!/usr/bin/env python3
# Labels of words and of steps on tokens, as transformers' run_ner.py and TRL's PRMTrainer lay them there:
# golden_word_labels.py PRM_TRAINER -> tests/golden/data/token_labels/ (development time only), where PRM_TRAINER is
# trl/trainer/prm_trainer.py of TRL 0.21, the last that has one. Small tokenizers are made on the way.
import ast
import json
import shutil
import sys
import textwrap
from itertools import chain
from pathlib import Path

import transformers as hf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import golden_common as common

FOLDER = common.ROOT / "data" / "token_labels"
MAKER = "tools/golden/golden_word_labels.py"
SENTENCES = [
    (["George", "Washington", "went", "to", "Washington", "."], ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]),
    (["U.N.", "official", "Ekéus", "heads", "for", "Baghdad", "!"], ["B-ORG", "O", "B-PER", "O", "O", "B-LOC", "O"]),
    (["北京", "and", "東京", "'s", "e-mail", "(", "co-op", ")"], ["B-LOC", "O", "B-LOC", "O", "O", "O", "B-MISC", "O"]),
    (["uncharacteristically", "Ωmega", "x"], ["O", "B-ORG", "I-ORG"]),
    (["a", "\u200d", "b"], ["B-PER", "O", "I-PER"]),
]
STEPS = [
    {"prompt": "Which number is larger, 9.8 or 9.11?",
     "completions": ["11 is greater than 8.", "Hence, 9.11 > 9.8."], "labels": [True, False]},
    {"prompt": "2+2?", "completions": ["", "4", "So the answer is 4."], "labels": [False, True, True]},
]  # fmt: skip
HOW = [{}, {"step_separator": "\n\n"}, {"step_separator": " ки"}, {"max_completion_length": 9}, {"max_length": 14},
       {"train_on_last_step_only": True}]  # fmt: skip
WORDS = {name for _, tags in SENTENCES for name in tags}


def tokenizers():
    corpus = [" ".join(words) for words, _ in SENTENCES] + [
        text for one in STEPS for text in [one["prompt"], *one["completions"]]
    ]
    piece = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    piece.normalizer = normalizers.BertNormalizer(lowercase=True)
    piece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    piece.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    piece.train_from_iterator(corpus, trainers.WordPieceTrainer(vocab_size=140, special_tokens=special))
    piece.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    level = Tokenizer(models.BPE())
    level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    level.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "<pad>", "</s>"]
    level.train_from_iterator(
        corpus, trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet)
    )
    level.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=True)
    space = Tokenizer(models.Unigram())
    space.pre_tokenizer = pre_tokenizers.Metaspace()
    space.decoder = decoders.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.UnigramTrainer(vocab_size=150, special_tokens=special, unk_token="<unk>")
    space.train_from_iterator(corpus, trainer)
    space.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return {
        "wordpiece": hf.PreTrainedTokenizerFast(
            tokenizer_object=piece, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
        ),
        "bytelevel": hf.PreTrainedTokenizerFast(tokenizer_object=level, bos_token="<s>", eos_token="</s>"),
        "metaspace": hf.PreTrainedTokenizerFast(tokenizer_object=space, bos_token="<s>", eos_token="</s>"),
    }


def laid(tokenizer, words, tags, everywhere, most):
    """As run_ner.py does: the first token of a word has its label; the others too, where that is asked for."""
    encoding = tokenizer(words, is_split_into_words=True, truncation=most is not None, max_length=most)
    labels, before = [], None
    for word in encoding.word_ids():
        if word is None:
            labels.append(None)
        elif word != before:
            labels.append(tags[word])
        else:
            labels.append(tags[word].replace("B-", "I-") if everywhere else None)
        before = word
    return {"ids": encoding["input_ids"], "labels": labels}


def tokenize_row(path):
    tree = ast.parse(Path(path).read_text())
    (node,) = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == "tokenize_row"]
    node.decorator_list = []
    scope = {"chain": chain}
    exec(compile(ast.Module([node], []), path, "exec"), scope)
    return scope["tokenize_row"]


def make(prm_trainer):
    shutil.rmtree(FOLDER, ignore_errors=True)
    row_of = tokenize_row(prm_trainer)
    cases = {}
    for name, tokenizer in tokenizers().items():
        tokenizer.save_pretrained(FOLDER / name)
        words, steps = [], []
        for everywhere, most in ((False, None), (True, None), (False, 7)):
            for number, (texts, tags) in enumerate(SENTENCES):
                words.append({"sentence": number, "all": everywhere, "max_length": most}
                             | laid(tokenizer, texts, tags, everywhere, most))  # fmt: skip
        for how in HOW:
            usual = {"step_separator": "\n", "max_length": None, "max_completion_length": None,
                     "train_on_last_step_only": False}  # fmt: skip
            for number, one in enumerate(STEPS):
                made = row_of(one, tokenizer, max_prompt_length=None, is_eval=False, **{**usual, **how})
                steps.append({"steps": number, "how": how, "ids": made["input_ids"], "labels": made["labels"]})
        cases[name] = {"words": words, "steps": steps}
    about = {"sentences": [{"tokens": words, "tags": tags} for words, tags in SENTENCES], "steps": STEPS}
    common.write_json(FOLDER / "cases.json", {**about, "cases": cases}, MAKER)


if __name__ == "__main__":
    make(sys.argv[1])
