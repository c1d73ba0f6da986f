#!/usr/bin/env python3
# Golden files of models that read pictures: golden_pictures.py [NAME] -> tests/golden/pictures/<name>/ (development
# time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, plus golden.safetensors: rows with one picture, with
# two, and with none, what transformers computes from them, with gradients under the names of its modules, and what it
# generates behind a prompt with a picture. Pictures are random numbers in the processor's form. Seconds for all.
import sys
from types import SimpleNamespace

import torch
import transformers as hf

import golden_common as common
import golden_moe
from golden_model import fill, save_anew, write_golden
from golden_qwen3_5 import EXPERTS, MEMORIES, give_memories

IMAGE, IGNORE = 60, -100
TEXT = dict(vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2,
            pad_token_id=0)
CLIP = dict(model_type="clip_vision_model", hidden_size=24, intermediate_size=36, num_hidden_layers=3,
            num_attention_heads=3, image_size=12, patch_size=4, projection_dim=8)
QWEN_TEXT = {**TEXT, "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [2, 1, 1]},
             "max_window_layers": 2}
QWEN_TOKENS = dict(image_token_id=IMAGE, video_token_id=61, vision_start_token_id=58, vision_end_token_id=59)


def llava(seed, **options):
    text = {"model_type": options.pop("text", "llama"), **TEXT, **options.pop("text_options", {})}
    return hf.LlavaConfig(text_config=text, vision_config={**CLIP, **options.pop("clip", {})}, image_token_index=IMAGE,
                          **options)


def qwen2_5_vl(seed, **options):
    vision = dict(depth=3, hidden_size=16, intermediate_size=20, num_heads=2, patch_size=4, out_hidden_size=32,
                  window_size=16, fullatt_block_indexes=[1])
    return hf.Qwen2_5_VLConfig(text_config={**QWEN_TEXT, **options.pop("text_options", {})}, vision_config=vision,
                               **QWEN_TOKENS, **options)


def qwen2_vl(seed, **options):
    vision = dict(depth=2, embed_dim=24, num_heads=3, patch_size=4, hidden_size=32, mlp_ratio=2)
    return hf.Qwen2VLConfig(text_config=QWEN_TEXT, vision_config=vision, **QWEN_TOKENS, **options)


def qwen3_vl(seed, **options):
    vision = dict(depth=3, hidden_size=16, intermediate_size=20, num_heads=2, patch_size=4, out_hidden_size=32,
                  num_position_embeddings=9, deepstack_visual_indexes=[0, 2])
    text = {**TEXT, "head_dim": 8, "rope_parameters": {
        "rope_type": "default", "rope_theta": 100.0, "mrope_section": [2, 1, 1], "mrope_interleaved": True}}
    return hf.Qwen3VLConfig(text_config=text, vision_config=vision, **QWEN_TOKENS, **options)


NO_DEEP = dict(depth=2, hidden_size=16, intermediate_size=20, num_heads=2, patch_size=4, out_hidden_size=32,
               num_position_embeddings=9)


def qwen3_5(seed, config=hf.Qwen3_5Config, **options):
    """Half of a head turns, by time, height and width in turn."""
    rope = {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5, "mrope_interleaved": True,
            "mrope_section": [2, 1, 1]}
    text = {**TEXT, "head_dim": 16, **MEMORIES, "layer_types": ["full_attention", "linear_attention"],
            "rope_parameters": rope, **options.pop("text_options", {})}
    return config(text_config=text, vision_config=NO_DEEP, **QWEN_TOKENS, **options)


def qwen3_5_moe(seed, **options):
    text = {"layer_types": ["linear_attention", "full_attention"], **EXPERTS}
    return qwen3_5(seed, hf.Qwen3_5MoeConfig, text_options=text, **options)


