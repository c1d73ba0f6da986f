#!/usr/bin/env python3
# Answers as TRL's PPOTrainer learns from them: golden_ppo.py -> tests/golden/train/online/ppo.json, of TRL 0.21
# (golden_trl_021.py; how to run it says golden_xpo_nash.py). Model, prompts and answers are those of golden_grpo.py, of
# whose four answers the first is the model's; the value model begins as that of golden_reward.py. A step takes the next
# eight prompts, each epoch's mini-batches keep their order. `full` answers have no end, so that nothing is padded.
#
# What one would not guess of TRL 0.21:
# - The score is given one place behind an answer's last token, where that is not at response_length, and so has a value
#   of its own, which is learnt, too.
# - val/ratio, policy/approxkl_avg and policy/entropy_avg are means over padding as well: here they are kept of `full`
#   answers alone. objective/entropy counts padding as 1 (INVALID_LOGPROB), which is 0 here.
# - Of several micro-batches the loss is the mean of their means, whatever their tokens: equal only of `full` answers.
# - Gradients are not clipped. An optimizer's step takes gradient_accumulation_steps micro-batches whatever
#   num_mini_batches says, so that both together are not as one would think; in the last batch of the data each
#   micro-batch is a step of its own (accelerate's end_of_dataloader).
# - Numbers of a step are means of its updates' means.
import json
import tempfile
import types

import numpy as np
import torch
import transformers
from datasets import Dataset
from golden_trl_021 import EOS, MODEL, PAD, SETTINGS, padded
from tokenizers import Tokenizer, models
from trl import PPOConfig
from trl.trainer import ppo_trainer

import golden_common as common
import golden_online_layout as online

MAKER = "tools/golden/golden_ppo.py"
VALUE = common.ROOT / "train" / "reward" / "model"
STEPS, PROMPTS, LONGEST = 4, 8, 12
BEFORE_THE_LAST = 2  # batch of the data
DATA = json.loads((common.ROOT / "train" / "grpo" / "runs.json").read_text())
GIVEN = json.loads((common.ROOT / "train" / "online" / "online_dpo.json").read_text())
SCORES = [scores[0] for scores in GIVEN["scores"]]
ANSWERS = {"mixed": [row[0] for row in DATA["completions"]]}
ANSWERS["full"] = [[t for one in row for t in one if t != EOS][:LONGEST] for row in DATA["completions"]]
PADDED_MEANS = ("val/ratio", "policy/approxkl_avg", "policy/entropy_avg")
NOT_KEPT = ("eps", "lr", "episode", "epoch", "step", "val/ratio_var")
RUNS = {
    "plain": {},
    "k3": {"kl_estimator": "k3", "kl_coef": 0.3, "gamma": 0.95, "lam": 0.9},
    "whiten": {"whiten_rewards": True, "num_ppo_epochs": 2},
    "penalty": {"missing_eos_penalty": 1.0, "vf_coef": 1.0, "num_ppo_epochs": 1},
    "minibatches": {"num_mini_batches": 2, "cliprange": 0.02, "cliprange_value": 0.01, "vf_coef": 0.5},
    "full": {"temperature": 0.7, "cliprange": 0.05},
    "full_accumulated": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "num_ppo_epochs": 2},
}


def any_tokenizer():
    names = {f"<{i}>": i for i in range(257)} | {"<eos>": EOS, "<pad>": PAD}
    plain = Tokenizer(models.WordLevel(names, unk_token="<0>"))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, eos_token="<eos>", pad_token="<pad>", padding_side="left"
    )


def rows_of(queries):
    return [DATA["prompts"].index([t for t in query if t != PAD]) for query in queries.tolist()]


def canned(answers, temperature):
    """In place of drawing: these answers, and the logits that they would have been drawn by."""

    def generation(model, queries, size, pad, config):
        responses = padded([answers[row] for row in rows_of(queries)], to=LONGEST)
        both = torch.cat((queries, responses), 1)
        with torch.no_grad():
            logits = ppo_trainer.forward(model, both, pad).logits[:, queries.shape[1] - 1 : -1]
        return both, logits / (temperature + 1e-7)

    return generation


def judged(original, judge):
    def reward(model, query_responses, pad, context):
        if model is not judge:
            return original(model, query_responses, pad, context)
        return None, torch.tensor([SCORES[row] for row in rows_of(query_responses[:, :context])]), None

    return reward


class InFileOrder(ppo_trainer.PPOTrainer):
    def generate_completions(self, sampling=False):
        pass


def run(answers, options, steps=STEPS):
    given = {"per_device_train_batch_size": PROMPTS, "temperature": 1.0} | options
    rows = Dataset.from_list([{"input_ids": prompt} for prompt in DATA["prompts"]])
    value = transformers.AutoModelForSequenceClassification.from_pretrained(VALUE, attn_implementation="eager")
    judge = torch.nn.Linear(1, 1)
    originals = (ppo_trainer.batch_generation, ppo_trainer.get_reward)
    ppo_trainer.batch_generation = canned(answers, given["temperature"])
    ppo_trainer.get_reward = judged(originals[1], judge)
    with tempfile.TemporaryDirectory() as out:
        settings = {name: number for name, number in SETTINGS.items() if name != "max_grad_norm"}
        config = PPOConfig(
            output_dir=out, report_to=[], use_cpu=True, disable_tqdm=True, seed=1, bf16=False, save_strategy="no",
            gradient_checkpointing=False, optim="adamw_torch", lr_scheduler_type="constant", warmup_steps=0,
            total_episodes=steps * PROMPTS, response_length=LONGEST, stop_token="eos", num_sample_generations=0,
            **(settings | given),
        )  # fmt: skip
        made = InFileOrder(
            args=config, processing_class=any_tokenizer(), model=common.load_model(MODEL),
            ref_model=common.load_model(MODEL), reward_model=judge, value_model=value, train_dataset=rows,
            eval_dataset=rows,
        )  # fmt: skip
        made.train()
    ppo_trainer.batch_generation, ppo_trainer.get_reward = originals
    history = [entry for entry in made.state.log_history if "objective/kl" in entry]
    is_padded = any(len(answer) < LONGEST for answer in answers)
    names = [n for n in history[0] if n not in NOT_KEPT and not (is_padded and n in PADDED_MEANS)]
    return {"options": options, "history": {n: [float(f"{e[n]:.9g}") for e in history] for n in names}}


if __name__ == "__main__":
    ppo_trainer.INVALID_LOGPROB = 0.0
    ppo_trainer.np = types.SimpleNamespace(random=types.SimpleNamespace(permutation=np.arange))
    loader = ppo_trainer.DataLoader
    ppo_trainer.DataLoader = lambda dataset, shuffle=False, **how: loader(dataset, shuffle=False, **how)
    runs = {}
    for name, options in RUNS.items():
        answers = ANSWERS["full" if name.startswith("full") else "mixed"]
        runs[name] = run(answers, options, BEFORE_THE_LAST if name.endswith("accumulated") else STEPS)
    online.write("ppo.json", runs, MAKER, full=ANSWERS["full"], scores=SCORES)
