#!/usr/bin/env python3
# Goldens of pictures: golden_images.py [PROCESSOR...] -> tests/golden/images/ (development time only). With names only
# these processors are asked, and what there is of others stays as it is.
#
#   files/            small pictures in all forms that hone reads, and some that it refuses
#   decoded.safetensors   what Pillow makes of each, upright and laid upon white as transformers does
#   resized.safetensors   what torchvision makes of one of them with each filter
#   processors/<name>/    a preprocessor_config.json each
#   processed.safetensors what AutoImageProcessor makes of some of the files by these
#   layouts.json          and how large what it makes of pictures of many sizes is
#
# Needs pillow and torchvision besides what tools/README.md names; seconds, and the same bytes every time on the same
# versions.
import io
import json
import pathlib
import struct
import sys
import zlib

import numpy as np
import PIL
import torch
import torchvision
import transformers
from PIL import Image, ImageOps
from PIL.PngImagePlugin import PngInfo
from safetensors import safe_open
from safetensors.torch import save_file
from torchvision.transforms.v2 import functional as tvF
from transformers import AutoImageProcessor
from transformers.image_transforms import convert_to_rgb

HERE = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/images"
CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
QWEN = {"image_processor_type": "Qwen2VLImageProcessor", "patch_size": 4, "temporal_patch_size": 2, "merge_size": 2,
        **CLIP}

