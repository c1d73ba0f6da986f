#!/usr/bin/env python3
# Golden files of Llama's relatives with blocks of their own: golden_decoders.py -> tests/golden/decoders/<name>/
# (development time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, plus config-transformers4.json (the same model as
# transformers 4 would describe it) and golden.safetensors: a batch and what transformers computes from it, with
# gradients under the names that the weights have in the file. Seconds for all; the same bytes every time on the same
# versions.
import json

import transformers as hf

import golden_common as common
from golden import check_old_config, transformers4
from golden_cases import BASE, LONG, ROPE, SHORT, Case
from golden_model import batch_of, causal_lm, fill, save_anew, tied_scale, write_golden

GEMMA = {**BASE, "head_dim": 10, "pad_token_id": 3}
# Small ones, so that many values are near them.
GEMMA2 = {**GEMMA, "num_hidden_layers": 3, "sliding_window": 5, "query_pre_attn_scalar": 7,
          "attn_logit_softcapping": 3.0, "final_logit_softcapping": 4.0}
GEMMA3 = {**GEMMA, "num_hidden_layers": 3, "sliding_window": 5, "query_pre_attn_scalar": 7}
TYPES = ["sliding_attention", "full_attention", "sliding_attention"]
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, rope_theta=100.0)
PLAIN = dict(rope_type="default", rope_theta=50.0)
LONGROPE = dict(rope_type="longrope", short_factor=SHORT, long_factor=LONG, original_max_position_embeddings=64,
                rope_theta=1000.0)
MIXTRAL = {**BASE, "num_local_experts": 5, "intermediate_size": 9, "num_hidden_layers": 2}
GPT_OSS = {**ROPE, "num_attention_heads": 4, "intermediate_size": 9, "num_hidden_layers": 3, "sliding_window": 5,
           "num_local_experts": 5}
GLM = {**BASE, "head_dim": 12, "pad_token_id": 3, "eos_token_id": [2, 5]}