def glm4v(seed, config=hf.Glm4vConfig, **options):
    rope = {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]}
    text = {**TEXT, "num_attention_heads": 2, "num_key_value_heads": 1, "rope_parameters": rope,
            **options.pop("text_options", {})}
    vision = dict(depth=2, hidden_size=16, intermediate_size=20, num_heads=2, patch_size=4, image_size=12,
                  out_hidden_size=32, **options.pop("vision", {}))
    tokens = dict(image_token_id=IMAGE, video_token_id=61, image_start_token_id=58, image_end_token_id=59,
                  video_start_token_id=62, video_end_token_id=63)
    return config(text_config=text, vision_config=vision, **tokens, **options)


def glm4v_moe(seed, **options):
    """Experts by groups behind a dense layer; the balancing loss counts."""
    text = {"n_routed_experts": 6, "num_experts_per_tok": 2, "n_group": 3, "topk_group": 2, "moe_intermediate_size": 9,
            "routed_scaling_factor": 1.5, "output_router_logits": True, "router_aux_loss_coef": 0.05}
    return glm4v(seed, hf.Glm4vMoeConfig, text_options=text, **options)


def qwen3_vl_moe(seed, **options):
    vision = {**NO_DEEP, "depth": 3, "deepstack_visual_indexes": [0, 2]}
    experts = {key: value for key, value in EXPERTS.items() if not key.startswith("shared")}
    text = {**TEXT, "head_dim": 8, **experts, "num_hidden_layers": 3, "mlp_only_layers": [0], "rope_parameters": {
        "rope_type": "default", "rope_theta": 100.0, "mrope_section": [2, 1, 1], "mrope_interleaved": True}}
    return hf.Qwen3VLMoeConfig(text_config=text, vision_config=vision, **QWEN_TOKENS, **options)


SIGLIP = dict(hidden_size=24, intermediate_size=36, num_hidden_layers=2, num_attention_heads=3, image_size=24,
              patch_size=4)


def gemma3(seed, **options):
    rope = {kind: {"rope_type": "default", "rope_theta": theta}
            for kind, theta in (("sliding_attention", 50.0), ("full_attention", 100.0))}
    text = {**TEXT, "rms_norm_eps": 1e-6, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 4,
            "layer_types": ["sliding_attention", "full_attention"], "rope_parameters": rope}
    return hf.Gemma3Config(text_config=text, vision_config={"model_type": "siglip_vision_model", **SIGLIP},
                           mm_tokens_per_image=9, boi_token_index=58, eoi_token_index=59, image_token_index=IMAGE,
                           **options)


def idefics3(seed, config=hf.Idefics3Config, **options):
    vision = {**SIGLIP, "image_size": 16}
    return config(text_config={"model_type": "llama", **TEXT}, vision_config=vision, image_token_id=IMAGE,
                  scale_factor=2, **options)


SIZES = [(10, 31), (40, 17), (25, 26)]  # of LLaVA-NeXT's pictures, height and width


def llava_next(seed, **options):
    clip = {**CLIP, "num_hidden_layers": 2}
    return hf.LlavaNextConfig(text_config={"model_type": "llama", **TEXT}, vision_config=clip, image_token_index=IMAGE,
                              image_grid_pinpoints=[[12, 24], [24, 12], [24, 24], [12, 36]], **options)


def mistral3(seed, **options):
    text = {"model_type": options.pop("text", "mistral"), **TEXT, **options.pop("text_options", {})}
    vision = {"model_type": "pixtral", "hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 2,
              "num_attention_heads": 3, "image_size": 40, "patch_size": 4, **options.pop("vision", {})}
    return hf.Mistral3Config(text_config=text, vision_config=vision, image_token_index=IMAGE, **options)


GROWING = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16,
           "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5}
ROW_END, PICTURE_END = 58, 59  # of Mistral 3's pictures


