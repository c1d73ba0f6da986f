#!/usr/bin/env python3
# Which tokens of a content Axolotl learns where a message says which of its characters are to be (train_detail):
# golden_message_parts.py AXOLOTL/src/axolotl/prompt_strategies/chat_template.py ->
# tests/golden/text/message_parts.jsonl, a case a line, with the tokenizer of chat.jsonl. "-": a token of a part of a
# character, which Axolotl lets end before it begins.
import argparse
import ast
import json
import logging
import random
from pathlib import Path
from typing import Dict, List

import golden_common as common
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

CONTENTS = [
    "Let me think step by step... The answer is 4.",
    "one two three",
    "naïve café, déjà vu — ¿qué?",
    "日本語のテキストと English",
    "emoji 🙂 and 👩‍👩‍👧 here",
    "a\n\nb  c   d",
    "x",
]
METHODS = ("get_offsets_for_train_detail", "adjust_train_details")


def axolotl_prompter(path, tokenizer):
    """The two methods of its ChatTemplatePrompter, without the rest of its package."""
    tree = ast.parse(Path(path).read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    prompter = next(node for node in classes if node.name == "ChatTemplatePrompter")
    prompter.bases = []
    prompter.body = [node for node in prompter.body if isinstance(node, ast.FunctionDef) and node.name in METHODS]
    names = {"Dict": Dict, "List": List, "IGNORE_TOKEN_ID": -100, "LOG": logging.getLogger("axolotl")}
    names["LOG"].setLevel(logging.ERROR)
    exec(compile(ast.Module([prompter], []), path, "exec"), names)
    made = names["ChatTemplatePrompter"]()
    made.tokenizer = tokenizer
    return made


def parts_of(content, draw):
    """One to three parts, which may overlap, touch, or leave something out."""
    parts = []
    for _ in range(draw.randint(1, 3)):
        begin = draw.randrange(len(content))
        end = draw.randrange(begin, len(content))
        parts.append({"begin_offset": begin, "end_offset": end, "train": draw.random() < 0.7})
    return parts


def case(prompter, content, parts):
    learnt = prompter.get_offsets_for_train_detail(content, [dict(part) for part in parts])
    offsets = prompter.tokenizer(content, return_offsets_mapping=True, add_special_tokens=False)["offset_mapping"]
    shared = [i for i in range(len(offsets)) if any(offsets[i] == offsets[j] for j in range(len(offsets)) if i != j)]
    mask = "".join("-" if i in shared else "01"[one != -100] for i, one in enumerate(learnt))
    return {"content": content, "parts": parts, "learnt": mask}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strategy", help="Axolotl's src/axolotl/prompt_strategies/chat_template.py")
    given = parser.parse_args()
    with open(common.ROOT / "text" / "chat.jsonl") as file:
        made = Tokenizer.from_str(json.dumps(json.loads(file.readline())["tokenizer"]))
    prompter = axolotl_prompter(given.strategy, PreTrainedTokenizerFast(tokenizer_object=made))
    draw = random.Random(7)
    cases = [case(prompter, content, parts_of(content, draw)) for content in CONTENTS for _ in range(30)]
    common.write_lines(common.ROOT / "text" / "message_parts.jsonl", cases)
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
