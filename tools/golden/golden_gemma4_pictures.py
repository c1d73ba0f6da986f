#!/usr/bin/env python3
# Golden files of Gemma 4 with pictures: golden_gemma4_pictures.py -> tests/golden/pictures/gemma4*/ (development time
# only).
#
# As golden_pictures.py makes them, whose rows these are: three pictures of other shapes, padded as the processor pads
# them. Seconds for all.
import sys

import torch
import transformers as hf
from transformers.models.gemma4.modeling_gemma4 import create_masks_for_vision_model, get_block_sequence_ids_for_mask

import golden_common as common
import golden_pictures as pictures
from golden_cases import BASE
from golden_gemma4 import NOTHING, ROPES, TURNS
from golden_model import fill, save_anew, write_golden

IMAGE, SOUND, FILM = pictures.IMAGE, 62, 61
GRIDS = [[4, 6], [4, 4], [2, 8]]  # rows and columns of patches
IDS = dict(boi_token_id=58, eoi_token_id=59, image_token_id=IMAGE, video_token_id=FILM, audio_token_id=SOUND,
           boa_token_id=57, eoa_token_index=56)
TEXT = {**BASE, "vocab_size": 64, "head_dim": 8, "global_head_dim": 12, "sliding_window": 4, "pad_token_id": 3,
        "max_position_embeddings": 128, "rope_parameters": ROPES}
VISION = dict(hidden_size=24, intermediate_size=36, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3,
              head_dim=8, patch_size=4, pooling_kernel_size=2, position_embedding_size=9)
AUDIO = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, subsampling_conv_channels=[8, 4],
             output_proj_dims=12, conv_kernel_size=3)


def small():
    """As E2B and E4B: what tokens bring to layers, keys that several use, clipped products, a tower of sounds."""
    text = {**TEXT, "num_hidden_layers": 4, "layer_types": 2 * TURNS, "num_kv_shared_layers": 2,
            "use_double_wide_mlp": True, "intermediate_size": 20, "hidden_size_per_layer_input": 6,
            "vocab_size_per_layer_input": 66, "final_logit_softcapping": 4.0}
    return hf.Gemma4Config(text_config=text, vision_config={**VISION, "use_clipped_linears": True}, audio_config=AUDIO,
                           **IDS)