def lfm2_vl(seed, **options):
    text = {"model_type": "lfm2", **{key: value for key, value in TEXT.items() if key != "rms_norm_eps"},
            "num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"],
            "block_auto_adjust_ff_dim": False}
    vision = {"model_type": "siglip2_vision_model", "hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 2,
              "num_attention_heads": 3, "patch_size": 4, "num_patches": 9, **options.pop("vision", {})}
    return hf.Lfm2VlConfig(text_config=text, vision_config=vision, image_token_id=IMAGE, projector_hidden_size=28,
                           **options)


def internvl(seed, **options):
    text = {"model_type": options.pop("text", "qwen2"), **TEXT, "max_window_layers": 2,
            **options.pop("text_options", {})}
    vision = {"hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 2, "num_attention_heads": 3,
              "image_size": 16, "patch_size": 4, **options.pop("vision", {})}
    return hf.InternVLConfig(text_config=text, vision_config=vision, image_token_id=IMAGE, image_seq_length=4,
                             **options)


# Of Qwen's: time, height and width of each picture, in patches; a window is two tokens wide.
GRIDS = [[1, 6, 10], [1, 4, 4], [1, 8, 2]]
CASES = {
    "llava": lambda seed: llava(seed),
    "llava-layers": lambda seed: llava(seed, text="qwen2", vision_feature_layer=[-1, 0, 2],
                                       vision_feature_select_strategy="full", multimodal_projector_bias=False,
                                       clip={"hidden_act": "gelu", "image_size": 14},
                                       text_options={"max_window_layers": 2, "tie_word_embeddings": True}),
    "qwen2_5_vl": lambda seed: qwen2_5_vl(seed),
    "qwen2_vl": lambda seed: qwen2_vl(seed, tie_word_embeddings=True),
    "qwen3_vl": lambda seed: qwen3_vl(seed),
    "gemma3": lambda seed: gemma3(seed),
    "idefics3": lambda seed: idefics3(seed),
    "smolvlm": lambda seed: idefics3(seed, hf.SmolVLMConfig, tie_word_embeddings=True),
    "llava_next": lambda seed: llava_next(seed),
    "mistral3": lambda seed: mistral3(seed, tie_word_embeddings=False, text_options={"head_dim": 12}),
    "mistral3-growing": lambda seed: mistral3(seed, text="ministral3", vision_feature_layer=-2,
                                              multimodal_projector_bias=True,
                                              vision={"num_hidden_layers": 3, "hidden_act": "silu"},
                                              text_options={"head_dim": 8, "rope_parameters": GROWING,
                                                            "tie_word_embeddings": True}),
    "qwen3_5": lambda seed: qwen3_5(seed, tie_word_embeddings=True),
    "qwen3_5_moe": lambda seed: qwen3_5_moe(seed),
    "qwen3_vl_moe": lambda seed: qwen3_vl_moe(seed),
    "lfm2_vl": lambda seed: lfm2_vl(seed),
    "lfm2_vl-plain": lambda seed: lfm2_vl(seed, projector_use_layernorm=False, projector_bias=False,
                                          vision={"vision_use_head": False, "hidden_act": "gelu"}),
    "internvl": lambda seed: internvl(seed, tie_word_embeddings=False, vision={"attention_bias": True}),
    "internvl-rms": lambda seed: internvl(seed, text="qwen3", text_options={"head_dim": 8},
                                          vision={"norm_type": "rms_norm", "use_qk_norm": True,
                                                  "use_mean_pooling": False, "use_mask_token": True}),
    "glm4v": lambda seed: glm4v(seed),
    "glm46v": lambda seed: glm4v(seed, hf.Glm46VConfig, vision={"attention_bias": True}),
    "glm4v_moe": lambda seed: glm4v_moe(seed),
}
# For which transformers' own fp32 gives every gradient within 3e-6 of fp64's; others have their number in the table.
SEEDS = {"qwen3_5": 11609, "qwen3_5_moe": 9110, "qwen3_vl_moe": 9111, "glm4v": 11112, "glm46v": 9313, "glm4v_moe": 9177}
FIXED = {"llava", "gemma3", "idefics3", "smolvlm", "internvl"}  # pictures, or tiles of them, of one size


