#!/usr/bin/env python3
"""hone's fine-tuning run beside TRL's: the same rows, the same steps, alternating processes.

  OMP_NUM_THREADS=2 python bench/fine_tune.py sft --hone build/release/hone --rows FILE.jsonl --tokenizer FOLDER
  OMP_NUM_THREADS=2 python bench/fine_tune.py distill --hone build/release/hone --rows FILE.jsonl --tokenizer FOLDER
  OMP_NUM_THREADS=2 python bench/fine_tune.py grpo --hone build/release/hone --rows FILE.jsonl --tokenizer FOLDER
  OMP_NUM_THREADS=2 python bench/fine_tune.py qlora --hone build/release/hone --rows FILE.jsonl --tokenizer FOLDER
  OMP_NUM_THREADS=2 python bench/fine_tune.py dpo --hone build/release/hone --rows FILE.json --tokenizer FOLDER

sft: FILE has a prompt and a response per line; one epoch, loss on the response. distill: the same rows, learnt from a
teacher of 110 M parameters (hidden 768, 12 layers) beside it, by KL(teacher || model); TRL's is GKDTrainer with lmbda 0
and beta 0. grpo: the rows' prompts of at most 256 tokens, four a step, four answers of at most 128 tokens to each, a
reward for not repeating oneself; transformers generates for TRL's GRPOTrainer. qlora: the rows of sft, LoRA of rank 16
on all linears beside a model of hidden 1,024 and 12 layers in nf4 with quantized scales; bitsandbytes' for TRL. dpo:
FILE is a JSON array of ShareGPT pairs (`conversations`, `chosen`, `rejected`), of which the first are taken whose sides
have at most 1,024 tokens each; one epoch, sigmoid loss, the reference beside the model. FOLDER holds a tokenizer.json
of GPT-2's kind. Needs torch, transformers, datasets and trl. The model: a Llama of hidden 512, 8 layers and the
tokenizer's vocabulary; batches of 8 rows or pairs. hone runs in bf16. --peer: TRL's modes, separated by commas: bf16
(autocast, its default), fp32, and either with `+keep` (keeps activations, where the default computes them twice).
Prints the seconds of each run (hone's with its start and the saving of the result), its peak memory, and the ratio to
the fastest mode.
"""
import json
import os
import subprocess
import tempfile

import by_turns

LENGTH = 1024
SHAPE = dict(hidden_size=512, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4, intermediate_size=1408,
             max_position_embeddings=2048, tie_word_embeddings=True)
TEACHER = dict(SHAPE, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=2048)
LARGER = dict(SHAPE, hidden_size=1024, num_hidden_layers=12, num_attention_heads=16, intermediate_size=2816)
END = "<|endoftext|>"
GROUP, ANSWER = 4, 128  # of grpo


def sft_rows(options):
    with open(options.rows) as file:
        made = [json.loads(next(file)) for _ in range(options.count)]
    return [{"prompt": row["prompt"], "completion": row["response"]} for row in made]


def grpo_rows(options):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(os.path.join(options.tokenizer, "tokenizer.json"))
    made = []
    with open(options.rows) as file:
        for line in file:
            prompt = json.loads(line)["prompt"]
            if len(made) < options.count and len(tokenizer.encode(prompt).ids) <= 256:
                made.append({"prompt": prompt})
    return made


def dpo_rows(options):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(os.path.join(options.tokenizer, "tokenizer.json"))
    tokenizer.no_truncation()
    names = {"human": "User", "gpt": "Assistant", "system": "System"}

    def length(text):
        return len(tokenizer.encode(text).ids)

    with open(options.rows) as file:
        pairs = json.load(file)
    made = []
    for pair in pairs:
        prompt = "".join(f"{names[turn['from']]}: {turn['value']}\n\n" for turn in pair["conversations"]) + "Assistant:"
        sides = {side: " " + pair[side]["value"].strip() for side in ("chosen", "rejected")}
        if all(length(prompt) + length(text) < LENGTH for text in sides.values()):
            made.append({"prompt": prompt, **sides})
    return made[:options.count]


def collate_ids(tokenizer):
    """Prompts and completions as ids with labels of the completion, padded on the right."""
    import torch

    def collate(rows):
        made = []
        for row in rows:
            prompt, whole = (tokenizer(row["prompt"] + text).input_ids for text in ("", row["completion"]))
            made.append((whole[:LENGTH - 1] + [tokenizer.eos_token_id], len(prompt)))
        longest = max(len(ids) for ids, _ in made)
        fill = lambda ids, value: ids + [value] * (longest - len(ids))
        return {"input_ids": torch.tensor([fill(ids, tokenizer.pad_token_id) for ids, _ in made]),
                "attention_mask": torch.tensor([fill([1] * len(ids), 0) for ids, _ in made]),
                "labels": torch.tensor([fill([-100] * learnt + ids[learnt:], -100) for ids, learnt in made])}
    return collate


