#!/usr/bin/env python3
# Groups of answers as TRL's GRPOTrainer and RLOOTrainer learn from them: golden_grpo.py ->
# tests/golden/train/grpo/{runs.json, more.json, turns.json, entropy.json, gmpo.json}, with --more, --turns, --entropy
# or --gmpo one of these alone.
# The model is that of golden_dpo.py, which is run first. Nothing is sampled: prompts, answers and rewards are made
# here, a rollout takes the next four prompts, and answers keep their order.
# `updates` tells of each micro-batch of each update the rollout, its first answer of sixteen and what follows its last.
#
# What one would not guess of TRL 1.16:
# - dapo, cispo and vespo divide by the rollout's tokens over its number of updates, not by the tokens of the update.
# - `epsilon_high` is the bound itself for cispo, and is added to one for the others. GRPO's KL is weighted by the ratio
#   (use_bias_correction_kl) unless told otherwise. A std of one reward is NaN, and so the advantage is 0.
# - Rewards, lengths and RLOO's KL are logged at the update that follows the rollout, and at no other (null here); the
#   rest at every update, as a mean over its micro-batches that does not weigh them by their tokens.
# - RLOO takes beta * (sum of old - reference) from the reward, once a rollout; its loss has no KL, its ratio is that of
#   whole answers, and its frac_reward_zero_std looks at rewards after the KL.
# - RLOO has no mask of what others have said (env_mask, tool_mask), so that turns.json has none of its runs.
# - A masked answer (mask_truncated_completions) still counts in its group's mean and std, and in a mean over answers.
import json
import sys
import tempfile

import torch
import trl
from datasets import Dataset
from golden_dpo import EOS, FOLDER as MODEL, SETTINGS, any_tokenizer
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.experimental.gmpo import GMPOConfig, GMPOTrainer
from trl.trainer import grpo_trainer, rloo_trainer

import golden_common as common

