#!/usr/bin/env python3
# What transformers generates: golden_generate.py
# -> tests/golden/generate/{greedy.json, defaults.json, stories260k.json, filters.safetensors}. stories260k.json needs
# HONE_TEST_DATA; it is left alone without it.
import json
import shutil
import tempfile
from pathlib import Path

import torch
from transformers import AutoTokenizer, GenerationConfig

import golden_common as common

FOLDER = common.ROOT / "generate"
MAKER = "tools/golden/golden_generate.py"
NEW_TOKENS = 256
PROMPTS = [
    "Once upon a time",
    "Lily and Tom went to the park",
    "The big dog",
    "One day, a little girl named Lily found",
]


def generate(model, ids, **options):
    """One prompt. Returns the new ids (the eos included, if there was one) and the smallest lead of a chosen token."""
    model.generation_config = GenerationConfig()
    out = model.generate(
        torch.tensor([ids]),
        do_sample=False,
        output_scores=True,
        return_dict_in_generate=True,
        pad_token_id=0,
        **options,
    )
    leads = [float(score.topk(2).values[0].diff().abs()) for score in out.scores]
    return out.sequences[0, len(ids) :].tolist(), min(leads)


def greedy_case(model, ids, **options):
    new, lead = generate(model, ids, **options)
    options = {key: value for key, value in options.items() if key != "tokenizer"}
    return {"prompt_ids": ids, **options, "smallest_lead": round(lead, 6), "ids": new}


def tiny():
    cases = []
    for name, prompts in {
        "llama": [[1, 17, 42, 8], [5], [60, 3, 3, 71, 22, 9, 14]],
        "mistral-sliding": [[7, 30, 11]],
        "qwen3-sliding": [[4, 9, 20, 25, 6, 6, 31, 12]],
        "rope-yarn": [[8, 8, 21]],
    }.items():
        model = common.load_model(common.ROOT / "models" / name)
        length = 256 if name == "llama" else 60
        for ids in prompts:
            cases.append({"model": name, **greedy_case(model, ids, max_new_tokens=length, eos_token_id=None)})
            cases.append(
                {
                    "model": name,
                    **greedy_case(model, ids, max_new_tokens=length // 4, eos_token_id=None, repetition_penalty=1.3),
                }
            )
    ids = cases[0]["ids"]  # and an eos that comes: the ids end with it
    model = common.load_model(common.ROOT / "models" / "llama")
    cases.append(
        {"model": "llama", **greedy_case(model, cases[0]["prompt_ids"], max_new_tokens=64, eos_token_id=ids[20])}
    )
    common.write_json(FOLDER / "greedy.json", {"cases": cases}, MAKER)
    return cases


def stories(data):
    folder = data / "models" / "stories260K"
    model, tokenizer = common.load_model(folder), AutoTokenizer.from_pretrained(folder)
    tokenizer_eos = tokenizer.eos_token_id
    cases = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt).input_ids
        for options in ({}, {"repetition_penalty": 1.2}):
            case = greedy_case(model, ids, max_new_tokens=NEW_TOKENS, eos_token_id=tokenizer_eos, **options)
            cases.append(
                {"prompt": prompt, **case, "whole_text": tokenizer.decode(ids + case["ids"], skip_special_tokens=True)}
            )
    common.write_json(
        FOLDER / "stories260k.json",
        {"model": "models/stories260K", "cases": cases, "stops": stops(model, tokenizer, cases)},
        MAKER,
    )
    return cases


def stops(model, tokenizer, cases):
    """Where generation ends for some stop strings: transformers keeps the stop string in the ids (and what follows it
    inside the last token); `text_before` is the text up to the stop string."""
    found = []
    prompt, ids = cases[0]["prompt"], cases[0]["prompt_ids"]
    for strings in (["."], ["Lily"], ["little gi"], ["\n"], ["She loved to play"], ["not in the text", "named"]):
        new, _ = generate(
            model,
            ids,
            max_new_tokens=60,
            eos_token_id=tokenizer.eos_token_id,
            stop_strings=strings,
            tokenizer=tokenizer,
        )
        text = tokenizer.decode(ids + new, skip_special_tokens=True)[len(prompt) :]
        cut = min([text.find(s) for s in strings if s in text], default=len(text))
        found.append({"prompt": prompt, "stop": strings, "ids": new, "text": text, "text_before": text[:cut]})
    return found


