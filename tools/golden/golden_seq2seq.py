#!/usr/bin/env python3
# Golden files of models with an encoder and a decoder: golden_seq2seq.py [NAME...] -> tests/golden/seq2seq/<name>/
# (development time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, plus golden.safetensors: a batch of sources and
# targets and what transformers computes from it, with gradients under the names that the weights have in the file, and
# the tokens that generate() makes of each source, always taking the likeliest. Seconds for all; the same bytes every
# time on the same versions.
import sys

import torch
import transformers as hf

import golden_common as common
from golden_cases import Case
from golden_model import IGNORE, ROWS, fill, save_anew, write_golden

# Few classes of distances, so that all of them occur.
T5 = dict(vocab_size=64, d_model=24, d_kv=10, d_ff=40, num_layers=3, num_decoder_layers=2, num_heads=4,
          relative_attention_num_buckets=8, relative_attention_max_distance=20, decoder_start_token_id=0)
BART = dict(vocab_size=64, d_model=24, encoder_layers=3, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=2, encoder_ffn_dim=40, decoder_ffn_dim=36, max_position_embeddings=48)
MARIAN = {**BART, "pad_token_id": 63, "decoder_start_token_id": 63, "bad_words_ids": None, "forced_eos_token_id": None}

CASES = [
    Case("t5", hf.T5Config, T5),
    Case("t5-gated", hf.T5Config, {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    Case("mt5", hf.MT5Config, {**T5, "tie_word_embeddings": False}),
    Case("umt5", hf.UMT5Config, T5),
    Case("bart", hf.BartConfig, {**BART, "scale_embedding": True, "num_labels": 2}),
    Case("pegasus", hf.PegasusConfig, {**BART, "activation_function": "relu", "scale_embedding": True}),
    Case("marian", hf.MarianConfig, {**MARIAN, "activation_function": "swish"}),
    Case("mbart", hf.MBartConfig, {**BART, "scale_embedding": True, "decoder_start_token_id": 2}),
    Case("m2m_100", hf.M2M100Config, {**BART, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}),
    Case("t5-gated-tied", hf.T5Config, {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    Case("mt5-tied", hf.MT5Config, {**T5, "tie_word_embeddings": False}),
]
# Heads that transformers 5 ties although a config.json of transformers 4 says otherwise: their files have none.
TIED = ("t5-gated-tied", "mt5-tied")
# These tell padding by its id, and mBART begins a target with its last token.
NO_PADDING = ("mbart", "m2m_100")
SOURCE, TARGET = 30, 14  # longest


def load(folder):
    model = hf.AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation=common.ATTENTION, dtype=torch.float32)
    if model.config.model_type in ("pegasus", "marian"):  # transformers 5 makes waves trainable when it loads them
        for name, weight in model.named_parameters():
            weight.requires_grad_("embed_positions" not in name)
    return model.eval()


def random_model(case):
    model = hf.AutoModelForSeq2SeqLM.from_config(case.config(**case.options), attn_implementation=common.ATTENTION,
                                                 dtype=torch.float32)
    waves = {name: weight.clone() for name, weight in model.named_parameters() if not weight.requires_grad}
    untied = case.options.get("tie_word_embeddings") is False and case.name not in TIED
    if untied:  # transformers 5 ties them all the same, unless a folder has two
        model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.lm_head.weight))
    is_norm = lambda name: "norm" in name and name.endswith("weight")
    is_table = lambda name: "shared" in name or "embed" in name or "relative" in name
    fill(model, case.seed, is_table, is_norm, 1.0 if untied else 0.3)  # of a tied table: other tokens are likelier
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(".q.weight"):
                weight.mul_(0.3)  # T5 divides scores by nothing
            if name in waves:
                weight.copy_(waves[name])
        if hasattr(model, "final_logits_bias"):
            generator = torch.Generator().manual_seed(case.seed)
            model.final_logits_bias.copy_(0.3 * torch.randn(model.final_logits_bias.shape, generator=generator))
    return model


def batch_of(case, config):
    """Row 0 is full; the others are padded on the right. One target has a hole in its labels, read as padding."""
    generator = torch.Generator().manual_seed(case.seed + 1_000_000)
    ids = torch.randint(3, 60, (ROWS, SOURCE), generator=generator)
    labels = torch.randint(3, 60, (ROWS, TARGET), generator=generator)
    mask = torch.ones_like(ids)
    for row, (source, target) in enumerate([(SOURCE, TARGET - 3), (17, TARGET), (9, 6)]):
        mask[row, source:], ids[row, source:], labels[row, target:] = 0, config.pad_token_id, IGNORE
        labels[row, target - 1] = config.eos_token_id
    if case.name not in NO_PADDING:
        labels[1, 5] = IGNORE
        ids[0, 4] = config.pad_token_id  # a real token
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def answers(model, batch):
    """Of each source alone, so that nothing is padded."""
    made = {}
    for row, (ids, mask) in enumerate(zip(batch["input_ids"], batch["attention_mask"])):
        source = ids[: int(mask.sum())].unsqueeze(0)
        made[f"answer.{row}"] = model.generate(input_ids=source, attention_mask=torch.ones_like(source),
                                               max_new_tokens=12, do_sample=False, num_beams=1)[0]
    return made


def make(case):
    folder = common.ROOT / "seq2seq" / case.name
    save_anew(folder, random_model(case))
    for name in ("model.safetensors", "config.json", "generation_config.json"):
        (folder / name).chmod(0o644)
    batch = batch_of(case, load(folder).config)
    gradients = lambda model: ((name, weight.grad) for name, weight in model.named_parameters() if weight.requires_grad)

    def more(model, output):
        with torch.no_grad():
            made = answers(load(folder), batch)
        return {**made, "logits": output.logits.detach() * (batch["labels"] != IGNORE).unsqueeze(-1)}

    write_golden(folder, case.seed, batch, "golden_seq2seq.py", load, gradients=gradients, more=more)


# Answers by beams, and of what is forbidden: of these folders, each with each of the settings.
BEAM_MODELS = ["models/llama", "models/llama-tied", "seq2seq/t5-gated", "seq2seq/mt5", "seq2seq/bart"]
BEAM_SETTINGS = [
    {"num_beams": 3},
    {"num_beams": 4, "early_stopping": True},
    {"num_beams": 4, "early_stopping": "never", "length_penalty": 2.0},
    {"num_beams": 3, "length_penalty": -1.0, "early_stopping": False},
    {"num_beams": 5, "no_repeat_ngram_size": 2, "min_new_tokens": 4, "repetition_penalty": 1.3},
    {"num_beams": 3, "eos": 3, "min_length": 9},
    {"num_beams": 2, "suppress_tokens": [40, 35, 16, 53], "forced_eos_token_id": 2, "forced_bos_token_id": 20},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3, "min_new_tokens": 6, "suppress_tokens": [18, 35]},
]