def large():
    """As 26B-A4B: experts, values of keys, pictures whose tokens see each other in layers with a window; a tower whose
    heads share keys, and what it makes standardised."""
    text = {**TEXT, **NOTHING, "num_hidden_layers": 3, "layer_types": [*TURNS, TURNS[0]], "intermediate_size": 20,
            "attention_k_eq_v": True, "num_global_key_value_heads": 1, "use_bidirectional_attention": "vision",
            "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 9}
    vision = {**VISION, "num_attention_heads": 4, "num_key_value_heads": 2, "standardize": True}
    return hf.Gemma4Config(text_config=text, vision_config=vision, audio_config=None, **IDS)


def unified():
    """As 12B: no tower, but patches of several; its three layers of 3 of both kinds."""
    text = {**TEXT, "num_hidden_layers": 4, "layer_types": 2 * TURNS, "attention_k_eq_v": True,
            "final_logit_softcapping": 30.0}
    vision = dict(patch_size=2, pooling_kernel_size=2, mm_embed_dim=24, output_proj_dims=24, mm_posemb_size=9)
    return hf.Gemma4UnifiedConfig(text_config=text, vision_config=vision, audio_config=dict(audio_embed_dim=10), **IDS)


# Seeds for which transformers' own fp32 gives every gradient within 4e-6 of fp64's.
CASES = {"gemma4": (small, 9115), "gemma4_moe": (large, 9101), "gemma4_unified": (unified, 9104)}


def is_norm(name):
    last = name.split(".")[-2]
    return name.endswith((".scale", ".per_expert_scale")) or (
        name.endswith(".weight") and ("norm" in last or last.startswith("patch_ln")))


def random_model(config, seed):
    """Clips cut some of what goes through them; standards are neither 0 nor 1."""
    model = hf.AutoModelForImageTextToText.from_config(config, attn_implementation=common.ATTENTION,
                                                       dtype=torch.float32)
    scale = 0.4 / config.text_config.hidden_size ** 0.5
    fill(model, seed, lambda name: name.endswith("embed_tokens.weight"), is_norm, scale)
    generator = torch.Generator().manual_seed(seed)
    noise = lambda shape: torch.randn(shape, generator=generator)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "per_layer" in name and "norm" not in name:
                weight.mul_(0.5 if "gate" in name else 4.0)
            if name.endswith(("q_norm.weight", "per_layer_input_norm.weight")):
                weight.mul_(0.3)
        for name, value in model.named_buffers():
            if name.endswith("layer_scalar"):
                value.copy_(1 + 0.2 * noise(1))
            elif name.endswith(("_min", "_max")):
                wide = 1.5 + 0.5 * torch.rand((), generator=generator)
                value.copy_(-wide if name.endswith("_min") else wide)
            elif name.endswith("std_bias"):
                value.copy_(0.5 * noise(value.shape))
            elif name.endswith("std_scale"):
                value.copy_(0.2 + 0.1 * noise(value.shape).abs())
    return model


def pictures_of(config, generator):
    """What the processor gives, padded; the patches alone; grids of these; tokens."""
    is_whole = config.model_type == "gemma4"
    vision = config.vision_config
    unit = vision.pooling_kernel_size if is_whole else 1
    side = vision.patch_size if is_whole else vision.patch_size * vision.pooling_kernel_size
    most = max(rows * columns for rows, columns in GRIDS) + unit * unit
    pixels, places = torch.zeros(3, most, 3 * side * side), torch.full((3, most, 2), -1)
    for i, (rows, columns) in enumerate(GRIDS):
        count = rows * columns
        pixels[i, :count] = torch.rand(count, 3 * side * side, generator=generator)
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        places[i, :count] = torch.stack([x, y], -1).reshape(count, 2)
    patches = torch.cat([pixels[i, : rows * columns] for i, (rows, columns) in enumerate(GRIDS)])
    tokens = [rows * columns // (unit * unit) for rows, columns in GRIDS]
    return {"pixel_values": pixels, "image_position_ids": places}, patches, [[1, *grid] for grid in GRIDS], tokens


def inputs_of(config, seed):
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    pixels, patches, grids, tokens = pictures_of(config, generator)
    ids, mask, spans = pictures.rows_of(tokens, generator)
    ids[2, 2], ids[2, 5] = SOUND, FILM  # without any: they are as padding
    labels = ids.clone()
    labels[(mask == 0) | (ids == IMAGE)] = pictures.IGNORE
    labels[1, :3] = pictures.IGNORE
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": labels, **pixels,
              "mm_token_type_ids": (ids == IMAGE).int()}
    return inputs, {"patches": patches, "spans": torch.tensor(spans), "grids": torch.tensor(grids)}


def generated(model, inputs):
    """Behind the first row, whose picture is the first one."""
    count = int(inputs["attention_mask"][0].sum())
    prompt = {key: inputs[key][:1, :count] for key in ("input_ids", "attention_mask", "mm_token_type_ids")}
    prompt |= {key: inputs[key][:1] for key in ("pixel_values", "image_position_ids")}
    made = model.generate(**prompt, max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0,
                          **({"cache_implementation": "static", "disable_compile": True}
                             if model.config.model_type == "gemma4_unified" else {}))
    return made[0, count:]


class WithItsMasks:
    """transformers 5.24 has two masks for gemma4_unified: in generation with a static cache Gemma 4's, as other
    programs do; else pictures' tokens see each other in layers that see all, too, and beyond the window. The first."""

    def __init__(self, model):
        self.model = model

    def __getattr__(self, name):
        return getattr(self.model, name)

    def __call__(self, **batch):
        config, ids = self.model.config.get_text_config(), batch["input_ids"]
        masks = create_masks_for_vision_model(
            config=config, inputs_embeds=self.model.get_input_embeddings()(ids), cache=None, position_ids=None,
            attention_mask=batch["attention_mask"],
            block_sequence_ids=get_block_sequence_ids_for_mask(batch["mm_token_type_ids"], ids.device))
        return self.model(**{**batch, "attention_mask": masks})


def load(folder):
    routed = {"experts_implementation": "eager"} if folder.name == "gemma4_moe" else {}
    model = common.load_model(folder, hf.AutoModelForImageTextToText, **routed)
    return WithItsMasks(model) if folder.name == "gemma4_unified" else model


def make(name):
    config, seed = CASES[name]
    folder = common.ROOT / "pictures" / name
    model = random_model(config(), seed)
    save_anew(folder, model)
    for file in folder.iterdir():
        file.chmod(0o644)
    inputs, about = inputs_of(model.config, seed)
    plain = {id(weight) for module in model.modules()
             if isinstance(module, torch.nn.LayerNorm) or "RMSNorm" in type(module).__name__
             for weight in module.parameters()}
    kept = {n for n, weight in model.named_parameters() if id(weight) in plain or n.endswith("bias")}
    common.decays = lambda n: n not in kept
    gradients = lambda model: ((n, w.grad) for n, w in model.named_parameters() if w.grad is not None)
    more = lambda model, output: {**about, "generated": generated(model, inputs)}
    write_golden(folder, seed, inputs, "golden_gemma4_pictures.py", load, gradients=gradients, more=more)


if __name__ == "__main__":
    for one in sys.argv[1:] or CASES:
        make(one)
