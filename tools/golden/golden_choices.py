#!/usr/bin/env python3
# What EleutherAI's lm-eval (0.4.13) says of questions with answers to choose from: golden_choices.py MODEL ->
# tests/golden/choices/{questions.jsonl,expected.json} (development time only). MODEL: the folder stories260K.
import json
import random
import sys

import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

import golden_common as common

FOLDER = common.ROOT / "choices"
NAMES = ["Tom", "Lily", "Ben", "Anna", "the dog", "the old cat", "Zoé"]
PLACES = ["the park", "a big house", "the garden", "the sea"]
ACTIONS = ["saw a little bird", "found a red ball", "wanted to play", "was very sad", "ate an apple", "went to sleep",
           "said \"hello\"", "ran home to mom and dad", "made a cake", "felt cold… and wet"]  # fmt: skip
GAPS = ["", "", "", " ", "\n"]


def questions():
    random.seed(11)
    for _ in range(60):
        name, action = random.choice(NAMES), random.choice(ACTIONS)
        prompt = f"One day, {name} went to {random.choice(PLACES)}. It was warm. There {name} {action}. Then"
        choices = [f"{random.choice(NAMES)} {one}." for one in random.sample(ACTIONS, random.randrange(2, 6))]
        yield {"prompt": prompt + random.choice(GAPS), "choices": choices, "answer": random.randrange(len(choices))}


def make(model):
    asked = list(questions())
    lm = HFLM(pretrained=model, batch_size=1, device="cpu", dtype="float64")
    delimiter = lambda one: "" if one["prompt"][-1:].isspace() else " "
    requests = [Instance("loglikelihood", one, (one["prompt"], delimiter(one) + choice), i)
                for i, one in enumerate(asked) for choice in one["choices"]]  # fmt: skip
    said = iter(found for found, _ in lm.loglikelihood(requests))
    right, right_by_length, all_said = 0, 0, []
    for one in asked:
        own = np.array([next(said) for _ in one["choices"]])
        right += int(np.argmax(own) == one["answer"])
        right_by_length += int(np.argmax(own / [len(choice) for choice in one["choices"]]) == one["answer"])
        all_said.append(own.tolist())
    FOLDER.mkdir(exist_ok=True)
    lines = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in asked)
    (FOLDER / "questions.jsonl").write_text(lines)
    expected = {"acc": right / len(asked), "acc_norm": right_by_length / len(asked), "log_probs": all_said}
    (FOLDER / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    make(sys.argv[1])
