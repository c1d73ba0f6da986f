#!/usr/bin/env python3
# Golden files of decoders that are older than Llama, and of others that came with them: golden_classic.py ->
# tests/golden/decoders/<name>/ (development time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, and golden.safetensors: a batch and what
# transformers computes from it, with gradients under the names that the weights have in the file. Seconds for all; the
# same bytes every time on the same versions. With names of cases, those alone.
import sys

import torch
import transformers as hf

import golden_common as common
import golden_moe
from golden_cases import BASE, Case
from golden_model import batch_of, causal_lm, fill, save_anew, tied_scale, write_golden

IDS = dict(bos_token_id=1, eos_token_id=2)
OPT = dict(vocab_size=64, hidden_size=24, ffn_dim=40, num_hidden_layers=2, num_attention_heads=4,
           max_position_embeddings=48, dropout=0.0, pad_token_id=3, **IDS)
NEO = dict(vocab_size=64, hidden_size=24, intermediate_size=40, num_layers=3, num_heads=4, max_position_embeddings=48,
           attention_types=[[["local", "global"], 1], [["local"], 1]], window_size=5, **IDS)
GPTJ = dict(vocab_size=64, n_embd=24, n_inner=40, n_layer=2, n_head=4, n_positions=48, rotary_dim=4, **IDS)
BLOOM = dict(vocab_size=64, hidden_size=24, n_layer=2, n_head=4, **IDS)
FALCON = dict(vocab_size=64, hidden_size=32, ffn_hidden_size=40, num_hidden_layers=2, num_attention_heads=4,
              max_position_embeddings=64, **IDS)
MPT = dict(vocab_size=64, d_model=24, n_heads=4, n_layers=2, max_seq_len=64, **IDS)
BIGCODE = dict(vocab_size=64, n_embd=24, n_inner=40, n_layer=2, n_head=4, n_positions=48, resid_pdrop=0.0,
               embd_pdrop=0.0, attn_pdrop=0.0, **IDS)
BIOGPT = dict(vocab_size=64, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
              max_position_embeddings=48, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=3,
              **IDS)
XGLM = dict(vocab_size=64, d_model=24, ffn_dim=40, num_layers=2, attention_heads=4, max_position_embeddings=48,
            dropout=0.0, attention_dropout=0.0, pad_token_id=3, **IDS)
NO_EPS = {key: value for key, value in BASE.items() if key != "rms_norm_eps"}
SWA = {**BASE, "num_hidden_layers": 3, "sliding_window": 5, "pad_token_id": 3, "embedding_multiplier": 3.0,
       "attention_multiplier": 0.3, "residual_multiplier": 0.22, "logits_scaling": 1.7, **IDS}
MODERN = dict(vocab_size=64, hidden_size=24, intermediate_size=40, num_hidden_layers=4, num_attention_heads=4,
              max_position_embeddings=64, local_attention=10, pad_token_id=3, cls_token_id=1, sep_token_id=2, **IDS)
AFMOE = {**BASE, "num_hidden_layers": 3, "head_dim": 6, "moe_intermediate_size": 7, "num_experts": 6,
         "num_experts_per_tok": 2, "sliding_window": 5, **IDS}