# Each with the files that it is asked about.
PROCESSORS = {
    "clip": ({"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 20}, "resample": 3,
              "crop_size": {"height": 20, "width": 20}, "do_center_crop": True, "do_resize": True, "do_rescale": True,
              "do_normalize": True, "do_convert_rgb": True, "rescale_factor": 0.00392156862745098, **CLIP},
             ["420.jpg", "rgba.png"]),
    # As files of 2022 have it: no type but a feature extractor's, numbers for sizes; a crop larger than the picture.
    "clip-old": ({"feature_extractor_type": "CLIPFeatureExtractor", "size": 15, "crop_size": 21, "resample": 3,
                  "do_center_crop": True, "do_normalize": True, "do_resize": True, **CLIP}, ["420.jpg"]),
    "clip-plain": ({"image_processor_type": "CLIPImageProcessorFast", "do_resize": False, "do_normalize": False,
                    "crop_size": {"height": 8, "width": 40}}, ["rgb.png"]),
    "clip-unscaled": ({"image_processor_type": "CLIPImageProcessor", "size": {"max_height": 12, "max_width": 12},
                       "do_center_crop": False, "do_rescale": False, "image_mean": 100.0, "image_std": [50, 60, 70],
                       "resample": 0}, ["rgb.png"]),
    "siglip": ({"image_processor_type": "SiglipImageProcessor", "size": {"height": 18, "width": 18}, "resample": 3,
                "do_resize": True, "do_rescale": True, "do_normalize": True, "do_convert_rgb": None,
                "processor_class": "SiglipProcessor", **HALF}, ["rgb.png", "lossy.webp"]),
    "siglip-edges": ({"image_processor_type": "SiglipImageProcessor",
                      "size": {"shortest_edge": 17, "longest_edge": 21}}, ["rgb.png"]),
    "llava": ({"image_processor_type": "LlavaImageProcessor", "do_pad": True, "size": {"shortest_edge": 16},
               "crop_size": {"height": 16, "width": 16}}, ["rgb.png", "orientation-6.jpg"]),
    "qwen2-vl": ({**QWEN, "min_pixels": 16 * 16, "max_pixels": 24 * 24}, ["rgb.png"]),
    "qwen2.5-vl": ({**QWEN, "image_processor_type": "Qwen2VLImageProcessorFast", "resample": 3,
                    "size": {"shortest_edge": 300, "longest_edge": 800}}, ["rgb.png"]),
    "qwen3-vl": ({"image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": 6, "temporal_patch_size": 2,
                  "merge_size": 2, "size": {"shortest_edge": 128, "longest_edge": 512}, **HALF}, ["tall.png"]),
    # Pixels are counted of both pictures of a patch; what is smaller than a token is widened first.
    "glm4v": ({"image_processor_type": "Glm4vImageProcessor", "patch_size": 4, "temporal_patch_size": 2,
               "merge_size": 2, "size": {"shortest_edge": 600, "longest_edge": 1600}, **CLIP}, ["rgb.png"]),
    "glm46v": ({"image_processor_type": "Glm46VImageProcessorFast", "patch_size": 6, "temporal_patch_size": 2,
                "merge_size": 2, "size": {"shortest_edge": 128, "longest_edge": 9000}, **HALF}, ["tall.png"]),
    "gemma3": ({"image_processor_type": "Gemma3ImageProcessor", "size": {"height": 14, "width": 14}, "resample": 2,
                "do_pan_and_scan": None, "image_seq_length": 256, **HALF}, ["rgb.png", "gradient.png"]),
    "gemma3-scan": ({"image_processor_type": "Gemma3ImageProcessor", "size": {"height": 10, "width": 10},
                     "do_pan_and_scan": True, "pan_and_scan_min_crop_size": 5, "pan_and_scan_max_num_crops": 5,
                     "pan_and_scan_min_ratio_to_activate": 1.2}, ["rgb.png", "tall.png"]),
    "idefics3": ({"image_processor_type": "Idefics3ImageProcessor", "size": {"longest_edge": 20}, "resample": 1,
                  "max_image_size": {"longest_edge": 10}, "do_image_splitting": True, "do_pad": True, **HALF},
                 ["rgb.png", "tall.png"]),
    # A picture that is no larger than a square is not cut.
    "idefics3-small": ({"image_processor_type": "Idefics3ImageProcessor", "size": {"longest_edge": 12},
                        "max_image_size": {"longest_edge": 12}}, ["rgb.png"]),
    "smolvlm": ({"image_processor_type": "SmolVLMImageProcessor", "size": {"longest_edge": 24}, "resample": 1,
                 "max_image_size": {"longest_edge": 16}, "do_image_splitting": False,
                 "video_sampling": {"fps": 1, "max_frames": 64}, **HALF}, ["rgb.png"]),
    "pixtral": ({"image_processor_type": "PixtralImageProcessorFast", "size": {"longest_edge": 24}, "resample": 3,
                 "patch_size": {"height": 4, "width": 6}, "do_resize": True, "do_center_crop": None, **CLIP},
                ["rgb.png", "tall.png", "rgba.png"]),
    "pixtral-sides": ({"image_processor_type": "PixtralImageProcessor", "size": {"height": 30, "width": 18},
                       "patch_size": 5}, ["rgb.png"]),
    "pixtral-plain": ({"image_processor_type": "PixtralImageProcessor", "do_resize": False}, ["rgb.png"]),
    "lfm2-vl": ({"image_processor_type": "Lfm2VlImageProcessorFast", "encoder_patch_size": 4, "tile_size": 16,
                 "min_image_tokens": 2, "max_image_tokens": 4, "max_tiles": 10, "min_tiles": 2, "resample": 2,
                 "max_num_patches": 16, "size": {"height": 16, "width": 16}, "do_pad": True, **HALF},
                ["rgb.png", "tall.png", "gradient.png"]),
    "lfm2-vl-tiles": ({"image_processor_type": "Lfm2VlImageProcessorFast", "encoder_patch_size": 4, "tile_size": 8,
                       "min_image_tokens": 1, "max_image_tokens": 6, "max_tiles": 5, "use_thumbnail": False,
                       "max_pixels_tolerance": 1.0}, ["rgb.png"]),
    "lfm2-vl-whole": ({"image_processor_type": "Lfm2VlImageProcessor", "encoder_patch_size": 3,
                       "downsample_factor": 3, "do_image_splitting": False, "min_image_tokens": 4,
                       "max_image_tokens": 12}, ["rgb.png"]),
    "internvl": ({"image_processor_type": "GotOcr2ImageProcessorFast", "size": {"height": 12, "width": 12},
                  "crop_to_patches": True, "min_patches": 1, "max_patches": 12, "resample": 3, **CLIP},
                 ["rgb.png", "tall.png", "rgba.png"]),
    "internvl-one": ({"image_processor_type": "GotOcr2ImageProcessor", "size": {"height": 10, "width": 10},
                      "crop_to_patches": False}, ["rgb.png"]),
}
SIDES = [1, 2, 9, 20, 31, 47, 96, 101, 200]
TARGETS = [(9, 13), (33, 45), (11, 31), (23, 17), (3, 2)]  # height, width; of rgb.png, 23 x 31


