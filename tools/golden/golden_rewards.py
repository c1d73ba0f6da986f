#!/usr/bin/env python3
"""What TRL's rewards give: golden_rewards.py -> tests/golden/rewards/trl.json.

Each list has cases: the options of the reward as hone has them, what it is given, and `rewards`. What is right is given
to `cosine`, as TRL asks math_verify for it; hone's test says it with other texts.
"""
import random
from importlib.metadata import version

import golden_common as common
from trl.rewards import accuracy_rewards, get_repetition_penalty_reward, get_soft_overlong_punishment
from trl.rewards import think_format_reward

MAKER = "tools/golden/golden_rewards.py"
LENGTHS = [0, 1, 10, 50, 79, 80, 81, 90, 99, 100, 101, 250]
TEXTS = [
    "<think>\nThis is my reasoning.\n</think>\nThis is my answer.",
    "<think>\nThis is my reasoning.\nThis is my answer.",
    "<think></think>",
    "<think>a</think>b</think>c",
    "<think>a<think>b</think>c",
    "<think>a</think>b<think>c</think>",
    " <think>a</think>b",
    "\n<think>a</think>b",
    "x<think>a</think>b",
    "a\n<think>b</think>c",
    "<think>a</think>\n\n",
    "<think>\n\n</think>\n\nline\n\nline\n",
    "<think>ä€𝄞</think>ß",
    "</think>",
    "<Think>a</Think>",
    "<think>a</ think>",
    "",
]


def length():
    options = [(100, 20), (100, 100), (100, 0), (90, 1)]
    ids = [[1] * n for n in LENGTHS]
    return [
        {"options": {"max_completion_len": most, "soft_punish_cache": cache}, "lengths": LENGTHS,
         "rewards": get_soft_overlong_punishment(most, cache)(completion_ids=ids)}
        for most, cache in options
    ]  # fmt: skip


def repetition():
    draw = random.Random(1)
    ids = [[1, 2, 3, 4], [5, 5, 5, 5, 5], [], [7], [7, 7], [7, 7, 7], [1, 2, 1, 2, 1, 2, 3], [1, -1, 1, -1, 2**31 - 1]]
    ids += [[draw.randrange(few) for _ in range(60)] for few in (2, 3, 5, 10)]
    options = [(3, -1.0), (2, -1.0), (1, -0.5), (4, -2.0), (60, -1.0), (61, -1.0), (3, 0.0)]
    return [
        {"options": {"ngram_size": size, "max_penalty": penalty}, "ids": ids,
         "rewards": get_repetition_penalty_reward(size, penalty)(completion_ids=ids)}
        for size, penalty in options
    ]  # fmt: skip


def cosine():
    names = ("min_value_wrong", "max_value_wrong", "min_value_correct", "max_value_correct")
    options = [(100, -1.0, -0.5, 0.5, 1.0), (81, -10.0, 0.0, 1.0, 2.0), (1, 0.0, 0.0, 0.0, 1.0)]
    lengths, right = LENGTHS * 2, [True] * len(LENGTHS) + [False] * len(LENGTHS)
    accuracy_rewards.accuracy_reward = lambda completions, solution: [float(one) for one in completions]
    cases = []
    for most, *values in options:
        reward = accuracy_rewards.get_cosine_scaled_reward(most, *values)
        made = reward(right, [""] * len(right), [[1] * n for n in lengths])
        cases.append({"options": {"max_len": most, **dict(zip(names, values))}, "lengths": lengths, "right": right,
                      "rewards": made})  # fmt: skip
    return cases


def main():
    rewards = think_format_reward([[{"content": text}] for text in TEXTS])
    common.write_json(
        common.ROOT / "rewards" / "trl.json",
        {
            "trl": version("trl"), "length": length(), "repetition": repetition(), "cosine": cosine(),
            "format": [{"options": {}, "texts": TEXTS, "rewards": rewards}],
        },
        MAKER,
    )  # fmt: skip


if __name__ == "__main__":
    main()