CASES = [
    Case("gemma", hf.GemmaConfig, GEMMA),
    Case("gemma2", hf.Gemma2Config, GEMMA2),
    Case("gemma2-uncapped", hf.Gemma2Config, {**GEMMA2, "attn_logit_softcapping": None,
                                              "final_logit_softcapping": None, "layer_types": TYPES,
                                              "tie_word_embeddings": False}),
    Case("gemma3", hf.Gemma3TextConfig, {**GEMMA3, "layer_types": TYPES, "rope_parameters": {
        "full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1000.0), "sliding_attention": PLAIN}}),
    Case("gemma3-capped", hf.Gemma3TextConfig, {**GEMMA3, "num_hidden_layers": 7, "final_logit_softcapping": 4.0}),
    Case("granite", hf.GraniteConfig, {**BASE, "embedding_multiplier": 3.0, "attention_multiplier": 0.3,
                                       "residual_multiplier": 0.22, "logits_scaling": 1.7, "attention_bias": True,
                                       "mlp_bias": True}),
    Case("granite-tied", hf.GraniteConfig, {**ROPE, "tie_word_embeddings": True, "embedding_multiplier": 0.5}),
    Case("smollm3", hf.SmolLM3Config, {**BASE, "num_hidden_layers": 4, "no_rope_layer_interval": 2, "pad_token_id": 3,
                                       "bos_token_id": 1, "eos_token_id": 2}),
    Case("smollm3-sliding", hf.SmolLM3Config, {**ROPE, "num_hidden_layers": 3, "no_rope_layers": [1, 0, 0],
                                               "use_sliding_window": True, "sliding_window": 5, "pad_token_id": 3,
                                               "bos_token_id": 1, "eos_token_id": 2, "mlp_bias": True,
                                               "tie_word_embeddings": False}),
    Case("olmo2", hf.Olmo2Config, {**BASE, "eos_token_id": 2}),
    Case("olmo3", hf.Olmo3Config, {**ROPE, "num_hidden_layers": 4, "sliding_window": 5, "eos_token_id": 2,
                                   "rope_parameters": {"full_attention": YARN, "sliding_attention": PLAIN}}),
    Case("phi3", hf.Phi3Config, {**BASE, "pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2}),
    Case("phi3-partial", hf.Phi3Config, {**BASE, "hidden_size": 48, "pad_token_id": 3, "bos_token_id": 1,
                                         "eos_token_id": 2, "sliding_window": 5, "tie_word_embeddings": True,
                                         "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.67}}),
    Case("phi3-longrope", hf.Phi3Config, {**ROPE, "hidden_size": 40, "head_dim": 20, "max_position_embeddings": 128,
                                          "pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2,
                                          "original_max_position_embeddings": 64,
                                          "rope_parameters": {**LONGROPE, "partial_rotary_factor": 0.8}}),
    Case("mixtral", hf.MixtralConfig, {**MIXTRAL, "num_experts_per_tok": 3, "output_router_logits": True,
                                       "router_aux_loss_coef": 0.05}),
    Case("mixtral-sliding", hf.MixtralConfig, {**MIXTRAL, "sliding_window": 5, "num_experts_per_tok": 2}),
    # Limits that many values are beyond.
    Case("gpt_oss", hf.GptOssConfig, {**GPT_OSS, "num_experts_per_tok": 3, "output_router_logits": True,
                                      "router_aux_loss_coef": 0.05, "swiglu_limit": 0.4, "eos_token_id": 2,
                                      "rope_parameters": {**YARN, "truncate": False, "beta_fast": 32.0,
                                                          "beta_slow": 1.0}}),
    Case("gpt_oss-plain", hf.GptOssConfig, {**GPT_OSS, "num_hidden_layers": 2, "num_experts_per_tok": 5,
                                            "attention_bias": False, "swiglu_alpha": 1.2, "pad_token_id": 3,
                                            "layer_types": TYPES[1::-1], "rope_parameters": PLAIN}),
    # Half of each head; all of each.
    Case("glm", hf.GlmConfig, {**GLM, "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}}),
    Case("glm4", hf.Glm4Config, {**GLM, "attention_bias": False, "tie_word_embeddings": True,
                                 "rope_parameters": {**PLAIN, "partial_rotary_factor": 1.0}}),
]
TWO_ROPES = ("gemma3_text", "olmo3")
PARTS = {"gate_up_proj": ("w1", "w3"), "down_proj": ("w2",)}


def random_model(case):
    """Norms' weights are near 1, or near 0 where 1 is added to them."""
    model = causal_lm(case)
    is_norm = lambda name: name.endswith("norm.weight") and not case.name.startswith("gemma")
    return fill(model, case.seed, lambda name: "embed" in name, is_norm, tied_scale(model) / embedding_scale(case))


def embedding_scale(case):
    return case.options["hidden_size"] ** 0.5 if case.name.startswith("gemma") else 1.0


def load(folder):
    eager = {"experts_implementation": "eager"} if folder.name.startswith(("mixtral", "gpt_oss")) else {}
    return common.load_model(folder, **eager)


def gradients(model):
    """By the names of the file, which keeps every expert's matrices apart."""
    for name, weight in model.named_parameters():
        stem, part = name.rsplit(".", 1)
        if part not in PARTS or model.config.model_type == "gpt_oss":
            yield name.replace(".mlp.gate.", ".block_sparse_moe.gate."), weight.grad
            continue
        stem = stem.replace(".mlp.", ".block_sparse_moe.")
        for expert, grad in enumerate(weight.grad):
            for own, piece in zip(PARTS[part], grad.chunk(len(PARTS[part]))):
                yield f"{stem}.{expert}.{own}.weight", piece


def old_config(config, case):
    """As transformers 4 would have written it."""
    if case.name == "gpt_oss-plain":
        return None  # no rope_scaling there means YaRN
    if config["model_type"] not in TWO_ROPES:
        old = transformers4(config, case)
        if case.name.startswith(("phi3", "glm")):
            old["partial_rotary_factor"] = config["rope_parameters"]["partial_rotary_factor"]
            for key in ("partial_rotary_factor", "original_max_position_embeddings"):
                if old["rope_scaling"]:
                    del old["rope_scaling"][key]
        return old
    both = config["rope_parameters"]
    old = transformers4({**config, "rope_parameters": both["full_attention"]}, case)
    if old["rope_scaling"] and "type" in old["rope_scaling"]:  # transformers 5 passes that name over here
        old["rope_scaling"]["rope_type"] = old["rope_scaling"].pop("type")
    if config["model_type"] == "gemma3_text":
        old["rope_local_base_freq"] = both["sliding_attention"]["rope_theta"]
        old["sliding_window_pattern"] = old.pop("_sliding_window_pattern")
        return old
    return None  # has one base for both kinds of layers there


def make(case):
    folder = common.ROOT / "decoders" / case.name
    save_anew(folder, random_model(case))
    (folder / "model.safetensors").chmod(0o644)
    config = json.loads((folder / "config.json").read_text())
    old = old_config(config, case)
    batch = batch_of(case)
    more = lambda model, output: {} if getattr(output, "aux_loss", None) is None else {"aux_loss": output.aux_loss}
    _, output = write_golden(folder, case.seed, batch, "golden_decoders.py", load, gradients=gradients, more=more)
    if old is None:
        return
    (folder / "config-transformers4.json").write_text(json.dumps(old, indent=2, sort_keys=True) + "\n")
    if not case.name.startswith(("mixtral", "gpt_oss")):  # a loop over experts is asked for there
        check_old_config(folder, batch, output.logits)


if __name__ == "__main__":
    for number, one in enumerate(CASES):
        one.seed = 5000 + number
        make(one)