def beams_of(name):
    """Ends are the tokens that are likely after some others, so that beams end at different times."""
    folder = common.ROOT / name
    reads = name.startswith("seq2seq")
    model = load(folder) if reads else common.load_model(folder)
    generator = torch.Generator().manual_seed(11)
    prompts = [torch.randint(3, 60, (1, length), generator=generator) for length in (9, 4, 17)]
    common_ends = [40, 18, 53] if reads else [48, 50, 20]
    for setting in BEAM_SETTINGS:
        options = {key: value for key, value in setting.items() if key != "eos"}
        if not reads:
            options = {key: value for key, value in options.items() if not key.startswith("forced")}
        options |= {"eos_token_id": common_ends[: setting.get("eos", 1)], "max_new_tokens": 12}
        neutral = {"num_beams": 1, "do_sample": False, "forced_eos_token_id": None, "pad_token_id": 0}
        made = [model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **{**neutral, **options})[0]
                for ids in prompts]
        answers = [ids[1 if reads else prompt.shape[1]:].tolist() for ids, prompt in zip(made, prompts)]
        yield {"model": name, "options": options, "prompts": [ids[0].tolist() for ids in prompts], "answers": answers}


def make_beams():
    cases = [case for name in BEAM_MODELS for case in beams_of(name)]
    common.write_json(common.ROOT / "generate" / "beams.json", {"cases": cases}, "tools/golden/golden_seq2seq.py")


if __name__ == "__main__":
    for number, one in enumerate(CASES):
        one.seed = 9000 + number
        if len(sys.argv) == 1 or one.name in sys.argv[1:]:
            make(one)
    if len(sys.argv) == 1:
        make_beams()