def noise(random, height, width, channels=3, top=256, kind=np.uint8):
    shape = (height, width) if channels == 1 else (height, width, channels)
    return random.integers(0, top, shape).astype(kind)


def smooth(height, width):
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 255 / width, y * 255 / height, (x + y) * 255 / (width + height)], -1).astype(np.uint8)


def grained(random, height, width):
    grain = noise(random, height, width, top=40)
    return Image.fromarray(np.clip(smooth(height, width).astype(int) + grain, 0, 255).astype(np.uint8))


def exif(orientation, order="<", kind=3):
    """A TIFF with one tag."""
    mark, value = (b"II*\0" if order == "<" else b"MM\0*"), {3: "HH", 4: "I", 1: "BBH"}[kind]
    numbers = [orientation] + [0] * (len(value) - 1)
    return (mark + struct.pack(order + "IH", 8, 1) + struct.pack(order + "HHI", 0x112, kind, 1) +
            struct.pack(order + value, *numbers) + struct.pack(order + "I", 0))


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(rows, depth, kind, width, height=None, interlaced=0):
    """A PNG of rows of packed bytes, in forms that Pillow does not write."""
    header = struct.pack(">IIBBBBB", width, height or len(rows), depth, kind, 0, 0, interlaced)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def saved(image, form, **options):
    into = io.BytesIO()
    image.save(into, form, **options)
    return into.getvalue()


def jpegs(random):
    photo = grained(random, 23, 31)
    yield "420.jpg", saved(photo, "JPEG", quality=90, subsampling=2)
    yield "422.jpg", saved(photo, "JPEG", quality=80, subsampling=1)
    yield "444.jpg", saved(photo, "JPEG", quality=60, subsampling=0)
    yield "progressive.jpg", saved(photo, "JPEG", quality=85, progressive=True)
    yield "grey.jpg", saved(photo.convert("L"), "JPEG", quality=85)
    inks = np.dstack([np.asarray(photo.convert("CMYK"))[:, :, :3], noise(random, 23, 31, 1)])
    yield "cmyk.jpg", saved(Image.fromarray(inks, "CMYK"), "JPEG", quality=90)
    yield "restarts.jpg", saved(photo, "JPEG", quality=85, restart_marker_rows=1)
    small = photo.crop((3, 2, 14, 9))
    for way in range(1, 10):
        order, kind = ("<" if way % 2 else ">"), (3, 4, 1)[way % 3]
        yield f"orientation-{way}.jpg", saved(small, "JPEG", quality=90, exif=b"Exif\0\0" + exif(way, order, kind))
    xmp = b'<x:xmpmeta><rdf:Description tiff:Orientation="8"/></x:xmpmeta>'
    yield "xmp.jpg", saved(small, "JPEG", quality=90, xmp=xmp)


