"""What transformers' Trainer makes of a model's ids of special tokens: tests/golden/train/special_ids.json.

Usage: tools/golden/golden_ids.py
Each case: `tokenizer` with eos, bos and pad ids (null: it has none), `config` and `generation_config` with the ids that
the model's files have, and `after` with those that align_special_tokens leaves in both. What is not there is left out.
"""
import itertools
from types import SimpleNamespace

from golden_common import ROOT, write_lines
from transformers import GenerationConfig, LlamaConfig
from transformers.trainer_utils import align_special_tokens

KEYS = ["eos_token_id", "bos_token_id", "pad_token_id"]
TOKENIZERS = [(2, 1, None), (5, 1, 0), (5, None, None), (None, 4, 3)]
CONFIGS = [{"eos_token_id": 2, "bos_token_id": 1}, {"eos_token_id": [2, 3], "bos_token_id": 4, "pad_token_id": 0}, {}]
GENERATIONS = [None, {}, {"eos_token_id": 2, "bos_token_id": 1}, {"eos_token_id": [2, 5], "pad_token_id": 0},
               {"eos_token_id": 5, "bos_token_id": 4, "pad_token_id": 3}]


def ids_of(config):
    return {key: getattr(config, key) for key in KEYS if getattr(config, key) is not None}


def case(tokenizer, config, generation):
    tokenizer = dict(zip(KEYS, tokenizer))
    model_config = LlamaConfig(**{key: config.get(key) for key in KEYS})
    # A folder without generation_config.json: transformers makes one of config.json.
    made = GenerationConfig.from_model_config(model_config) if generation is None else GenerationConfig(**generation)
    model = SimpleNamespace(config=model_config, generation_config=made)
    before = {"tokenizer": tokenizer, "config": ids_of(model_config), "generation_config": generation}
    align_special_tokens(model, SimpleNamespace(**tokenizer))
    return {**before, "after": {"config": ids_of(model.config), "generation_config": ids_of(model.generation_config)}}


def main():
    cases = [case(*one) for one in itertools.product(TOKENIZERS, CONFIGS, GENERATIONS)]
    write_lines(ROOT / "train" / "special_ids.json", cases)


if __name__ == "__main__":
    main()
