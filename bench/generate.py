#!/usr/bin/env python3
"""hone generate beside transformers and llama.cpp: same model shape, random bf16 weights, alternating, ratio of medians.

  OMP_NUM_THREADS=2 python bench/generate.py --hone build/release/hone [--rounds 5] [--skip hf,llama] [--json FILE]
  python bench/generate.py --hone build/cuda/hone --device cuda --shape 1b --rounds 2
  OMP_NUM_THREADS=2 python bench/generate.py --hone build/release/hone --type qwen3_moe

Needs torch and transformers, and for the second peer llama-cpp-python and gguf (not on a GPU). Prints for each claim
hone's median, the peer's, and their ratio:
  hf batch 1, hf batch 8   new tokens/s of greedy generation, 64 prompt + 128 new tokens, prompt included; 64 and not 8
                           on a GPU
  hf prefill               prompt tokens/s, 4096 tokens, on a GPU alone
  llama decode             tokens/s after a prompt of 64, batch 1, 128 tokens
  llama prefill            prompt tokens/s, 512 tokens
and of batch 1 how many bytes of weights hone reads a second. --type: a mixture of experts in the shape's sizes instead
of a Llama, a model with memories in most layers, or one with attention by latents, beside transformers alone.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

SHAPES = {"32m": dict(hidden=512, layers=8, vocab=16384, inner=1408, heads=8, kv_heads=4),
          "0.5b": dict(hidden=896, layers=24, vocab=151936, inner=4864, heads=14, kv_heads=2),  # Qwen2.5-0.5B's
          "1b": dict(hidden=2048, layers=16, vocab=128256, inner=8192, heads=32, kv_heads=8)}  # Llama 3.2's
# What mixtures have besides; their experts are a quarter as wide as the shape's MLP.
MIXTURES = {"qwen3_moe": dict(num_experts=32, num_experts_per_tok=8, norm_topk_prob=True),
            "gpt_oss": dict(num_local_experts=32, num_experts_per_tok=4),
            "mixtral": dict(num_local_experts=8, num_experts_per_tok=2)}


def experts(s):
    return dict(n_routed_experts=32, num_experts_per_tok=8, moe_intermediate_size=s["inner"] // 4, n_group=1,
                topk_group=1)


# What models have besides that have memories, in three of four layers most often, or attention by latents, by the shape.
HYBRIDS = {"qwen3_5_text": lambda s: dict(linear_num_key_heads=s["heads"] // 2, linear_num_value_heads=s["heads"],
                                          linear_key_head_dim=64, linear_value_head_dim=64),
           "granitemoehybrid": lambda s: dict(
               num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=s["inner"],
               mamba_n_heads=s["hidden"] // 32, mamba_d_head=64, mamba_d_state=64, mamba_n_groups=1, mamba_expand=2,
               layer_types=["mamba", "mamba", "mamba", "attention"] * (s["layers"] // 4)),
           "deepseek_v3": lambda s: dict(
               experts(s), n_shared_experts=1, first_k_dense_replace=1, num_key_value_heads=s["heads"], head_dim=None,
               q_lora_rank=s["hidden"] // 2, kv_lora_rank=s["hidden"] // 2, qk_nope_head_dim=64, qk_rope_head_dim=32,
               v_head_dim=64),
           "falcon_h1": lambda s: dict(
               mamba_d_ssm=2 * s["hidden"], mamba_n_heads=s["hidden"] // 32, mamba_d_head=64, mamba_d_state=64,
               mamba_n_groups=1, attention_in_multiplier=1.1, attention_out_multiplier=0.9, ssm_in_multiplier=0.9,
               ssm_out_multiplier=0.9, ssm_multipliers=[0.9, 1.1, 1.0, 1.0, 1.0], mlp_multipliers=[0.9, 0.8]),
           "nemotron_h": lambda s: dict(
               experts(s), num_hidden_layers=None, tie_word_embeddings=False,
               moe_shared_expert_intermediate_size=s["inner"] // 2,
               mamba_num_heads=s["hidden"] // 32, mamba_head_dim=64, ssm_state_size=64, n_groups=1,
               layers_block_type=["linear_attention", "moe", "linear_attention", "moe", "full_attention", "moe",
                                  "linear_attention", "moe"] * (s["layers"] // 4)),
           "lfm3": lambda s: dict(),
           "jamba": lambda s: dict(num_experts=1, attn_layer_period=4, attn_layer_offset=3, head_dim=None),
           "mamba": lambda s: dict(head_dim=None, num_attention_heads=None, num_key_value_heads=None,
                                   max_position_embeddings=None, intermediate_size=2 * s["hidden"])}
PROMPT, NEW, LONG, LONG_ON_GPU = 64, 128, 512, 4096
THREADS = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count()))


def weight_bytes(s):
    narrow = s["hidden"] * s["kv_heads"] // s["heads"]
    layer = s["hidden"] * (2 * s["hidden"] + 2 * narrow + 3 * s["inner"])
    return 2 * (s["layers"] * layer + s["vocab"] * s["hidden"])


def letters(count, seed):
    return "".join(chr(97 + (i * i * 7 + i * seed) % 26) for i in range(count))


class Hone:
    def __init__(self, program, folder, device):
        self.program, self.folder, self.device = program, folder, device

    def run(self, prompts, new, batch):
        """Seconds of all prompts, and of what is generated."""
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.writelines(json.dumps({"prompt": p}) + "\n" for p in prompts)
            file.flush()
            done = subprocess.run(
                [self.program, "generate", self.folder, "--tokenizer", "bytes", "--prompts", file.name, "--json", "--stats",
                 "--device", self.device, "--ignore-eos", "--max-new-tokens", str(new), "--batch-size", str(batch)],
                capture_output=True, text=True, check=True)
        assert all(len(json.loads(line)["ids"]) == new for line in done.stdout.splitlines())
        stats = next(json.loads(line)["stats"] for line in done.stderr.splitlines() if line.startswith('{"stats"'))
        return stats["prompt_seconds"], stats["generation_seconds"]

    def warm(self, prompts, new, batch, repeats):
        """The same of further prompts: the first batch finds cold caches and weights not yet read, and on a GPU kernels
        that are not compiled."""
        self.run(prompts[:batch], new, batch)
        first = self.run(prompts[:batch], new, batch)
        all_of_them = self.run(prompts, new, batch)
        return [(a - b) / (repeats - 1) for a, b in zip(all_of_them, first)]

    def generate(self, batch, repeats=6):
        return batch * NEW / sum(self.warm([letters(PROMPT, i) for i in range(batch * repeats)], NEW, batch, repeats))

    def decode(self, repeats=4):
        return (NEW - 1) / self.warm([letters(PROMPT, i) for i in range(repeats)], NEW, 1, repeats)[1]

    def prefill(self, length=LONG, repeats=24):
        return length / self.warm([letters(length, i) for i in range(repeats)], 1, 1, repeats)[0]


class Transformers:
    def __init__(self, folder, kind, shape, device):
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM
        torch.set_num_threads(THREADS)
        torch.manual_seed(0)
        s, inner = shape, shape["inner"] // 4 if kind in MIXTURES else shape["inner"]
        self.torch, self.vocab, self.device = torch, s["vocab"], device
        own = dict(moe_intermediate_size=inner) if kind == "qwen3_moe" else HYBRIDS.get(kind, lambda _: {})(s)
        keys = dict(hidden_size=s["hidden"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
                    num_key_value_heads=s["kv_heads"], head_dim=s["hidden"] // s["heads"], intermediate_size=inner,
                    vocab_size=s["vocab"], max_position_embeddings=2 * LONG_ON_GPU, tie_word_embeddings=True)
        keys = {key: value for key, value in {**keys, **own, **MIXTURES.get(kind, {})}.items() if value is not None}
        config = AutoConfig.for_model(kind, **keys, pad_token_id=None, bos_token_id=None, eos_token_id=None)
        with torch.device(device):
            self.model = AutoModelForCausalLM.from_config(config).to(torch.bfloat16).eval()
        self.model.save_pretrained(folder)

    def prefill(self, length):
        ids = self.torch.randint(0, self.vocab, (1, length), device=self.device)
        with self.torch.no_grad():
            for _ in range(2):
                start = time.perf_counter()
                self.model.generate(ids, max_new_tokens=1, do_sample=False, pad_token_id=0).cpu()
            return length / (time.perf_counter() - start)

    def generate(self, batch):
        ids = self.torch.randint(0, self.vocab, (batch, PROMPT), device=self.device)
        options = dict(do_sample=False, pad_token_id=0)
        with self.torch.no_grad():
            self.model.generate(ids, max_new_tokens=8, min_new_tokens=8, **options).cpu()
            start = time.perf_counter()
            self.model.generate(ids, max_new_tokens=NEW, min_new_tokens=NEW, **options).cpu()
            return batch * NEW / (time.perf_counter() - start)


class LlamaCpp:
    def __init__(self, folder, s):
        import gguf
        import numpy as np
        from llama_cpp import Llama
        random = np.random.default_rng(0)
        path = os.path.join(folder, "peer.gguf")
        w = gguf.GGUFWriter(path, "llama")
        w.add_context_length(2048)
        w.add_embedding_length(s["hidden"])
        w.add_block_count(s["layers"])
        w.add_feed_forward_length(s["inner"])
        w.add_head_count(s["heads"])
        w.add_head_count_kv(s["kv_heads"])
        w.add_layer_norm_rms_eps(1e-6)
        w.add_rope_dimension_count(s["hidden"] // s["heads"])
        w.add_vocab_size(s["vocab"])
        w.add_tokenizer_model("llama")
        w.add_token_list([f"<t{i}>".encode() for i in range(s["vocab"])])
        w.add_token_scores([0.0] * s["vocab"])
        w.add_token_types([1] * s["vocab"])

        def add(name, *shape):
            if len(shape) == 1:
                return w.add_tensor(name, np.ones(shape, np.float32))
            kind = gguf.GGMLQuantizationType.BF16
            values = (random.standard_normal(shape) * 0.02).astype(np.float32)
            w.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

        hidden, inner, narrow = s["hidden"], s["inner"], s["hidden"] * s["kv_heads"] // s["heads"]
        add("token_embd.weight", s["vocab"], hidden)
        add("output_norm.weight", hidden)
        for i in range(s["layers"]):
            for name, *shape in (("attn_norm", hidden), ("ffn_norm", hidden), ("attn_q", hidden, hidden),
                                 ("attn_k", narrow, hidden), ("attn_v", narrow, hidden), ("attn_output", hidden, hidden),
                                 ("ffn_gate", inner, hidden), ("ffn_up", inner, hidden), ("ffn_down", hidden, inner)):
                add(f"blk.{i}.{name}.weight", *shape)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        self.model = Llama(path, n_ctx=1024, n_threads=THREADS, n_threads_batch=THREADS, verbose=False, n_batch=LONG)

    def decode(self):
        self.model.reset()
        self.model.eval(list(range(5, 5 + PROMPT)))
        start = time.perf_counter()
        for i in range(NEW):
            self.model.eval([100 + i])
        return NEW / (time.perf_counter() - start)

    def prefill(self):
        self.model.reset()
        start = time.perf_counter()
        self.model.eval(list(range(5, 5 + LONG)))
        return LONG / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", required=True, help="the program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--skip", default="", help="peers left out, separated by commas: hf, llama")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--shape", choices=SHAPES, default="32m")
    parser.add_argument("--type", choices=["llama", *MIXTURES, *HYBRIDS], default="llama")
    flags = parser.parse_args()
    skip, on_gpu, shape = flags.skip.split(","), flags.device == "cuda", SHAPES[flags.shape]
    skip += ["llama"] if flags.type != "llama" else []
    with tempfile.TemporaryDirectory() as folder:
        hf, hone = Transformers(folder, flags.type, shape, flags.device), Hone(flags.hone, folder, flags.device)
        claims = {}
        if "hf" not in skip:
            for batch in (1, 64 if on_gpu else 8):
                claims[f"hf batch {batch}"] = (lambda b=batch: hone.generate(b), lambda b=batch: hf.generate(b))
            if on_gpu:
                claims["hf prefill"] = (lambda: hone.prefill(LONG_ON_GPU), lambda: hf.prefill(LONG_ON_GPU))
        if "llama" not in skip and not on_gpu:
            llama = LlamaCpp(folder, shape)
            llama.prefill()  # the first call allocates
            claims["llama decode"] = (hone.decode, llama.decode)
            claims["llama prefill"] = (hone.prefill, llama.prefill)
        figures = {name: ([], []) for name in claims}
        for _ in range(flags.rounds):
            for name, pair in claims.items():
                for side in (0, 1):
                    figures[name][side].append(pair[side]())
        result = {}
        for name, (ours, theirs) in figures.items():
            a, b = statistics.median(ours), statistics.median(theirs)
            result[name] = {"hone": a, "peer": b, "ratio": a / b, "hone_all": ours, "peer_all": theirs}
            reads = name == "hf batch 1" and flags.type == "llama"
            read = f"   weights at {a * weight_bytes(shape) / 1e9:.1f} GB/s" if reads else ""
            print(f"{name:15} hone {a:8.0f} tokens/s   peer {b:8.0f} tokens/s   ratio {a / b:.2f}{read}")
        if flags.json:
            with open(flags.json, "w") as file:
                json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
