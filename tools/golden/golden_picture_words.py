#!/usr/bin/env python3
# Goldens of what stands in texts for pictures: golden_picture_words.py [NAME] -> tests/golden/picture_words/<name>/
# (development time only).
#
# Each folder has a small tokenizer and a preprocessor_config.json as a model's folder has them, and words.json: texts
# with pictures of tests/golden/images/files, and the ids that transformers' processor gives for them. Seconds, and the
# same bytes every time on the same versions.
import json
import shutil
import sys

import golden_common as common
import torch
import transformers as hf
from PIL import Image
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

IMAGES = common.ROOT / "images/files"
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
LETTERS = [chr(code) for code in range(33, 127)]


def tokenizer_of(merges, special, **parts):
    pieces = LETTERS + parts.pop("more") + ["".join(pair) for pair in merges]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    made = Tokenizer(models.BPE(vocabulary, merges))
    for name, part in parts.items():
        setattr(made, name, part)
    made.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return made


def gemma3(folder):
    """Line ends are merged with those beside them, as in Gemma's vocabulary: what stands around a picture is one token
    with what the text has there."""
    lines = [("\n" * a, "\n" * b) for a, b in ((1, 1), (2, 1), (2, 2))]
    special = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    made = tokenizer_of(lines + [("▁", "a"), ("s", "o")], ["<bos>", "<eos>", *special.values()], more=["▁", "\n"],
                        normalizer=normalizers.Replace(" ", "▁"), decoder=decoders.Replace("▁", " "))
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<bos>", eos_token="<eos>",
                                           extra_special_tokens=special)
    pictures = hf.Gemma3ImageProcessor(size={"height": 24, "width": 24}, **HALF)
    texts = [("user\n<start_of_image>What is it?", ["rgb.png"]), ("<start_of_image>", ["tall.png"]),
             ("a <start_of_image>\n\nso <start_of_image>\nb\n", ["rgb.png", "gradient.png"]),
             ("a\n\n\n<start_of_image><start_of_image> so", ["tall.png", "rgb.png"])]
    ids = {"token": "<image_soft_token>", "before": "<start_of_image>", "after": "<end_of_image>"}
    return hf.Gemma3Processor(pictures, tokenizer, image_seq_length=9), texts, ids, dict(side=6, patch=4, merged=2)


def idefics3(folder):
    special = ["<|im_start|>", "<end_of_utterance>", "<fake_token_around_image>", "<global-img>", "<image>"]
    special += [f"<row_{row + 1}_col_{column + 1}>" for row in range(6) for column in range(6)]
    made = tokenizer_of([("Ċ", "Ċ"), ("Ġ", "a"), ("s", "o")], special, more=["Ġ", "Ċ"],
                        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False), decoder=decoders.ByteLevel())
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end_of_utterance>")
    pictures = hf.Idefics3ImageProcessor(size={"longest_edge": 48}, max_image_size={"longest_edge": 16}, **HALF)
    texts = [("<|im_start|>User:<image>What is it?<end_of_utterance>\nAssistant:", ["rgb.png"]),
             ("<image>", ["tall.png"]), ("a <image>\n\nso\n<image>", ["gradient.png", "rgb.png"])]
    return hf.Idefics3Processor(pictures, tokenizer, image_seq_len=4), texts, {"token": "<image>"}, dict(
        side=4, patch=4, merged=2)