def shape_of(options):
    return LARGER if options.kind == "qlora" else SHAPE


def made_folder(options, folder, shape):
    """A model of hone's, made once."""
    if not os.path.exists(folder):
        sizes = [f"--model.{key}={json.dumps(value)}" for key, value in shape.items()]
        subprocess.run([options.hone, "init", folder, "--tokenizer", os.path.abspath(options.tokenizer),
                        "--model.type=llama", *sizes], check=True, capture_output=True)
    return folder


def run_trl(options, mode):
    """One run of TRL's trainer, in this process; prints a JSON object."""
    import torch
    import trl
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(options.tokenizer, "tokenizer.json"))
    tokenizer.pad_token = tokenizer.eos_token = END
    data = Dataset.from_list(ROWS_OF[options.kind](options))
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **shape_of(options)))
    Config, Trainer = {"sft": (trl.SFTConfig, trl.SFTTrainer), "qlora": (trl.SFTConfig, trl.SFTTrainer),
                       "dpo": (trl.DPOConfig, trl.DPOTrainer)}.get(options.kind, (None, None))
    more, given = {}, {}
    if options.kind == "distill":
        from trl.experimental.gkd import GKDConfig as Config, GKDTrainer as Trainer
        more = {"lmbda": 0.0, "beta": 0.0}
        given = {"teacher_model": LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **TEACHER)),
                 "data_collator": collate_ids(tokenizer)}
    if options.kind == "grpo":
        from trl import GRPOConfig as Config, GRPOTrainer as Trainer
        from trl.rewards import get_repetition_penalty_reward
        more = {"num_generations": GROUP, "max_completion_length": ANSWER}
        given = {"reward_funcs": get_repetition_penalty_reward(3, -1.0)}
    else:
        more["max_length"] = LENGTH
    rows = 4 * GROUP if options.kind == "grpo" else 8
    config = Config(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=rows, num_train_epochs=1,
                    bf16=mode.startswith("bf16"), gradient_checkpointing=not mode.endswith("+keep"), use_cpu=True,
                    report_to=[], save_strategy="no", logging_steps=1000, disable_tqdm=True, **more)
    folder = tempfile.mkdtemp()  # DPOTrainer reads the reference from where the model came from
    model.save_pretrained(folder)
    held = {}
    if options.kind == "qlora":
        import peft
        from transformers import BitsAndBytesConfig
        type_ = torch.bfloat16 if mode.startswith("bf16") else torch.float32
        held["quantization_config"] = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                                         bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=type_)
        given["peft_config"] = peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, **held)
    trainer = Trainer(model=model, args=config, train_dataset=data, processing_class=tokenizer, **given)
    by_turns.timed(trainer.train)


def hone(options, folder):
    made = {"model": {"type": "llama", **SHAPE}, "tokenizer": os.path.abspath(options.tokenizer),
            "data": {"max_length": LENGTH, "packing": "none", "overlong": "keep_start"},
            "optimizer": {"type": "adamw", "learning_rate": 1e-6 if options.kind == "dpo" else 2e-5},
            "trainer": {"batch_size": 8}}
    if options.kind == "dpo":
        made["objective"] = {"type": "dpo"}
    if options.kind == "distill":
        teacher = made_folder(options, os.path.join(folder, "teacher"), TEACHER)
        made["objective"] = {"type": "distillation", "teacher": teacher}
    if options.kind == "qlora":
        made["model"] = {"path": made_folder(options, os.path.join(folder, "model"), LARGER), "quantization": "nf4"}
        made["adapter"] = {"type": "lora", "rank": 16, "alpha": 32}
        del made["tokenizer"]
    if options.kind == "grpo":
        made["objective"] = {"type": "grpo", "rewards": [{"type": "repetition"}], "num_generations": GROUP,
                             "max_completion_length": ANSWER}
        made["data"] = {"max_length": 256}
        made["trainer"]["batch_size"] = 4
    return by_turns.run_hone(options, folder, ROWS_OF[options.kind](options), made)


ROWS_OF = {"sft": sft_rows, "dpo": dpo_rows, "distill": sft_rows, "grpo": grpo_rows, "qlora": sft_rows}


if __name__ == "__main__":
    by_turns.main(__doc__, ROWS_OF, hone, run_trl, count=160, peer="bf16", whose="TRL's")
