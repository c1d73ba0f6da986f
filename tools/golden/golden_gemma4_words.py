#!/usr/bin/env python3
# Goldens of what stands in Gemma 4's texts for pictures: golden_gemma4_words.py -> tests/golden/picture_words/gemma4/
# (development time only).
#
# As golden_picture_words.py makes them.
import json
import shutil

import golden_common as common
import golden_picture_words as words
import transformers as hf
from PIL import Image
from tokenizers import decoders, normalizers

SPECIAL = {"boi_token": "<|image>", "image_token": "<|image|>", "eoi_token": "<image|>", "boa_token": "<|audio>",
           "audio_token": "<|audio|>", "eoa_token": "<audio|>"}
IDS = {"token": "<|image|>", "before": "<|image>", "after": "<image|>", "sound": "<|audio|>", "film": "<|video|>"}
TEXTS = [("<|turn>user\n<|image|>What is it?<turn|>\n", ["rgb.png"]), ("<|image|>", ["tall.png"]),
         ("a <|image|>\n\nso <|image|><|image|>\n", ["rgb.png", "gradient.png", "tall.png"])]


def make():
    folder = common.ROOT / "picture_words/gemma4"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    made = words.tokenizer_of([("▁", "a"), ("s", "o"), ("\n", "\n")],
                              ["<pad>", "<bos>", "<eos>", "<|turn>", "<turn|>", "<|video|>", *SPECIAL.values()],
                              more=["▁", "\n"], normalizer=normalizers.Replace(" ", "▁"),
                              decoder=decoders.Replace("▁", " "))
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", bos_token="<bos>",
                                           eos_token="<eos>", extra_special_tokens=SPECIAL)
    pictures = hf.Gemma4ImageProcessor(patch_size=2, max_soft_tokens=70, pooling_kernel_size=2)
    processor = hf.Gemma4Processor(hf.Gemma4AudioFeatureExtractor(), pictures, tokenizer, hf.Gemma4VideoProcessor())
    tokenizer.save_pretrained(folder)
    keys = {key: value for key, value in pictures.to_dict().items() if value is not None}
    text = json.dumps({"image_processor": keys}, indent=2, sort_keys=True)
    (folder / "processor_config.json").write_text(text + "\n")
    cases = []
    for text, files in TEXTS:
        opened = [Image.open(words.IMAGES / file) for file in files]
        ids = processor(text=[text], images=[opened], return_tensors="pt")["input_ids"][0].tolist()
        cases.append({"text": text, "pictures": files, "ids": ids})
    number = {key: tokenizer.convert_tokens_to_ids(token) for key, token in IDS.items()}
    common.write_json(folder / "words.json", {**number, "patch": 2, "merged": 2, "cases": cases},
                      "tools/golden/golden_gemma4_words.py")
    for file in folder.iterdir():
        file.chmod(0o644)
    print([len(case["ids"]) for case in cases])


if __name__ == "__main__":
    make()