CWM_TYPES = ["sliding_attention", "full_attention", "sliding_attention"]
CASES = [
    Case("opt", hf.OPTConfig, OPT, seed=6000),
    # As OPT-350m: norms behind, words narrower than all else, a head of its own.
    Case("opt-behind", hf.OPTConfig, {**OPT, "do_layer_norm_before": False, "word_embed_proj_dim": 12,
                                      "tie_word_embeddings": False}, seed=6001),
    # As Galactica: no biases, norms without weights; and no last norm.
    Case("opt-bare", hf.OPTConfig, {**OPT, "enable_bias": False, "layer_norm_elementwise_affine": False,
                                    "activation_function": "gelu", "_remove_final_layer_norm": True,
                                    "pad_token_id": 1}, seed=6002),
    Case("olmo", hf.OlmoConfig, {**NO_EPS, "clip_qkv": 0.7, "pad_token_id": 3, "eos_token_id": 2}, seed=6003),
    Case("olmo-bias", hf.OlmoConfig, {**NO_EPS, "attention_bias": True, "tie_word_embeddings": True,
                                      "num_key_value_heads": 4, "pad_token_id": 1, "eos_token_id": 2}, seed=6004),
    Case("gpt_neo", hf.GPTNeoConfig, NEO, seed=6005),
    Case("gpt_neo-untied", hf.GPTNeoConfig, {**NEO, "tie_word_embeddings": False, "intermediate_size": None,
                                             "activation_function": "relu", "layer_norm_epsilon": 1e-4}, seed=6006),
    Case("gptj", hf.GPTJConfig, GPTJ, seed=6007),
    Case("gptj-tied", hf.GPTJConfig, {**GPTJ, "tie_word_embeddings": True, "n_inner": None, "rotary_dim": 6,
                                      "activation_function": "gelu"}, seed=6008),
    Case("bloom", hf.BloomConfig, BLOOM, seed=6009),
    Case("bloom-behind", hf.BloomConfig, {**BLOOM, "apply_residual_connection_post_layernorm": True, "n_head": 3,
                                          "tie_word_embeddings": False, "pad_token_id": 3}, seed=6010),
    Case("falcon", hf.FalconConfig, FALCON, seed=6011),
    Case("falcon-new", hf.FalconConfig, {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "bias": True,
                                         "tie_word_embeddings": False}, seed=6012),
    Case("falcon-one-norm", hf.FalconConfig, {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2,
                                              "num_ln_in_parallel_attn": 1, "activation": "relu",
                                              "rope_parameters": dict(rope_type="linear", factor=2.0, rope_theta=50.0)},
         seed=6013),
    Case("falcon-alibi", hf.FalconConfig, {**FALCON, "alibi": True, "multi_query": False, "parallel_attn": False,
                                           "bias": True}, seed=6014),
    Case("mpt", hf.MptConfig, MPT, seed=6015),
    Case("mpt-odd", hf.MptConfig, {**MPT, "n_heads": 6, "tie_word_embeddings": False,
                                   "attn_config": dict(clip_qkv=0.7, softmax_scale=0.3)}, seed=6016),
    Case("gpt_bigcode", hf.GPTBigCodeConfig, BIGCODE, seed=6017),
    Case("gpt_bigcode-many", hf.GPTBigCodeConfig, {**BIGCODE, "multi_query": False, "tie_word_embeddings": False,
                                                   "n_inner": None, "scale_attn_weights": False}, seed=6018),
    Case("codegen", hf.CodeGenConfig, {**GPTJ, "n_head": 8, "n_embd": 48}, seed=6019),
    Case("cwm", hf.CwmConfig, {**BASE, "head_dim": 10, "sliding_window": 5, "num_hidden_layers": 3,
                               "layer_types": CWM_TYPES, **IDS}, seed=6020),
    Case("helium", hf.HeliumConfig, {**BASE, "num_attention_heads": 4, "head_dim": 6, "pad_token_id": 3, **IDS},
         seed=6021),
    Case("biogpt", hf.BioGptConfig, BIOGPT, seed=6022),
    Case("biogpt-unscaled", hf.BioGptConfig, {**BIOGPT, "scale_embedding": False, "tie_word_embeddings": False,
                                              "hidden_act": "relu", "layer_norm_eps": 1e-4}, seed=6023),
    Case("xglm", hf.XGLMConfig, XGLM, seed=6024),
    Case("xglm-unscaled", hf.XGLMConfig, {**XGLM, "scale_embedding": False, "tie_word_embeddings": False,
                                          "activation_function": "relu", "d_model": 28}, seed=6025),
    # The first layer sees all and is not rotated, the others by two bases.
    Case("granite_swa", hf.GraniteSWAConfig, {**SWA, "layer_rope_theta": [0.0, 50.0, 10000.0], "attention_bias": True,
                                              "mlp_bias": True}, seed=6026),
    Case("granite_swa-untied", hf.GraniteSWAConfig,
         {**BASE, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"],
          "tie_word_embeddings": False, **IDS}, seed=6027),
    Case("granitemoe_swa", hf.GraniteMoeSWAConfig,
         {**SWA, "intermediate_size": 9, "num_local_experts": 5, "num_experts_per_tok": 3,
          "shared_intermediate_size": 20, "layer_rope_theta": [0.0, 50.0, 50.0]}, seed=6028),
    Case("modernbert-decoder", hf.ModernBertDecoderConfig, MODERN, seed=6029),
    Case("modernbert-decoder-bias", hf.ModernBertDecoderConfig,
         {**MODERN, "norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True,
          "decoder_bias": False, "tie_word_embeddings": False, "classifier_activation": "relu",
          "layer_types": ["sliding_attention", "full_attention"], "num_hidden_layers": 2}, seed=6030),
    Case("afmoe", hf.AfmoeConfig, {**AFMOE, "mup_enabled": True, "route_scale": 1.7, "attention_bias": True,
                                   "layer_types": CWM_TYPES, "pad_token_id": 3}, seed=6031),
    Case("afmoe-tied", hf.AfmoeConfig, {**AFMOE, "num_dense_layers": 0, "num_shared_experts": 1,
                                        "global_attn_every_n_layers": 2, "tie_word_embeddings": True}, seed=6032),
    Case("exaone", hf.ExaoneConfig, {**BASE, "mlp_bias": True, "attention_bias": True, "pad_token_id": 3, **IDS},
         seed=6033),
]  # fmt: skip
TABLES = ("wte", "wpe", "embed_tokens", "embed_positions", "word_embeddings.", "tok_embeddings")
NORMS = ("norm.weight", "norm_1.weight", "norm_2.weight", "norm_f.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight",
         "ln_attn.weight", "ln_mlp.weight")