def llava_next(folder):
    made = tokenizer_of([("Ġ", "a")], ["<s>", "</s>", "<image>"], more=["Ġ", "Ċ"],
                        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False), decoder=decoders.ByteLevel())
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")
    pictures = hf.LlavaNextImageProcessor(size={"shortest_edge": 12}, crop_size={"height": 12, "width": 12},
                                          image_grid_pinpoints=[[12, 24], [24, 12], [24, 24], [12, 36]])
    texts = [("a <image>\nWhat?", ["rgb.png"]), ("<image> b <image>", ["tall.png", "gradient.png"])]
    values = {file: pictures(images=[Image.open(IMAGES / file)], return_tensors="pt")["pixel_values"][0]
              for file in ("rgb.png", "tall.png", "gradient.png")}
    common.write_safetensors(folder / "values.safetensors", values, {}, "tools/golden/golden_picture_words.py")
    processor = hf.LlavaNextProcessor(pictures, tokenizer, patch_size=4, vision_feature_select_strategy="default",
                                      num_additional_image_tokens=1)
    return processor, texts, {"token": "<image>"}, dict(side=3, patch=4, merged=1, joined=True)


def byte_level(special, **tokens):
    made = tokenizer_of([("Ċ", "Ċ"), ("Ġ", "a"), ("s", "o")], special, more=["Ġ", "Ċ"],
                        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False), decoder=decoders.ByteLevel())
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, **tokens)


def write_patches(folder, patches):
    """What the model reads of each of these files: patches, one after another."""
    values = {file: values.contiguous() for file, values in patches.items()}
    common.write_safetensors(folder / "values.safetensors", values, {}, "tools/golden/golden_picture_words.py")