def pngs(random):
    yield "rgb.png", saved(Image.fromarray(noise(random, 23, 31)), "PNG")
    yield "gradient.png", saved(Image.fromarray(smooth(40, 27)), "PNG")
    yield "tall.png", saved(Image.fromarray(noise(random, 41, 12)), "PNG")
    rgba = noise(random, 9, 11, 4)
    rgba[:3, :, 3] = [0, 1, 2, 64, 127, 128, 129, 191, 253, 254, 255]
    yield "rgba.png", saved(Image.fromarray(rgba, "RGBA"), "PNG")
    yield "la.png", saved(Image.fromarray(noise(random, 7, 9, 2), "LA"), "PNG")
    grey = Image.fromarray(noise(random, 7, 9, 1))
    yield "grey.png", saved(grey, "PNG")
    yield "grey-transparent.png", saved(grey, "PNG", transparency=int(np.asarray(grey)[3, 4]))
    yield "bits.png", saved(grey.convert("1"), "PNG")
    coloured = Image.fromarray(noise(random, 7, 9)).quantize(13)
    yield "palette.png", saved(coloured, "PNG")
    yield "palette-transparent.png", saved(coloured, "PNG", transparency=bytes([0, 100, 255, 7]))
    yield "rgb-transparent.png", saved(Image.fromarray(smooth(7, 9)), "PNG", transparency=(0, 0, 0))
    for depth in (2, 4):
        rows = [random.integers(0, 256, (9 * depth + 7) // 8).astype(np.uint8).tobytes() for _ in range(7)]
        yield f"grey-{depth}.png", png(rows, depth, 0, 9)
    words = noise(random, 7, 9, 4, 65536, ">u2")
    yield "rgb-16.png", png([row[:, :3].tobytes() for row in words], 16, 2, 9)
    yield "rgba-16.png", png([row.tobytes() for row in words], 16, 6, 9)
    yield "la-16.png", png([row[:, :2].tobytes() for row in words], 16, 4, 9)
    yield "grey-16.png", png([row[:, 0].tobytes() for row in words], 16, 0, 9)
    yield "turned.png", saved(Image.fromarray(noise(random, 5, 8)), "PNG", exif=exif(6))
    info = PngInfo()
    info.add_itxt("XML:com.adobe.xmp", "<tiff:Orientation>3</tiff:Orientation>")
    yield "xmp.png", saved(Image.fromarray(noise(random, 5, 8)), "PNG", pnginfo=info)
    # Seven passes, each with the pixels of its own.
    image = noise(random, 11, 10)
    rows = [row.tobytes() for y, x, dy, dx in ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2),
                                               (0, 1, 2, 2), (1, 0, 2, 1)) for row in image[y::dy, x::dx]]
    yield "interlaced.png", png(rows, 8, 2, 10, 11, interlaced=1)


def webps(random):
    photo = grained(random, 21, 26)
    yield "lossy.webp", saved(photo, "WEBP", quality=80)
    yield "lossless.webp", saved(photo.crop((0, 0, 13, 11)), "WEBP", lossless=True)
    rgba = Image.fromarray(noise(random, 9, 11, 4), "RGBA")
    yield "alpha.webp", saved(rgba, "WEBP", quality=90)
    yield "alpha-lossless.webp", saved(rgba, "WEBP", lossless=True, exact=True)
    yield "turned.webp", saved(photo, "WEBP", quality=80, exif=b"Exif\0\0" + exif(5))


def refused(random):
    image = Image.fromarray(noise(random, 5, 6))
    yield "refused.gif", saved(image, "GIF")
    yield "refused.bmp", saved(image, "BMP")
    yield "animated.webp", saved(image, "WEBP", save_all=True, append_images=[image.rotate(90)])


def upright(data):
    return ImageOps.exif_transpose(Image.open(io.BytesIO(data)))


def rgb_of(image):
    if image.mode == "I;16":  # of which Pillow cuts off what is above 255; torchvision's decoder does this
        return np.repeat((np.array(image) >> 8).astype(np.uint8)[..., None], 3, -1)
    return convert_to_rgb(image, return_numpy=True)


def processed(processor, image):
    made = processor(images=[image], return_tensors="pt")
    values = made["pixel_values"]
    if "spatial_shapes" in made:  # without what was added to rows of patches
        values = torch.cat([one[:count] for one, count in zip(values, made["spatial_shapes"].prod(-1))])
    if "rows" in made or values.dim() == 5:
        values = values[0]
    return values, made


