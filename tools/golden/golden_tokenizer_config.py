"""What the files beside a tokenizer.json say, by AutoTokenizer: tests/golden/text/config.json.

Usage: tools/golden/golden_tokenizer_config.py
The first line has the tokenizer.json of all cases, the post-processors that a case may name, and `text`. Then what
stands around a text for every add_bos_token and add_eos_token (none, true, false), by class and post-processor:
`around` has all answers that were seen, [starts with <s>, ends with </s>]. Then `files` beside it, and of the text the
`ids`, `decoded` without special tokens, `tokens` in all and the ids of bos, eos and pad; or `error`, where transformers
cannot load them.
"""
import itertools
import json
import tempfile
from pathlib import Path

from golden_common import ROOT, write_lines
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoTokenizer

TEXT = "a<x>b <y>c</s>"
NAMED = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
OTHER_END = {**NAMED, "eos_token": "<unk>"}
# Those that take a tokenizer.json as it is, and others that keep its post-processor.
CLASSES = [
    None, "PreTrainedTokenizerFast", "TokenizersBackend", "LlamaTokenizer", "LlamaTokenizerFast", "GPT2Tokenizer",
    "GPT2TokenizerFast", "Qwen2Tokenizer", "Qwen2TokenizerFast", "Qwen3_5Tokenizer", "GemmaTokenizer",
    "GemmaTokenizerFast", "CohereTokenizer", "BloomTokenizerFast", "MistralTokenizer", "NoSuchTokenizer",
]  # fmt: skip


def template(single, pair):
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=[("<s>", 0), ("</s>", 1)])


POST = {
    "none": None,
    "bos": template("<s> $A", "<s> $A <s>:1 $B:1"),
    "both": template("<s> $A </s>", "<s> $A </s> $B:1 </s>:1"),
}


def special(content, **flags):
    flags = {"special": True, **flags}
    return {"content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, **flags}


def files(config, special_map=None, added=None):
    names = {"tokenizer_config.json": config, "special_tokens_map.json": special_map, "added_tokens.json": added}
    return {name: content for name, content in names.items() if content is not None}


def named(**more):
    return {**NAMED, **more}


DECODER = {"0": special("<s>"), "1": special("</s>"), "2": special("<unk>")}
DECODED = {**OTHER_END, "added_tokens_decoder": DECODER}
PLAIN = {key: value for key, value in special("<x>").items() if key != "special"}
TYPED = {"__type": "AddedToken", **special("<x>", lstrip=True, rstrip=True)}
SPECIAL = [
    files({}),
    files(named(pad_token="<x>")),
    files(OTHER_END, {"eos_token": "</s>"}),
    files(OTHER_END, {"eos_token": special("</s>"), "pad_token": "<y>"}),
    files(DECODED, {"eos_token": "</s>", "pad_token": "<y>"}),
    files(NAMED, {"eos_token": None}),
    files(None, {**NAMED, "additional_special_tokens": ["<y>", "<x>"]}),
    files(NAMED, {"additional_special_tokens": [special("<x>")]}),
    files(NAMED, {"extra_special_tokens": [PLAIN, "<y>"]}),
    files(named(additional_special_tokens=["<y>"]), {"additional_special_tokens": ["<x>"]}),
    files(named(extra_special_tokens=["<y>"]), {"extra_special_tokens": ["<x>", "<y>"]}),
    files(named(additional_special_tokens=["<x>"])),
    files(named(additional_special_tokens=["<y>", "<x>"], pad_token="<p>")),
    files(named(additional_special_tokens=["a", "<x>"])),
    files(named(additional_special_tokens=[TYPED, "<y>"])),
    files(named(additional_special_tokens=[special("<x>")])),
    files(named(extra_special_tokens=["<y>"])),
    files(named(extra_special_tokens=["<y>"], additional_special_tokens=["<x>"])),
    files(named(extra_special_tokens=[], additional_special_tokens=["<x>"])),
    files(named(extra_special_tokens={"y_token": "<y>", "image_token": "<x>"})),
    files(named(y_token="<y>", image_token="<x>", additional_special_tokens=["<z>"])),
    files(named(added_tokens_decoder={**DECODER, "98": special("<x>")}, additional_special_tokens=["<x>", "<y>"])),
    files(named(additional_special_tokens=["<x>"]), added={"<x>": 98, "<y>": 99}),
    files(NAMED, {"additional_special_tokens": ["<x>"]}, {"<x>": 98}),
    files(NAMED, added={"<y>": 99, "<x>": 98}),
    files(named(added_tokens_decoder=DECODER), added={"<x>": 98}),
    files(NAMED, added={"<unk>": 2, "a": 68}),
    files(named(image_token="<y>"), {"image_token": "<x>", "audio_token": "<z>"}),
]


def base():
    tokens = ["<s>", "</s>", "<unk>", "Ġ"] + [chr(c) for c in range(33, 127)]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in tokens[:3]])
    return tokenizer


def load(tokenizer, beside):
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder + "/tokenizer.json")
        for name, content in beside.items():
            (Path(folder) / name).write_text(json.dumps(content))
        return AutoTokenizer.from_pretrained(folder)


def ends(kind, post):
    tokenizer = base()
    if POST[post]:
        tokenizer.post_processor = POST[post]
    around = []
    for flags in itertools.product((None, True, False), repeat=2):
        keys = {"tokenizer_class": kind, "add_bos_token": flags[0], "add_eos_token": flags[1]}
        config = named(**{key: value for key, value in keys.items() if value is not None})
        ids = load(tokenizer, files(config))("ab").input_ids
        seen = [ids[0] == 0, ids[-1] == 1]
        if seen not in around:
            around.append(seen)
    return {"class": kind, "post_processor": post, "around": around}


def case(beside):
    try:
        made = load(base(), beside)
        ids = made(TEXT).input_ids
    except Exception as error:
        return {"files": beside, "error": type(error).__name__}
    special_ids = {"bos": made.bos_token_id, "eos": made.eos_token_id, "pad": made.pad_token_id}
    decoded = made.decode(ids, skip_special_tokens=True)
    return {"files": beside, "ids": ids, "decoded": decoded, "tokens": len(made), **special_ids}


def main():
    posts = {}
    for name, post in POST.items():
        made = base()
        if post:
            made.post_processor = post
        # The library writes special_tokens in random order.
        posts[name] = json.loads(json.dumps(json.loads(made.to_str())["post_processor"], sort_keys=True))
    lines = [{"tokenizer": json.loads(base().to_str()), "post_processors": posts, "text": TEXT}]
    lines += [ends(kind, post) for kind in CLASSES for post in POST]
    write_lines(ROOT / "text" / "config.json", lines + [case(files) for files in SPECIAL])


if __name__ == "__main__":
    main()