def pixtral(folder):
    special = ["<s>", "</s>", "[INST]", "[/INST]", "[IMG]", "[IMG_BREAK]", "[IMG_END]"]
    tokenizer = byte_level(special, bos_token="<s>", eos_token="</s>")
    pictures = hf.PixtralImageProcessor(size={"longest_edge": 24}, patch_size={"height": 4, "width": 4})
    processor = hf.PixtralProcessor(pictures, tokenizer, patch_size=4, spatial_merge_size=2)
    texts = [("[INST][IMG]What is it?[/INST] so", ["rgb.png"]), ("[IMG]", ["tall.png"]),
             ("a [IMG]\n\n[IMG] so[IMG]", ["gradient.png", "rgba.png", "tall.png"])]

    def patches_of(file):
        made = processor(text=["[IMG]"], images=[[Image.open(IMAGES / file)]], return_tensors="pt")
        height, width = (side // 4 for side in made["image_sizes"][0].tolist())
        return made["pixel_values"].reshape(3, height, 4, width, 4).permute(1, 3, 0, 2, 4).reshape(-1, 48)

    write_patches(folder, {file: patches_of(file) for file in ("rgb.png", "tall.png", "rgba.png")})
    beside = {"patch_size": 4, "spatial_merge_size": 2, "image_token": "[IMG]", "image_break_token": "[IMG_BREAK]",
              "image_end_token": "[IMG_END]", "processor_class": "PixtralProcessor"}
    (folder / "processor_config.json").write_text(json.dumps(beside, indent=2) + "\n")
    return processor, texts, {"token": "[IMG]"}, dict(side=0, patch=4, merged=2, words="rows")


def lfm2_vl(folder):
    special = ["<|startoftext|>", "<|im_end|>", "<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>"]
    special += [f"<|img_row_{row + 1}_col_{column + 1}|>" for row in range(4) for column in range(4)]
    tokenizer = byte_level(special, bos_token="<|startoftext|>", eos_token="<|im_end|>")
    pictures = hf.Lfm2VlImageProcessor(encoder_patch_size=4, tile_size=16, min_image_tokens=2, max_image_tokens=4,
                                       max_tiles=4)
    processor = hf.Lfm2VlProcessor(pictures, tokenizer)
    texts = [("<image>What is it?", ["rgb.png"]), ("<image>", ["tall.png"]),
             ("a <image>\n\n<image> so<image>", ["gradient.png", "turned.png", "rgb.png"])]

    def patches_of(file):
        made = processor(text=["<image>"], images=[[Image.open(IMAGES / file)]], return_tensors="pt")
        counts = made["spatial_shapes"].prod(-1).tolist()
        return torch.cat([tile[:count] for tile, count in zip(made["pixel_values"], counts)])

    write_patches(folder, {file: patches_of(file) for file in ("rgb.png", "tall.png", "420.jpg")})
    return processor, texts, {"token": "<image>"}, dict(side=0, patch=4, merged=2, words="named")


def internvl(folder):
    special = ["<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<video>"]
    tokenizer = byte_level(special, eos_token="<|im_end|>", extra_special_tokens={
        "start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>"})
    pictures = hf.GotOcr2ImageProcessor(size={"height": 16, "width": 16}, min_patches=1, max_patches=6)
    processor = hf.InternVLProcessor(pictures, tokenizer, hf.InternVLVideoProcessor(), image_seq_length=4)
    texts = [("<|im_start|>user\n<IMG_CONTEXT>\nWhat is it?", ["rgb.png"]), ("<IMG_CONTEXT>", ["tall.png"]),
             ("a <IMG_CONTEXT>\n\n<IMG_CONTEXT> so", ["la.png", "gradient.png"])]

    def patches_of(file):
        made = processor(text=["<IMG_CONTEXT>"], images=[[Image.open(IMAGES / file)]],
                         return_tensors="pt")
        tiles = made["pixel_values"]
        return tiles.reshape(-1, 3, 4, 4, 4, 4).permute(0, 2, 4, 1, 3, 5).reshape(-1, 48)

    write_patches(folder, {file: patches_of(file) for file in ("rgb.png", "tall.png", "la.png")})
    return processor, texts, {"token": "<IMG_CONTEXT>"}, dict(side=4, patch=4, merged=2, words="bracketed")


def qwen3_5(folder):
    special = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer = byte_level(special, eos_token="<|im_end|>")
    pictures = hf.Qwen2VLImageProcessor(patch_size=4, merge_size=2, temporal_patch_size=2, **HALF,
                                        size={"shortest_edge": 64, "longest_edge": 1024})
    shown = "<|vision_start|><|image_pad|><|vision_end|>"
    texts = [(f"<|im_start|>user\n{shown}What is it?<|im_end|>\n", ["rgb.png"]), (shown, ["tall.png"]),
             (f"a {shown}\n\n{shown} so", ["gradient.png", "rgba.png"])]
    processor = hf.Qwen3VLProcessor(pictures, tokenizer, hf.Qwen3VLVideoProcessor())
    return processor, texts, {"token": "<|image_pad|>"}, dict(side=0, patch=4, merged=2, frames=2, words="none")


def make(name, maker):
    folder = common.ROOT / "picture_words" / name
    shutil.rmtree(folder, ignore_errors=True)
    processor, texts, ids, sizes = maker(folder)
    processor.tokenizer.save_pretrained(folder)
    keys = {key: value for key, value in processor.image_processor.to_dict().items() if value is not None}
    (folder / "preprocessor_config.json").write_text(json.dumps(keys, indent=2, sort_keys=True) + "\n")
    cases = []
    for text, files in texts:
        pictures = [Image.open(IMAGES / file) for file in files]
        made = processor(text=[text], images=[pictures], return_tensors="pt")
        cases.append({"text": text, "pictures": files, "ids": made["input_ids"][0].tolist()})
    number = {key: processor.tokenizer.convert_tokens_to_ids(token) for key, token in ids.items()}
    common.write_json(folder / "words.json", {**number, **sizes, "cases": cases},
                      "tools/golden/golden_picture_words.py")
    for file in folder.iterdir():
        file.chmod(0o644)
    print(name, [len(case["ids"]) for case in cases])


MAKERS = {"gemma3": gemma3, "idefics3": idefics3, "llava_next": llava_next, "pixtral": pixtral, "lfm2_vl": lfm2_vl,
          "internvl": internvl, "qwen3_5": qwen3_5}

if __name__ == "__main__":
    for name, maker in MAKERS.items():
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            make(name, maker)