def layout(processor, height, width):
    named = hasattr(processor, "max_image_size") or hasattr(processor, "encoder_patch_size")
    options = {"return_row_col_info": True} if named else {}
    try:
        made = processor(images=[Image.new("RGB", (width, height))], return_tensors="pt", **options)
    except (ValueError, RuntimeError, ZeroDivisionError) as error:
        return {"size": [height, width], "error": type(error).__name__}
    values = made["pixel_values"][0] if made["pixel_values"].dim() == 5 else made["pixel_values"]
    row = {"size": [height, width], "shape": list(values.shape)}
    if "spatial_shapes" in made:
        grids, patch = made["spatial_shapes"], processor.encoder_patch_size
        all_patches, parts = int(grids.prod(-1).sum()), [int(made["image_rows"][0]), int(made["image_cols"][0])]
        row |= {"shape": [all_patches, 3 * patch**2], "grid": [1, *grids[0].tolist()],
                "tokens": all_patches // processor.downsample_factor**2, "parts": [0, 0] if parts == [1, 1] else parts}
    if "image_grid_thw" in made:
        row["grid"] = made["image_grid_thw"][0].tolist()
        row["tokens"] = int(made["image_grid_thw"][0].prod()) // processor.merge_size**2
    if "rows" in made:
        row["parts"] = [made["rows"][0][0], made["cols"][0][0]]
    return row


def ask_processors(names, files, values, layouts):
    for name in names:
        config, asked = PROCESSORS[name]
        folder = HERE / "processors" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "preprocessor_config.json").write_text(json.dumps(config, indent=2) + "\n")
        processor = AutoImageProcessor.from_pretrained(str(folder))
        for file in asked:
            values[f"{name}/{file}"] = processed(processor, upright(files[file]))[0].float().contiguous()
        layouts[name] = [layout(processor, height, width) for height in SIDES for width in SIDES
                         if height != 1 or width in (1, 200)]
        if len({str(row.get("shape")) for row in layouts[name]}) == 1:  # whatever the picture's size
            layouts[name] = layouts[name][::15]


def write_layouts(layouts):
    (HERE / "layouts.json").write_text("{\n" + ",\n".join(
        f'{json.dumps(name)}: [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]"
        for name, rows in layouts.items()) + "\n}\n")


def add(names):
    """To what is there."""
    files = {file: (HERE / "files" / file).read_bytes() for name in names for file in PROCESSORS[name][1]}
    with safe_open(HERE / "processed.safetensors", "pt") as there:
        versions, values = there.metadata(), {key: there.get_tensor(key) for key in there.keys()}
    layouts = json.loads((HERE / "layouts.json").read_text())
    ask_processors(names, files, values, layouts)
    save_file(values, HERE / "processed.safetensors", versions)
    write_layouts(layouts)


def main():
    if len(sys.argv) > 1:
        return add(sys.argv[1:])
    random = np.random.default_rng(29)
    (HERE / "files").mkdir(parents=True, exist_ok=True)
    files = {name: data for maker in (jpegs, pngs, webps) for name, data in maker(random)}
    for name, data in {**files, **dict(refused(random))}.items():
        (HERE / "files" / name).write_bytes(data)
    decoded = {name: torch.from_numpy(rgb_of(upright(data)).copy()) for name, data in files.items()}
    used = {module.__name__: module.__version__ for module in (PIL, torch, torchvision, transformers)}
    versions = {"golden": json.dumps({"maker": "golden_images.py", **used,
                                      "cpu": torch.backends.cpu.get_cpu_capability()})}
    save_file(decoded, HERE / "decoded.safetensors", versions)

    source = decoded["rgb.png"].permute(2, 0, 1)
    modes = {"nearest": "NEAREST_EXACT", "lanczos": "LANCZOS", "bilinear": "BILINEAR", "bicubic": "BICUBIC"}
    resized = {f"{name}-{height}x{width}": tvF.resize(source, [height, width], antialias=True, interpolation=getattr(
        torchvision.transforms.InterpolationMode, mode)).permute(1, 2, 0).contiguous()
        for name, mode in modes.items() for height, width in TARGETS}
    save_file(resized, HERE / "resized.safetensors", versions)

    values, layouts = {}, {}
    ask_processors(PROCESSORS, files, values, layouts)
    save_file(values, HERE / "processed.safetensors", versions)
    write_layouts(layouts)


if __name__ == "__main__":
    main()