def tokens_of_fixed(config, side):
    if config.model_type == "gemma3":
        return config.mm_tokens_per_image
    if config.model_type == "internvl":
        return int(side * config.downsample_ratio) ** 2
    if config.model_type == "llava":
        return side * side + (1 if config.vision_feature_select_strategy == "full" else 0)
    return (side // config.scale_factor) ** 2


def pixels_by_row(pixels):
    """As Idefics 3 has them: of each row, with zeros where it has fewer pictures than others."""
    by_row = torch.zeros(3, 2, *pixels.shape[1:])
    by_row[0, 0], by_row[1, 0], by_row[1, 1] = pixels
    return by_row


def joined_tokens(config, size, side):
    """As transformers' processor counts them."""
    processor = hf.LlavaNextProcessor
    own = SimpleNamespace(image_processor=config, patch_size=config.vision_config.patch_size,
                          num_additional_image_tokens=1)
    own._get_unpadded_features = lambda *sizes: processor._get_unpadded_features(own, *sizes)
    pixels = config.vision_config.image_size
    return processor._get_number_of_features(own, *size, pixels, pixels) - 1


def joined_pictures(config, generator):
    """All of each picture and its tiles; what of these shows nothing of it."""
    shape = sys.modules["transformers.models.llava_next.modeling_llava_next"].get_anyres_image_grid_shape
    size, patch = config.vision_config.image_size, config.vision_config.patch_size
    side = size // patch
    grids = [shape(one, config.image_grid_pinpoints, size) for one in SIZES]
    most = 1 + max(rows * columns for rows, columns in grids)
    pixels, patches, tiles = torch.zeros(3, most, 3, size, size), [], []
    for i, (rows, columns) in enumerate(grids):
        count = 1 + rows * columns
        pixels[i, :count] = torch.randn(count, 3, size, size, generator=generator)
        cut = pixels[i, :count].reshape(count, 3, side, patch, side, patch)
        patches.append(cut.permute(0, 2, 4, 1, 3, 5).reshape(count * side * side, -1))
        tokens = joined_tokens(config, SIZES[i], side) - side * side
        cuts = [(a, b) for a in range(side) for b in range(side) if a * b == 0 and
                (rows * side - 2 * a) * (columns * side - 2 * b + 1) == tokens]
        assert len(cuts) == 1, cuts
        tiles.append([rows, columns, *cuts[0]])
    counts = [joined_tokens(config, one, side) for one in SIZES]
    inputs = {"pixel_values": pixels, "image_sizes": torch.tensor(SIZES)}
    return inputs, torch.cat(patches), [[1, side, side]] * 3, counts, {"tiles": torch.tensor(tiles)}


def is_norm(name):
    last = name.split(".")[-2]
    return name.endswith(".weight") and ("norm" in last or "layrnorm" in last or last in ("ln_q", "ln_pre"))


def has_memories(config):
    return hasattr(config.get_text_config(), "linear_num_key_heads")


def random_model(config, seed):
    model = hf.AutoModelForImageTextToText.from_config(config, attn_implementation=common.ATTENTION,
                                                       dtype=torch.float32)
    scale = 0.4 if getattr(config, "tie_word_embeddings", False) else 1.0
    # Qwen3.5's norms of texts count from 1.
    is_one = lambda name: is_norm(name) and (not has_memories(config) or ".visual." in name or "linear_attn" in name)
    fill(model, seed, lambda name: "embed_tokens" in name, is_one, scale)
    for name, correction in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            correction.copy_(torch.randn(correction.shape, generator=torch.Generator().manual_seed(seed)) * 0.3)
    return give_memories(model, config.get_text_config(), scale) if has_memories(config) else model


def pictures_of(config, generator):
    """pixel_values as the processor gives them, the same as patches, the grid of each, and its tokens."""
    if config.model_type in FIXED:
        size, patch = config.vision_config.image_size, config.vision_config.patch_size
        if config.model_type == "internvl":
            size, patch = size[0], patch[0]
        side = size // patch
        pixels = torch.randn(3, 3, size, size, generator=generator)
        cut = pixels[:, :, :side * patch, :side * patch].reshape(3, 3, side, patch, side, patch)
        patches = cut.permute(0, 2, 4, 1, 3, 5).reshape(3 * side * side, -1)
        given = pixels_by_row(pixels) if hasattr(config, "scale_factor") else pixels
        return {"pixel_values": given}, patches, [[1, side, side]] * 3, [tokens_of_fixed(config, side)] * 3
    vision = config.vision_config
    count = sum(t * h * w for t, h, w in GRIDS)
    pixels = torch.randn(count, 3 * vision.temporal_patch_size * vision.patch_size ** 2, generator=generator)
    tokens = [t * h * w // vision.spatial_merge_size ** 2 for t, h, w in GRIDS]
    return {"pixel_values": pixels, "image_grid_thw": torch.tensor(GRIDS)}, pixels, GRIDS, tokens


def pictures_in_rows(config, generator):
    """Of several sizes, laid into the largest one's; each row of tokens ends with one of its own."""
    vision = config.vision_config
    patch, merged = vision.patch_size, config.spatial_merge_size
    grids = [[6, 10], [4, 2], [2, 8]]
    sizes = [[rows * patch, columns * patch] for rows, columns in grids]
    pixels = torch.zeros(3, 3, *[max(one[side] for one in sizes) for side in (0, 1)])
    patches, bodies = [], []
    for i, ((rows, columns), (height, width)) in enumerate(zip(grids, sizes)):
        pixels[i, :, :height, :width] = torch.randn(3, height, width, generator=generator)
        cut = pixels[i, :, :height, :width].reshape(3, rows, patch, columns, patch)
        patches.append(cut.permute(1, 3, 0, 2, 4).reshape(rows * columns, -1))
        body = ([IMAGE] * (columns // merged) + [ROW_END]) * (rows // merged)
        bodies.append(body[:-1] + [PICTURE_END])
    inputs = {"pixel_values": pixels, "image_sizes": torch.tensor(sizes)}
    return inputs, torch.cat(patches), [[1, *grid] for grid in grids], bodies


def pictures_in_patches(config, generator):
    """Of several sizes, each as a row of patches, with zeros behind those of smaller ones."""
    width = 3 * config.vision_config.patch_size ** 2
    grids = [[6, 10], [4, 2], [2, 8]]
    counts = [rows * columns for rows, columns in grids]
    pixels, mask = torch.zeros(3, max(counts), width), torch.zeros(3, max(counts), dtype=torch.int32)
    for i, count in enumerate(counts):
        pixels[i, :count], mask[i, :count] = torch.randn(count, width, generator=generator), 1
    patches = torch.cat([pixels[i, :count] for i, count in enumerate(counts)])
    inputs = {"pixel_values": pixels, "pixel_attention_mask": mask, "spatial_shapes": torch.tensor(grids)}
    return inputs, patches, [[1, *grid] for grid in grids], [n // config.downsample_factor ** 2 for n in counts]


def rows_of(tokens, generator):
    """Ids and the places of pictures: one, then two, then none, padded on the right. tokens: how many each has, or
    which."""
    words = lambda count: torch.randint(3, 58, (count,), generator=generator).tolist()
    rows, spans = [], []
    for row, pictures in enumerate([[0], [1, 2], []]):
        ids = words(4)
        for picture in pictures:
            own = tokens[picture]
            before, body, behind = ([], own, []) if isinstance(own, list) else ([58], [IMAGE] * own, [59])
            spans.append([row, len(ids) + len(before), len(ids) + len(before) + len(body)])
            ids += before + body + behind + words(3)
        rows.append(ids + words(5))
    length = max(len(ids) for ids in rows)
    mask = torch.tensor([[1] * len(ids) + [0] * (length - len(ids)) for ids in rows])
    return torch.tensor([ids + [0] * (length - len(ids)) for ids in rows]), mask, spans


def inputs_of(config, seed):
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    own = {"llava_next": joined_pictures, "mistral3": pictures_in_rows,
           "lfm2_vl": pictures_in_patches}.get(config.model_type)
    pixels, patches, grids, tokens, *more = (own or pictures_of)(config, generator)
    ids, mask, spans = rows_of(tokens, generator)
    labels = ids.clone()
    labels[(mask == 0) | (ids == IMAGE)] = IGNORE
    labels[1, :3] = IGNORE
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": labels, **pixels}
    if "image_grid_thw" in pixels:
        inputs["mm_token_type_ids"] = (ids == IMAGE).int()
    if config.model_type == "gemma3":
        inputs["token_type_ids"] = (ids == IMAGE).long()
    about = {"patches": patches} if config.model_type in FIXED or own else {}
    about |= more[0] if more else {}
    about |= {"spans": torch.tensor(spans), "grids": torch.tensor(grids)}
    return inputs, about


def generated(model, inputs, tokens):
    """Behind the first row, whose picture is the first one."""
    count = int(inputs["attention_mask"][0].sum())
    prompt = {"input_ids": inputs["input_ids"][:1, :count], "attention_mask": inputs["attention_mask"][:1, :count]}
    if "image_grid_thw" in inputs:
        patches = int(inputs["image_grid_thw"][0].prod())
        prompt |= {"pixel_values": inputs["pixel_values"][:patches], "image_grid_thw": inputs["image_grid_thw"][:1],
                   "mm_token_type_ids": inputs["mm_token_type_ids"][:1, :count]}
    else:
        prompt |= {"pixel_values": inputs["pixel_values"][:1, :1] if hasattr(model.config, "scale_factor")
                   else inputs["pixel_values"][:1]}
    for key in ("image_sizes", "spatial_shapes", "pixel_attention_mask"):
        if key in inputs:
            prompt[key] = inputs[key][:1]
    if "token_type_ids" in inputs:
        prompt["token_type_ids"] = inputs["token_type_ids"][:1, :count]
    made = model.generate(**prompt, max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
    return made[0, count:]


def load(folder):
    config = hf.AutoConfig.from_pretrained(folder)
    has_experts = any(hasattr(config.get_text_config(), key) for key in ("num_experts", "n_routed_experts"))
    options = {"experts_implementation": "eager"} if has_experts else {}
    return common.load_model(folder, hf.AutoModelForImageTextToText, **options)


def gradients(model):
    """By the names of the file: qwen3_5_moe's has every expert's matrices apart."""
    all = ((name, weight.grad) for name, weight in model.named_parameters() if weight.grad is not None)
    if model.config.model_type not in ("qwen3_5_moe", "glm4v_moe"):
        return all
    return golden_moe.gradients(SimpleNamespace(named_parameters=lambda: (
        (name, SimpleNamespace(grad=grad)) for name, grad in all)))


def make(name, seed):
    folder = common.ROOT / "pictures" / name
    model = random_model(CASES[name](seed), seed)
    save_anew(folder, model)
    for file in folder.iterdir():
        file.chmod(0o644)
    inputs, about = inputs_of(model.config, seed)
    plain = {id(weight) for module in model.modules()
             if isinstance(module, torch.nn.LayerNorm) or "RMSNorm" in type(module).__name__
             for weight in module.parameters()}
    kept = {n for n, weight in model.named_parameters() if id(weight) in plain or n.endswith("bias")}
    common.decays = lambda n: n not in kept
    more = lambda model, output: {**about, "generated": generated(model, inputs, about)}
    write_golden(folder, seed, inputs, "golden_pictures.py", load, gradients=gradients, more=more)


if __name__ == "__main__":
    for number, name in enumerate(CASES):
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            make(name, SEEDS.get(name, 9000 + number))