FOLDER = common.ROOT / "train" / "grpo"
MAKER = "tools/golden/golden_grpo.py"
STEPS, PROMPTS, GENERATIONS, LONGEST = 6, 4, 4, 12  # prompts of a rollout, answers to each
COMMON = SETTINGS | {
    "warmup_steps": 0, "lr_scheduler_type": "constant", "max_steps": STEPS, "num_generations": GENERATIONS,
    "max_completion_length": LONGEST, "per_device_train_batch_size": PROMPTS * GENERATIONS, "temperature": 1.0,
    "reward_weights": [1.0, 0.5],
}  # fmt: skip
NOT_LOGGED = ("epoch", "learning_rate", "num_tokens", "step", "step_time")
TWICE = {"num_iterations": 2}
HALVES = {"per_device_train_batch_size": 8}
# What is told to TRL of each run.
GRPO = {
    "dapo": {},
    "grpo_kl": {"loss_type": "grpo", "beta": 0.1},
    "grpo_kl_uncorrected": {"loss_type": "grpo", "beta": 0.5, "use_bias_correction_kl": False} | TWICE,
    "dr_grpo": {"loss_type": "dr_grpo", "scale_rewards": "none"},
    "cispo": {"loss_type": "cispo", "epsilon_high": 1.1} | TWICE,
    "sapo": {"loss_type": "sapo"} | TWICE,
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence", "epsilon": 0.05} | TWICE,
    "vespo": {"loss_type": "vespo"} | TWICE,
    "iterations": {
        "num_iterations": 3, "epsilon": 0.1, "epsilon_high": 0.2, "beta": 0.05, "use_bias_correction_kl": True,
    },
    "delta": {"loss_type": "grpo", "epsilon": 0.06, "delta": 1.1} | TWICE,
    "sequence": {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.03} | TWICE,
    "sequence_kl": {
        "importance_sampling_level": "sequence", "epsilon": 0.03, "epsilon_high": 0.04, "beta": 0.05,
    } | TWICE,
    "batch_scale": {"scale_rewards": "batch"},
    "normalize_then_sum": {"multi_objective_aggregation": "normalize_then_sum"},
    "truncated": {"mask_truncated_completions": True},
    "truncated_dr_grpo": {"loss_type": "dr_grpo", "mask_truncated_completions": True},
    "off_policy": {"off_policy_mask_threshold": 0.05} | TWICE,
    "temperature": {"temperature": 0.7, "beta": 0.05, "epsilon": 0.25} | TWICE,
    "minibatches": {"steps_per_generation": 2, "epsilon": 0.05} | HALVES,
    "minibatches_twice": {"steps_per_generation": 2} | HALVES | TWICE,
    "accumulated": {"gradient_accumulation_steps": 2} | HALVES,
    "accumulated_grpo": {"loss_type": "grpo", "beta": 0.05, "gradient_accumulation_steps": 2} | HALVES | TWICE,
}  # fmt: skip
RLOO = {
    "rloo": {"beta": 0.05} | TWICE,
    "rloo_plain": {"beta": 0.0},
    "rloo_normalized": {"beta": 0.05, "normalize_advantages": True},
    "rloo_clipped_rewards": {"beta": 0.05, "reward_clip_range": [0.0, 0.8]},
    "rloo_truncated": {"beta": 0.05, "mask_truncated_completions": True} | TWICE,
    "rloo_accumulated": {"beta": 0.05, "gradient_accumulation_steps": 2} | HALVES | TWICE,
}  # fmt: skip
# Hone's options and TRL's, where these have other names: a reference that follows the model, tokens of most entropy.
MORE = {
    "moving_grpo": ({"beta": 0.5, "reference_sync_steps": 2}, {"sync_ref_model": True, "ref_model_sync_steps": 2}),
    "moving_rloo": (
        {"beta": 0.5, "reference_sync_steps": 1, "reference_mixup_alpha": 0.3},
        {"sync_ref_model": True, "ref_model_sync_steps": 1, "ref_model_mixup_alpha": 0.3},
    ),
    "entropy": ({"top_entropy_quantile": 0.2}, {}),
    "entropy_grpo_kl": ({"top_entropy_quantile": 0.55, "loss_type": "grpo", "beta": 0.3, "temperature": 0.8}, {}),
    "entropy_none": ({"top_entropy_quantile": 0.0, "loss_type": "dr_grpo"}, {}),
}  # fmt: skip
# Answers of which the model has not said everything: each run is told which tokens are others'.
TURNS = {
    "dapo": {},
    "grpo_kl": {"loss_type": "grpo", "beta": 0.3},
    "dr_grpo": {"loss_type": "dr_grpo", "scale_rewards": "none"},
    "cispo": {"loss_type": "cispo", "epsilon_high": 1.1} | TWICE,
    "sapo": {"loss_type": "sapo"} | TWICE,
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence", "epsilon": 0.05} | TWICE,
    "vespo": {"loss_type": "vespo"} | TWICE,
    "sequence_kl": {"importance_sampling_level": "sequence", "epsilon": 0.03, "beta": 0.05} | TWICE,
    "off_policy": {"off_policy_mask_threshold": 0.05} | TWICE,
    "truncated": {"mask_truncated_completions": True},
    "entropy": {"top_entropy_quantile": 0.4, "beta": 0.1},
    "temperature": {"temperature": 0.7, "epsilon": 0.1, "num_iterations": 3},
    "minibatches": {"steps_per_generation": 2, "epsilon": 0.05} | HALVES,
    "accumulated": {"gradient_accumulation_steps": 2} | HALVES,
}  # fmt: skip

# Entropy in the loss; where the coefficient moves, the target lies between what updates have.
SETS = {"use_adaptive_entropy": True, "entropy_coef": 0.1, "entropy_coef_delta": 0.15, "entropy_target": 4.885}
ENTROPY = {
    "bonus": {"entropy_coef": 0.5},
    "bonus_grpo": {"entropy_coef": 0.2, "loss_type": "grpo", "beta": 0.1} | TWICE,
    "bonus_dr_grpo": {"entropy_coef": -0.1, "loss_type": "dr_grpo"},
    "bonus_temperature": {"entropy_coef": 0.3, "temperature": 0.7},
    "bonus_quantile": {"entropy_coef": 0.5, "top_entropy_quantile": 0.4},
    "bonus_truncated": {"entropy_coef": 0.5, "mask_truncated_completions": True},
    "adaptive": SETS,
    "adaptive_twice": SETS | {"entropy_coef_min": 0.05, "entropy_coef_max": 0.3} | TWICE,
    "adaptive_quantile": SETS | {"entropy_target": 5.1, "top_entropy_quantile": 0.5},
}  # fmt: skip
# A trainer of its own in TRL, a loss_type here; names that end in _turns are of answers like those of TURNS.
GMPO = {
    "gmpo": {} | TWICE,
    "gmpo_clipped": {"epsilon": 0.03, "epsilon_high": 0.05, "num_iterations": 3},
    "gmpo_kl": {"beta": 0.3, "temperature": 0.7, "epsilon": 0.05} | TWICE,
    "gmpo_entropy": {"top_entropy_quantile": 0.3, "beta": 0.1, "epsilon": 0.02},
    "gmpo_truncated": {"mask_truncated_completions": True, "epsilon": 0.05} | TWICE,
    "gmpo_accumulated": {"gradient_accumulation_steps": 2, "beta": 0.05, "epsilon": 0.05} | HALVES | TWICE,
    "gmpo_turns": {"beta": 0.1, "epsilon": 0.05} | TWICE,
}  # fmt: skip