def random_model(case):
    model = causal_lm(case)
    is_table = lambda name: any(one in name for one in TABLES) and "norm" not in name
    for name, weight in model.named_parameters():
        if name.endswith("expert_bias"):
            weight.data.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(case.seed)) * 0.3)
    scaled = case.name in ("biogpt", "xglm", "afmoe")  # embeddings are multiplied by the width's root
    wide = tied_scale(model) / (5 if scaled else 1)
    return fill(model, case.seed, is_table, lambda name: name.endswith(NORMS), wide)


def load(folder):
    eager = {"experts_implementation": "eager"} if "moe" in folder.name else {}
    return once_biased(common.load_model(folder, **eager))


def once_biased(model):
    """What it computes where nobody asks for anything else: eager attention adds Falcon's biases a second time."""
    if getattr(model.config, "alibi", False):
        model.config._attn_implementation = "sdpa"
    return model


EXAONE = (("model.embed_tokens.", "transformer.wte."), ("model.layers.", "transformer.h."),
          ("model.norm.", "transformer.ln_f."), (".self_attn.o_proj.", ".self_attn.out_proj."),
          (".self_attn.", ".attn.attention."), (".input_layernorm.", ".ln_1."),
          (".post_attention_layernorm.", ".ln_2."), (".gate_proj.", ".c_fc_0."), (".up_proj.", ".c_fc_1."),
          (".down_proj.", ".c_proj."))


def exaone_name(name):
    for own, there in EXAONE:
        name = name.replace(own, there)
    return name


def gradients(model):
    """By the names of the file, which keeps every expert's matrices apart, but Granite's in stacks."""
    if model.config.model_type == "exaone":
        yield from ((exaone_name(name), weight.grad) for name, weight in model.named_parameters())
        return
    if model.config.model_type == "granitemoe_swa":
        yield from ((name, weight.grad) for name, weight in model.named_parameters())
        return
    yield from ((name, grad) for name, grad in golden_moe.gradients(model) if grad is not None)


def make(case):
    folder = common.ROOT / "decoders" / case.name
    save_anew(folder, random_model(case))
    (folder / "model.safetensors").chmod(0o644)
    more = lambda model, output: {} if getattr(output, "aux_loss", None) is None else {"aux_loss": output.aux_loss}
    write_golden(folder, case.seed, batch_of(case), "golden_classic.py", load, gradients=gradients, more=more)


if __name__ == "__main__":
    for one in CASES:
        if len(sys.argv) == 1 or one.name in sys.argv[1:]:
            make(one)
