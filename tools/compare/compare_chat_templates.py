"""Compares rendered chat templates with transformers': writes cases, and runs hone's test over them.

Usage: tools/compare/compare_chat_templates.py --test build/dev/tests/text_test [--count 200] [--keep FILE] TEMPLATE...
TEMPLATE: a .jinja file, a folder of them, a tokenizer_config.json, or a folder of tokenizers. Each is rendered for each
conversation with and without the generation prompt, and with and without tools and a system message where there are
some. Exit status 1: something differs. Needs transformers 5.23 and jinja2 3.1.6.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
os.environ["TZ"] = "UTC"

import chat_conversations  # noqa: E402
from tokenizers import Tokenizer, models  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402
from transformers.utils import chat_template_utils  # noqa: E402

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
NOW = 1_700_000_000  # as the test has it


class Frozen(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(NOW)


chat_template_utils.datetime = Frozen


def sources(paths):
    for path in map(pathlib.Path, paths):
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in found:
            if file.suffix == ".jinja":
                yield str(file), file.read_text(encoding="utf-8")
            elif file.name == "tokenizer_config.json":
                template = json.loads(file.read_text()).get("chat_template")
                if isinstance(template, str):
                    yield str(file), template


def variants(case):
    yield case
    if case["tools"]:
        yield {**case, "tools": None}
    rest = [m for m in case["messages"] if m["role"] != "system"]
    if rest and len(rest) < len(case["messages"]):
        yield {**case, "messages": rest}


def expected(tokenizer, source, case, prompt):
    try:
        text = tokenizer.apply_chat_template(case["messages"], tools=case["tools"], documents=case["documents"],
                                             chat_template=source, add_generation_prompt=prompt, tokenize=False,
                                             **case["variables"])
        return {"text": text}
    except Exception as error:  # noqa: BLE001: whatever a template raises
        return {"error": str(error)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--test", required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--keep")
    parser.add_argument("paths", nargs="+")
    options = parser.parse_args()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>")),
                                        **SPECIAL)
    made = list(chat_conversations.conversations(options.count))
    where = options.keep or tempfile.mkstemp(suffix=".jsonl")[1]
    cases = 0
    with open(where, "w", encoding="utf-8") as file:
        for name, source in sources(options.paths):
            file.write(json.dumps({"template": source, "name": name, "special": SPECIAL}) + "\n")
            for case in made:
                for variant in variants(case):
                    for prompt in (False, True):
                        want = expected(tokenizer, source, variant, prompt)
                        file.write(json.dumps({**variant, "generation_prompt": prompt, **want}) + "\n")
                        cases += 1
    print(f"{cases} cases of {len(made)} conversations in {where}", flush=True)
    done = subprocess.run([options.test, "--gtest_filter=ChatTemplateReference.*"],
                          env={**os.environ, "HONE_CHAT_CASES": where})
    if not options.keep:
        os.unlink(where)
    sys.exit(done.returncode)


main()