def make_data():
    generator = torch.Generator().manual_seed(17)

    def number(low, high):
        return int(torch.randint(low, high, (1,), generator=generator))

    def some(count, low=0, high=256):
        return torch.randint(low, high, (count,), generator=generator).tolist()

    def answer():
        return some(LONGEST) if number(0, 4) == 0 else some(number(0, LONGEST)) + [EOS]

    rows = range(STEPS * PROMPTS)
    data = {
        "prompts": [some(number(3, 10), ord("a"), ord("z") + 1) for _ in rows],
        "completions": [[answer() for _ in range(GENERATIONS)] for _ in rows],
        "rewards": {
            "first": [[number(0, 5) / 4 for _ in range(GENERATIONS)] for _ in rows],
            "second": [[number(-100, 101) / 100 if number(0, 5) else None for _ in range(GENERATIONS)] for _ in rows],
        },
    }
    first, second = data["rewards"].values()
    first[1], second[1] = [0.5] * GENERATIONS, [1.0] * GENERATIONS  # all are equal
    first[7], second[7] = [0.25] * GENERATIONS, [-0.5] * GENERATIONS
    data["completions"][2][1:3] = [[EOS], some(LONGEST - 1) + [EOS]]
    second[3] = [None, None, 0.3, None]
    data["completions"][5] = [some(LONGEST) for _ in range(GENERATIONS)]
    first[6][1] = second[6][1] = None  # no reward at all
    first[10], second[10] = [None, 0.75, None, None], [None] * GENERATIONS
    return data


def heard_of(completion):
    """One or two stretches that others have said, neither first nor last in an answer; short answers have none."""
    size = len(completion)
    heard = [False] * size
    if size > 5:
        heard[1:3] = [True] * 2
    if size > 9:
        heard[size - 5 : size - 2] = [True] * 3
    return heard


DATA = make_data()


class Canned:
    def _tokenize_prompts(self, prompts):
        return prompts, None, {}

    def _generate_and_score_completions(self, inputs):
        self.rollouts = getattr(self, "rollouts", 0) + 1
        return super()._generate_and_score_completions(inputs) | {"place": torch.arange(len(inputs))}

    def _compute_loss(self, model, inputs):
        place = inputs["place"].tolist()
        self.used = [*getattr(self, "used", []), [self.rollouts - 1, place[0], place[-1] + 1]]
        return super()._compute_loss(model, inputs)


def completions(prompts):
    rows = [DATA["prompts"].index(prompt) for prompt in prompts]
    return [DATA["completions"][row][i % GENERATIONS] for i, row in enumerate(rows)]


class Grpo(Canned, GRPOTrainer):
    def _generate_single_turn(self, prompt_ids, *arguments):
        return completions(prompt_ids), None


class Gmpo(Grpo, GMPOTrainer):
    pass


class Rloo(Canned, RLOOTrainer):
    def _generate_single_turn(self, prompt_ids, *arguments):
        return completions(prompt_ids)


def with_turns(prompts, trainer):
    made = completions(prompts)
    mask = [[int(not one) for one in heard_of(completion)] for completion in made]
    return {"prompt_ids": prompts, "completion_ids": made, "logprobs": None, "env_mask": mask}


def reward(name):
    def given(row, **arguments):
        return [DATA["rewards"][name][one][i % GENERATIONS] for i, one in enumerate(row)]

    given.__name__ = name
    return given