def logits(vocabulary=80):
    """Rows: plain, peaked, flat, with ties at every place a border may fall, with -inf, large numbers."""
    generator = torch.Generator().manual_seed(5)
    rows = torch.randn(6, vocabulary, generator=generator) * torch.tensor([2.0, 8.0, 0.05, 2.0, 3.0, 40.0])[:, None]
    rows[3] = rows[3].round()
    rows[4, ::3] = -float("inf")
    return rows


def combinations():
    yield from ({"temperature": t, "top_k": 0} for t in (0.3, 1.0, 1.7))
    yield from ({"top_k": k} for k in (1, 2, 5, 40, 200))
    yield from ({"top_k": 0, "top_p": p} for p in (0.01, 0.3, 0.9, 0.999))
    yield from ({"top_k": 0, "min_p": p} for p in (0.01, 0.2, 1.0))
    yield {"repetition_penalty": 1.3, "top_k": 0}
    yield {"repetition_penalty": 0.7, "temperature": 0.8, "top_k": 0}
    yield {"temperature": 0.8, "top_k": 20, "top_p": 0.9}
    yield {"temperature": 1.4, "top_k": 30, "top_p": 0.8, "min_p": 0.05}
    yield {"temperature": 0.6, "top_k": 0, "top_p": 0.95, "min_p": 0.1, "repetition_penalty": 1.15}


def filters():
    """Probabilities after transformers' own processors, in its own order, for fixed logits and a fixed history."""
    model = common.load_model(common.ROOT / "models" / "llama")
    rows = logits()
    history = torch.tensor([[1, 7, 7, 30, 79, 2]] * len(rows))
    tensors, settings = {"logits": rows, "history": history}, []
    for number, options in enumerate(combinations()):
        model.generation_config = GenerationConfig()
        config, _ = model._prepare_generation_config(GenerationConfig(do_sample=True, **options))
        model._prepare_special_tokens(config, device="cpu")
        processors = model._get_logits_processor(config, input_ids_seq_length=history.shape[1])
        tensors[f"probabilities.{number}"] = processors(history, rows.clone()).softmax(-1)
        settings.append(options)
    common.write_safetensors(FOLDER / "filters.safetensors", tensors, {"settings": settings}, MAKER)
    return len(settings)


FILES = [
    None,
    {},
    {"eos_token_id": 5},
    {"eos_token_id": [2, 5]},
    {"do_sample": True},
    {"do_sample": False, "temperature": 0.6},
    {"temperature": 0.6, "top_p": 0.9},
    {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "eos_token_id": 2},
    {"do_sample": True, "top_k": 0},
    {"do_sample": True, "top_k": 20, "min_p": 0.05},
    {"do_sample": None, "top_k": None},
    {"repetition_penalty": 1.1},
    {"do_sample": True, "temperature": 1.0, "repetition_penalty": 1.05, "max_new_tokens": 7},
    {"max_length": 30},
    {"pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2},
]


def defaults():
    """What generate() without options uses, for a model whose config.json has eos_token_id 2 and whose
    generation_config.json is `file` (null: there is none)."""
    cases = []
    for content in FILES:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(common.ROOT / "models" / "llama", folder, dirs_exist_ok=True)
            place = Path(folder) / "generation_config.json"
            place.unlink() if content is None else place.write_text(json.dumps(content))
            model = common.load_model(folder)
        config, _ = model._prepare_generation_config(None)
        names = [
            "do_sample",
            "temperature",
            "top_k",
            "top_p",
            "min_p",
            "repetition_penalty",
            "eos_token_id",
            "max_new_tokens",
            "max_length",
        ]
        cases.append({"file": content, "used": {name: getattr(config, name) for name in names}})
    common.write_json(FOLDER / "defaults.json", {"model": "llama", "cases": cases}, MAKER)


if __name__ == "__main__":
    for case in tiny():
        print(case["model"], len(case["ids"]), "ids, smallest lead", case["smallest_lead"])
    print(filters(), "filter settings")
    defaults()
    if common.data_folder():
        for case in stories(common.data_folder()):
            print(repr(case["whole_text"][:60]), len(case["ids"]), "ids, smallest lead", case["smallest_lead"])
