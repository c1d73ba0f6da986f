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
from golden_model import fill, save_anew, write_golden

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
}
FIXED = {"llava", "gemma3", "idefics3", "smolvlm"}  # pictures, or tiles of them, of one size


def tokens_of_fixed(config, side):
    if config.model_type == "gemma3":
        return config.mm_tokens_per_image
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
    return name.endswith(".weight") and ("norm" in last or "layrnorm" in last or last == "ln_q")


def random_model(config, seed):
    model = hf.AutoModelForImageTextToText.from_config(config, attn_implementation=common.ATTENTION,
                                                       dtype=torch.float32)
    tied = getattr(config, "tie_word_embeddings", False)
    return fill(model, seed, lambda name: "embed_tokens" in name, is_norm, 0.4 if tied else 1.0)


def pictures_of(config, generator):
    """pixel_values as the processor gives them, the same as patches, the grid of each, and its tokens."""
    if config.model_type in FIXED:
        size, patch = config.vision_config.image_size, config.vision_config.patch_size
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


def rows_of(tokens, generator):
    """Ids and the places of pictures: one, then two, then none, padded on the right."""
    words = lambda count: torch.randint(3, 58, (count,), generator=generator).tolist()
    rows, spans = [], []
    for row, pictures in enumerate([[0], [1, 2], []]):
        ids = words(4)
        for picture in pictures:
            spans.append([row, len(ids) + 1, len(ids) + 1 + tokens[picture]])
            ids += [58] + [IMAGE] * tokens[picture] + [59] + words(3)
        rows.append(ids + words(5))
    length = max(len(ids) for ids in rows)
    mask = torch.tensor([[1] * len(ids) + [0] * (length - len(ids)) for ids in rows])
    return torch.tensor([ids + [0] * (length - len(ids)) for ids in rows]), mask, spans


def inputs_of(config, seed):
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    joined = config.model_type == "llava_next"
    pixels, patches, grids, tokens, *more = (joined_pictures if joined else pictures_of)(config, generator)
    ids, mask, spans = rows_of(tokens, generator)
    labels = ids.clone()
    labels[(mask == 0) | (ids == IMAGE)] = IGNORE
    labels[1, :3] = IGNORE
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": labels, **pixels}
    if "image_grid_thw" in pixels:
        inputs["mm_token_type_ids"] = (ids == IMAGE).int()
    if config.model_type == "gemma3":
        inputs["token_type_ids"] = (ids == IMAGE).long()
    about = {"patches": patches} if config.model_type in FIXED or joined else {}
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
    if "image_sizes" in inputs:
        prompt["image_sizes"] = inputs["image_sizes"][:1]
    if "token_type_ids" in inputs:
        prompt["token_type_ids"] = inputs["token_type_ids"][:1, :count]
    made = model.generate(**prompt, max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
    return made[0, count:]


def load(folder):
    return common.load_model(folder, hf.AutoModelForImageTextToText)


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
    gradients = lambda model: ((n, w.grad) for n, w in model.named_parameters() if w.grad is not None)
    more = lambda model, output: {**about, "generated": generated(model, inputs, about)}
    write_golden(folder, seed, inputs, "golden_pictures.py", load, gradients=gradients, more=more)


if __name__ == "__main__":
    for number, name in enumerate(CASES):
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            make(name, 9000 + number)