def run(trainer, config, options, **arguments):
    rows = [{"prompt": prompt, "row": row} for row, prompt in enumerate(DATA["prompts"])]
    with tempfile.TemporaryDirectory() as out:
        settings = config(
            output_dir=out, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=1,
            bf16=False, gradient_checkpointing=False, optim="adamw_torch", shuffle_dataset=False, **(COMMON | options),
        )  # fmt: skip
        made = trainer(
            model=common.load_model(MODEL), args=settings, processing_class=any_tokenizer(),
            reward_funcs=[reward(name) for name in DATA["rewards"]], train_dataset=Dataset.from_list(rows),
            **arguments,
        )  # fmt: skip
        made.train()
    history = [entry for entry in made.state.log_history if "loss" in entry]
    names = [name for name in history[0] if name not in NOT_LOGGED]
    micro = settings.gradient_accumulation_steps
    return {
        "trainer": "rloo" if trainer is Rloo else "grpo",
        "options": options,
        "updates": [made.used[i : i + micro] for i in range(0, len(made.used), micro)],
        "history": {name: [short(entry.get(name)) for entry in history] for name in names},
    }


def short(value):
    return None if value is None else float(f"{value:.9g}")


def layout(value, pad=""):
    """Objects and lists of lists over several lines, the rest on one."""
    if isinstance(value, dict):
        items = [f"{pad} {json.dumps(name)}: {layout(one, pad + ' ')}" for name, one in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{pad}}}" if items else "{}"
    if isinstance(value, list) and len(json.dumps(value)) > 100 and isinstance(value[0], list):
        return "[\n" + ",\n".join(f"{pad} {json.dumps(one)}" for one in value) + f"\n{pad}]"
    return json.dumps(value)


def more():
    runs = {}
    for name, (own, theirs) in MORE.items():
        kind, config = (Rloo, RLOOConfig) if name.endswith("rloo") else (Grpo, GRPOConfig)
        same = {option: value for option, value in own.items() if not option.startswith("reference_")}
        runs[name] = run(kind, config, same | theirs)
        runs[name]["options"] = own
    about = {"maker": MAKER, **common.versions(), "trl": trl.__version__}
    (FOLDER / "more.json").write_text(layout(about | {"runs": runs}) + "\n")


def turns():
    runs = {name: run(Grpo, GRPOConfig, options, rollout_func=with_turns) for name, options in TURNS.items()}
    heard = [[[i for i, one in enumerate(heard_of(one)) if one] for one in row] for row in DATA["completions"]]
    about = {"maker": MAKER, **common.versions(), "trl": trl.__version__, "heard": heard}
    (FOLDER / "turns.json").write_text(layout(about | {"runs": runs}) + "\n")


def entropy():
    about = {"maker": MAKER, **common.versions(), "trl": trl.__version__}
    runs = {name: run(Grpo, GRPOConfig, options) for name, options in ENTROPY.items()}
    (FOLDER / "entropy.json").write_text(layout(about | {"runs": runs}) + "\n")


def gmpo():
    runs = {}
    for name, options in GMPO.items():
        more = {"rollout_func": with_turns} if name.endswith("_turns") else {}
        runs[name] = run(Gmpo, GMPOConfig, options, **more)
        runs[name]["options"] = {"loss_type": "gmpo", "epsilon": GMPOConfig.epsilon} | options
    about = {"maker": MAKER, **common.versions(), "trl": trl.__version__}
    (FOLDER / "gmpo.json").write_text(layout(about | {"runs": runs}) + "\n")


def main():
    grpo_trainer.shuffle_sequence_dict = rloo_trainer.shuffle_sequence_dict = lambda made: made
    for option, make in (("--more", more), ("--turns", turns), ("--entropy", entropy), ("--gmpo", gmpo)):
        if option in sys.argv:
            return make()
    runs = {name: run(Grpo, GRPOConfig, options) for name, options in GRPO.items()}
    runs |= {name: run(Rloo, RLOOConfig, options) for name, options in RLOO.items()}
    FOLDER.mkdir(parents=True, exist_ok=True)
    about = {"maker": MAKER, **common.versions(), "trl": trl.__version__, "settings": COMMON}
    (FOLDER / "runs.json").write_text(layout(about | DATA | {"runs": runs}) + "\n")
    more()
    turns()
    entropy()
    gmpo()


if __name__ == "__main__":
    main()
