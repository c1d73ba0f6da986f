"""Assistant masks of transformers on small templates of our own: tests/golden/text/chat.jsonl.

Usage: tools/golden/golden_chat.py [--tokenizer FOLDER --out FILE [--count 220]]    (transformers 5.23, tokenizers 0.23)
With a tokenizer: cases of its own for HONE_CHAT_MASKS=FILE text_test, with contents as they come and no `plain`.
First line: {"tokenizer": tokenizer.json, "config": tokenizer_config.json}. Each other line: {"template", "plain",
"messages", "text", "ids", "mask"}: `template` has {% generation %} blocks, `plain` is the same without them, where the
blocks are what can also be found without them.
"""

import argparse
import json
import pathlib
import sys
import random
import re

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "compare"))
import chat_conversations  # noqa: E402
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

OUT = pathlib.Path(__file__).parent.parent.parent / "tests/golden/text/chat.jsonl"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>", "</tool>"]

CHATML = """{%- for m in messages -%}
{%- if m.role == 'assistant' -%}
<|im_start|>assistant
{% generation %}{{ m.content }}{% for c in m.tool_calls or [] %}<tool>{{ c.function|tojson }}</tool>{% endfor %}<|im_end|>{% endgeneration %}

{% else -%}
<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>

{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}"""
# Reasoning of earlier turns is left out, as in templates of reasoning models.
THINKING = """{%- set ns = namespace(last=-1) -%}
{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}
{%- for m in messages -%}
{%- if m.role == 'assistant' -%}
<|im_start|>assistant
{% generation %}{% if loop.index0 > ns.last %}<think>
{{ m.reasoning_content or '' }}
</think>

{% endif %}{{ m.content }}<|im_end|>{% endgeneration %}

{% else -%}
<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>

{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}"""
INSTRUCT = """{{- eos_token -}}
{%- for m in messages -%}
{%- if m.role == 'assistant' -%}{% generation %}{{ ' ' + m.content + eos_token }}{% endgeneration %}
{%- else -%}{{ '[' + m.role + '] ' + m.content + ' [/' + m.role + ']' }}
{%- endif -%}
{%- endfor -%}"""
# Only for the blocks: nothing else tells where the text in them begins.
WITH_HEADER = """{%- for m in messages -%}
{%- if m.role == 'assistant' -%}{% generation %}<|im_start|>assistant
{{ m.content }}<|im_end|>
{% endgeneration %}
{%- else -%}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif -%}
{%- endfor -%}"""
IN_PARTS = """{%- for m in messages -%}{{ m.role + ':' }}
{%- if m.role == 'assistant' -%}{% generation %}{{ m.content }}!{% endgeneration %}{{ '--' }}{% generation %}.{% endgeneration %}
{%- else -%}{{ m.content }}
{%- endif -%}{%- endfor -%}"""


def without_blocks(template):
    return re.sub(r"\{% (end)?generation %\}\n?", "", template)  # trim_blocks: a tag takes its line's end along


def make_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                  show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return tokenizer


def conversations(count=60, raw=False):
    rng = random.Random(7)
    for case in chat_conversations.conversations(count, seed=3):
        messages = []
        for m in case["messages"]:
            content = m.get("content")
            if m["role"] not in ("system", "user", "assistant", "tool"):
                continue
            text = content.strip() if isinstance(content, str) else "parts"
            for token in SPECIAL + ["</s>"]:
                text = text.replace(token, "")
            made = {"role": m["role"], "content": content if raw and isinstance(content, str) else text or "ok"}
            if m["role"] == "assistant" and m.get("tool_calls"):
                made["tool_calls"] = [{"function": c["function"]} for c in m["tool_calls"]]
            if m["role"] == "assistant" and rng.random() < 0.5:
                made["reasoning_content"] = "because"
            messages.append(made)
        if messages and messages[0]["role"] != "assistant":
            yield messages


def masked(fast, messages, template, plain):
    out = fast.apply_chat_template(messages, chat_template=template, return_dict=True, return_assistant_tokens_mask=True)
    text = fast.apply_chat_template(messages, chat_template=template, tokenize=False)
    return json.dumps({"template": template, "plain": plain, "messages": messages, "text": text, "ids": out["input_ids"],
                       "mask": "".join(map(str, out["assistant_masks"]))}, ensure_ascii=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokenizer", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    parser.add_argument("--count", type=int, default=220)
    options = parser.parse_args()
    if options.tokenizer:
        made = list(conversations(options.count, raw=True))
        fast = PreTrainedTokenizerFast(tokenizer_file=str(options.tokenizer / "tokenizer.json"), eos_token="</s>")
        head = {"tokenizer": json.loads(fast.backend_tokenizer.to_str())}
    else:
        made = list(conversations())[:24]
        tokenizer = make_tokenizer([m["content"] for messages in made for m in messages])
        fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")
        head = {"tokenizer": json.loads(tokenizer.to_str())}
    lines = [json.dumps({**head, "config": {"eos_token": fast.eos_token}})]
    for template in (CHATML, THINKING, INSTRUCT, WITH_HEADER, IN_PARTS):
        found_without = not options.tokenizer and template not in (WITH_HEADER, IN_PARTS)
        plain = without_blocks(template) if found_without else None
        lines += [masked(fast, messages, template, plain) for messages in made]
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines) - 1} cases, {options.out.stat().st_size} bytes: {options.out}")


main()
