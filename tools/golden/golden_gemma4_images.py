#!/usr/bin/env python3
# Goldens of Gemma 4's processors: golden_gemma4_images.py -> tests/golden/images_gemma4/ (development time only).
#
#   processors/<name>/    a processor's file each, as published folders have it, with small patches
#   processed.safetensors what AutoImageProcessor makes of some of tests/golden/images/files by these, without padding
#   layouts.json          and how large what it makes of pictures of many sizes is
#
# Needs pillow and torchvision besides what tools/README.md names; seconds, and the same bytes every time on the same
# versions.
import json

import torch
from PIL import Image
from transformers import AutoImageProcessor

import golden_common as common

HERE, FILES = common.ROOT / "images_gemma4", common.ROOT / "images/files"
# As published, but for the sizes.
KEYS = {"do_convert_rgb": True, "do_normalize": False, "do_rescale": True, "do_resize": True,
        "image_mean": [0.0, 0.0, 0.0], "image_seq_length": 280, "image_std": [1.0, 1.0, 1.0], "resample": 3,
        "rescale_factor": 0.00392156862745098}
PROCESSORS = {
    "whole": ({**KEYS, "image_processor_type": "Gemma4ImageProcessor", "max_soft_tokens": 70, "patch_size": 2,
               "pooling_kernel_size": 2}, ["rgb.png", "tall.png"]),
    # Pillow's other filter, three patches on a side, numbers that have a mean.
    "thirds": ({"image_processor_type": "Gemma4ImageProcessorFast", "max_soft_tokens": 140, "patch_size": 1,
                "pooling_kernel_size": 3, "resample": 2, "do_normalize": True, "image_mean": [0.5, 0.4, 0.3],
                "image_std": [0.5, 0.5, 0.25]}, ["gradient.png"]),
    "unified": ({**KEYS, "image_processor_type": "Gemma4UnifiedImageProcessor", "max_soft_tokens": 70, "patch_size": 2,
                 "pooling_kernel_size": 2}, ["rgb.png", "420.jpg"]),
}
# As published files have them: what a picture of any size becomes.
LAYOUTS = {"e2b": {"image_processor_type": "Gemma4ImageProcessor", "max_soft_tokens": 280, "patch_size": 16,
                   "pooling_kernel_size": 3},
           "12b": {"image_processor_type": "Gemma4UnifiedImageProcessor", "max_soft_tokens": 1120, "patch_size": 16,
                   "pooling_kernel_size": 3}}
SIDES = [1, 7, 48, 100, 333, 768, 1000, 1921, 4000]


def opened(name, keys):
    """Processors of folders have these among others."""
    folder = HERE / "processors" / name
    folder.mkdir(parents=True, exist_ok=True)
    whole = {"audio_seq_length": 750, "image_processor": keys, "image_seq_length": 280,
             "processor_class": "Gemma4Processor"}
    (folder / "processor_config.json").write_text(json.dumps(whole, indent=2, sort_keys=True) + "\n")
    (folder / "processor_config.json").chmod(0o644)
    return AutoImageProcessor.from_pretrained(folder)


def grid_of(places):
    """Rows and columns, of places without padding."""
    return [int(places[:, 1].max()) + 1, int(places[:, 0].max()) + 1]


def processed(processor, picture):
    made = processor(images=[picture], return_tensors="pt")
    places = made["image_position_ids"][0]
    real = (places != -1).all(-1)
    return made["pixel_values"][0][real], grid_of(places[real]), int(made["num_soft_tokens_per_image"][0])


def layout_of(processor, height, width):
    size = {"size": [height, width]}
    if height * width > 4_000_000:
        return None
    try:
        values, grid, tokens = processed(processor, Image.new("RGB", (width, height)))
    except ValueError:
        return {**size, "error": True}
    return {**size, "shape": list(values.shape), "grid": [1, *grid], "tokens": tokens}


def make():
    tensors = {}
    for name, (keys, files) in PROCESSORS.items():
        processor = opened(name, keys)
        for file in files:
            picture = Image.open(FILES / file)
            values, _, _ = processed(processor, picture)
            tensors[f"{name}/{file}"] = values
    common.write_safetensors(HERE / "processed.safetensors", tensors, {}, "tools/golden/golden_gemma4_images.py")
    layouts = {}
    for name, keys in LAYOUTS.items():
        processor = opened(name, keys)
        rows = [layout_of(processor, height, width) for height in SIDES for width in SIDES]
        layouts[name] = [row for row in rows if row]
    text = ",\n".join(f' "{name}": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "]"
                      for name, rows in layouts.items())
    (HERE / "layouts.json").write_text("{\n" + text + "\n}\n")
    (HERE / "layouts.json").chmod(0o644)
    print({name: tuple(value.shape) for name, value in tensors.items()})


if __name__ == "__main__":
    torch.set_num_threads(1)
    make()
