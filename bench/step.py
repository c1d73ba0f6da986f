#!/usr/bin/env python3
"""hone's training step beside transformers' Trainer: same shape, same tokens, alternating processes, ratio of medians.

  OMP_NUM_THREADS=2 python bench/step.py --hone build/release/hone --case 32m [--rounds 3] [--peer autocast,pure_fused]

Needs torch, transformers and accelerate; the cases lora peft, too. A step of either is everything between two batches:
forward, backward, clipping, AdamW. Both drop their first steps (two; one of LoRA's long ones). Prints each process's
median step and peak memory, then the ratios of the medians over the rounds, against the best of the peer's modes.
0.5b and 0.5b-long begin with a folder in bf16; hone's loading, its first step and the rate of its products are printed.
`--device cuda` measures on a GPU, where the peer has flash attention by torch's SDPA; its mode compiled is the same
model under torch.compile in a plain loop. With `--documents 1024` rows are packed documents; the peer's rows are
whole, as its flash attention knows no boundaries, but in a mode that ends with _documents, where masks are made of their
positions. `--ranks 2` gives each of two hone processes the case's rows, which then
have all of the model, and then a share of it: what is printed last is the part of twice one process's rate. `--floor`
also times the step's matrix products by themselves in torch, best of seven each. `--type gemma3_text` measures
another decoder in the sizes of the case.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

# hidden, layers, vocabulary, rows, tokens in a row, measured steps, precision, the peer's modes
CASES = {
    "32m": (512, 8, 16384, 8, 512, 6, "bf16", "autocast,pure_fused"),
    "32m-fp32": (512, 8, 16384, 8, 512, 5, "fp32", "fp32"),
    "5m": (256, 4, 16384, 8, 256, 12, "bf16", "autocast,pure_fused,fp32"),
    "125m": (768, 12, 32000, 4, 1024, 4, "bf16", "autocast,pure_fused"),
    "0.5b": (896, 24, 151936, 2, 512, 3, "bf16", "pure_fused"),  # Qwen2.5-0.5B's shape
    "0.5b-long": (896, 24, 151936, 1, 2048, 3, "bf16", "pure_fused"),
    "gpu-32m": (512, 8, 16384, 8, 512, 40, "bf16", "autocast_fused,compiled"),
    "gpu-125m": (768, 12, 32000, 8, 1024, 20, "bf16", "autocast_fused,compiled"),
    "gpu-1b": (2048, 16, 128256, 2, 4096, 6, "bf16", "autocast_fused,compiled"),
    "gpu-3b": (3072, 28, 128256, 1, 4096, 5, "bf16", "autocast_fused,compiled"),
    "gpu-moe": (1024, 12, 32000, 4, 2048, 8, "bf16", "autocast_fused"),  # 8 experts, 2 of them for each token
    "gpu-moe-dense": (1024, 12, 32000, 4, 2048, 8, "bf16", "autocast_fused"),  # as wide as two of them
    "gpu-lora-7b": (4096, 32, 32000, 1, 2048, 6, "bf16", "pure"),
    "lora": (896, 24, 151936, 4, 512, 2, "bf16", "pure"),  # rank 16 on every linear of Qwen2.5-0.5B's shape
    "lora-short": (896, 24, 151936, 1, 128, 1, "bf16", "pure"),  # for CPUs on which a long step of the peer takes hours
}


TYPE = None  # of the model, in place of the case's
# transformers' configuration and model of a type, and what it needs besides sizes.
TYPES = {"llama": ("Llama", {}), "qwen2": ("Qwen2", {}), "qwen3_moe": ("Qwen3Moe", {}), "gemma": ("Gemma", {}),
         "gemma2": ("Gemma2", {}), "gemma3_text": ("Gemma3", {"query_pre_attn_scalar": 64}), "granite": ("Granite", {}),
         "smollm3": ("SmolLM3", {}), "olmo2": ("Olmo2", {}), "olmo3": ("Olmo3", {}), "phi3": ("Phi3", {}),
         "mixtral": ("Mixtral", {}), "xlstm": ("xLSTM", {}), "glm": ("Glm", {}), "glm4": ("Glm4", {}),
         "ministral3": ("Ministral3", {}), "ernie4_5": ("Ernie4_5", {}), "cohere": ("Cohere", {}),
         "cohere2": ("Cohere2", {}), "starcoder2": ("Starcoder2", {}),
         "seed_oss": ("SeedOss", {"attention_dropout": 0.0, "residual_dropout": 0.0}), "exaone4": ("Exaone4", {}),
         "arcee": ("Arcee", {}), "phi": ("Phi", {}), "stablelm": ("StableLm", {}),
         "gpt_oss": ("GptOss", {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 128}),
         "deepseek_v3": ("DeepseekV3", {"kv_lora_rank": 128, "q_lora_rank": 192, "qk_nope_head_dim": 32,
                                        "qk_rope_head_dim": 32, "v_head_dim": 64, "n_routed_experts": 8,
                                        "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
                                        "num_key_value_heads": 8, "first_k_dense_replace": 1}),
         "qwen3_5_text": ("Qwen3_5", {"head_dim": 64, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
                                      "linear_num_key_heads": 8, "linear_num_value_heads": 8}),
         # Of eight layers, as the 32 M case has.
         "granitemoehybrid": ("GraniteMoeHybrid", {"layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 2,
                                                   "num_local_experts": 0, "num_experts_per_tok": 0,
                                                   "shared_intermediate_size": 1408, "mamba_n_heads": 16,
                                                   "mamba_d_state": 128, "residual_multiplier": 0.3}),
         "falcon_h1": ("FalconH1", {"mamba_d_ssm": 512, "mamba_n_heads": 8, "mamba_d_state": 128})}


def is_lora(case):
    return "lora" in case


def is_half_billion(case):
    return case.startswith("0.5b")


def shape(case):
    made = sizes(case)
    if TYPE is None:
        return made
    if TYPE == "xlstm":  # heads as in the published models of these sizes; no more ids than there are, no cache
        own = ("hidden_size", "num_hidden_layers", "vocab_size")
        return dict(num_heads=4, **{key: made[key] for key in own})
    ids = dict(pad_token_id=None, bos_token_id=None, eos_token_id=None)
    heads = {} if TYPE in ("phi3", "deepseek_v3") else dict(head_dim=made["hidden_size"] // made["num_attention_heads"])
    return {**made, **ids, **heads, **TYPES[TYPE][1]}


def sizes(case):
    hidden, layers, vocab = CASES[case][:3]
    if case == "gpu-lora-7b":  # Llama 2's
        return dict(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=32, num_key_value_heads=32,
                    intermediate_size=11008, vocab_size=vocab, max_position_embeddings=4096, tie_word_embeddings=False)
    if is_lora(case) or is_half_billion(case):
        return dict(hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
                    intermediate_size=4864, vocab_size=151936, max_position_embeddings=32768, tie_word_embeddings=True)
    if case in ("gpu-1b", "gpu-3b"):  # Llama 3.2's
        heads = 32 if case == "gpu-1b" else 24
        return dict(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=8,
                    head_dim=hidden // heads, intermediate_size=8192, vocab_size=vocab, max_position_embeddings=8192,
                    tie_word_embeddings=True)
    heads = hidden // 64
    if case.startswith("gpu-moe"):
        routed = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=1408, norm_topk_prob=True)
        return dict(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                    num_key_value_heads=heads // 2, head_dim=64, intermediate_size=2816, vocab_size=vocab,
                    max_position_embeddings=4096, tie_word_embeddings=True, **(routed if case == "gpu-moe" else {}))
    return dict(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                num_key_value_heads=heads // 2 if heads % 2 == 0 else heads, intermediate_size=hidden * 11 // 4,
                vocab_size=vocab, max_position_embeddings=2048, tie_word_embeddings=True)


def model_type(case):
    if TYPE is not None:
        return TYPE
    half_billion = is_half_billion(case) or is_lora(case) and not case.startswith("gpu-")
    return "qwen3_moe" if case == "gpu-moe" else "qwen2" if half_billion else "llama"


def fresh_peer(case):
    import transformers
    name = TYPES[model_type(case)][0]
    config = getattr(transformers, name + ("TextConfig" if name in ("Gemma3", "Qwen3_5") else "Config"))
    return getattr(transformers, name + "ForCausalLM")(config(**shape(case)))


def warmup(case):
    return 1 if is_lora(case) else 2


def make_base(case, folder, device):
    """The model below the adapter, in bf16, as a folder that both read."""
    import torch
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        fresh_peer(case).save_pretrained(folder)


def run_peer(case, mode, folder, device, accumulate, documents):
    """One run of the Trainer, in this process; prints a JSON object."""
    import time
    import torch
    import transformers
    _, _, vocab, rows, length, steps, _, _ = CASES[case]
    torch.manual_seed(0)
    if is_lora(case):
        import peft
        dtype = "auto" if mode == "pure" else torch.float32
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        model = peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear",
                                                           task_type="CAUSAL_LM"))
    else:
        with torch.device(device):
            model = fresh_peer(case)
        if mode.startswith("pure"):
            model = model.to(torch.bfloat16)
    model.config.use_cache = False  # else positions that begin anew make no masks

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 100000

        def __getitem__(self, index):
            ids = torch.randint(0, vocab, (length,))
            row = dict(input_ids=ids, labels=ids)
            if mode.endswith("_documents"):  # its masks are made of positions that begin anew
                row["position_ids"] = torch.cat([torch.arange(n) for n in cut_row(length, documents, index)])
            return row

    class Watch(transformers.TrainerCallback):
        seconds = []

        def on_step_begin(self, *_, **__):
            if device == "cuda":
                torch.cuda.synchronize()
            self.start = time.perf_counter()

        def on_step_end(self, *_, **__):
            if device == "cuda":
                torch.cuda.synchronize()
            self.seconds.append(time.perf_counter() - self.start)

    watch = Watch()
    if mode == "compiled":
        return run_compiled(model, Rows(), rows, steps + warmup(case), warmup(case), accumulate)
    arguments = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=rows, gradient_accumulation_steps=accumulate,
        max_steps=steps + warmup(case),
        bf16=mode.startswith("autocast"), use_cpu=device == "cpu", report_to=[], logging_steps=1000,
        save_strategy="no", disable_tqdm=True,
        optim="adamw_torch_fused" if "fused" in mode else "adamw_torch")
    transformers.Trainer(model=model, args=arguments, train_dataset=Rows(), callbacks=[watch]).train()
    tell(watch.seconds[warmup(case):], device)


def tell(seconds, device):
    import resource
    import torch
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if device == "cuda":
        peak = torch.cuda.max_memory_allocated()
    print(json.dumps({"step_seconds": statistics.median(seconds), "best_step_seconds": min(seconds),
                      "peak_memory_bytes": peak}))


def run_compiled(model, data, rows, steps, warm, accumulate):
    """The model under torch.compile on a GPU: fp32 weights, bf16 by autocast, fused AdamW, clipping."""
    import time
    import torch
    model = model.cuda()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    seconds = []
    for step in range(steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for i in range(accumulate):
            first = (step * accumulate + i) * rows
            ids = torch.stack([data[first + row]["input_ids"] for row in range(rows)]).cuda()
            with torch.autocast("cuda", torch.bfloat16):
                loss = compiled(input_ids=ids, labels=ids).loss
            (loss / accumulate).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    tell(seconds[warm:], "cuda")


def peer(case, mode, folder, device, accumulate, documents):
    done = subprocess.run([sys.executable, __file__, "--case", case, "--run-peer", mode, "--base", folder, "--device",
                           device, "--rows", str(CASES[case][3]), "--accumulate", str(accumulate), "--documents",
                           str(documents), *(["--type", TYPE] if TYPE else [])],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"step_seconds')))


def lengths(total, length, documents):
    """Of the texts that so many tokens come as: whole rows, or documents of so many tokens on average."""
    import random
    draw = random.Random(1)
    while total > 0:
        yield min(total, length if not documents else draw.randint(1, 2 * documents - 1))
        total -= length if not documents else documents


def cut_row(length, documents, seed):
    """The documents, of so many tokens on average, that fill a row; the last one is cut."""
    import random
    draw = random.Random(seed)
    while length > 0:
        count = min(length, draw.randint(1, 2 * documents - 1))
        yield count
        length -= count


def hone(program, case, folder, device, trainer, ranks=1, fsdp=False, documents=0, accumulate=1):
    _, _, vocab, rows, length, steps, precision, _ = CASES[case]
    data, recipe = os.path.join(folder, "rows.jsonl"), os.path.join(folder, "recipe.json")
    with open(data, "w") as file:
        state = 1
        for count in lengths(ranks * accumulate * rows * length * (steps + warmup(case)), length, documents):
            ids = []
            for _ in range(count):
                state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
                ids.append((state >> 33) % vocab)
            file.write(json.dumps({"input_ids": ids}) + "\n")
    made = {"model": {"type": model_type(case), **shape(case)}, "tokenizer": "bytes",
            "data": {"train": data, "max_length": length}, "optimizer": {"type": "adamw", "learning_rate": 5e-5},
            "trainer": {"batch_size": rows, "max_grad_norm": 1.0, "precision": precision, "device": device, **trainer},
            "run": {"folder": os.path.join(folder, "run"), "seed": 1}}
    if documents:
        made["data"]["packing"] = "concat"
    made["trainer"]["accumulate"] = ranks * accumulate
    if fsdp:
        made["parallel"] = {"fsdp": -1}
    if is_half_billion(case):
        made["model"] = {"path": own_base(program, case, folder)}
    if is_lora(case):
        made["model"] = {"path": os.path.join(folder, "base")}
        made["adapter"] = {"type": "lora", "rank": 16, "alpha": 32, "targets": ["all-linear"]}
    with open(recipe, "w") as file:
        json.dump(made, file)
    launch = ["launch", "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run([program, *launch, "bench", recipe, "--steps", str(steps), "--warmup", str(warmup(case)), "--json"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def own_base(program, case, folder):
    """The model as a folder in bf16, made by hone."""
    made = os.path.join(folder, "own_base")
    if not os.path.exists(made):
        values = [f"--model.{key}={json.dumps(value)}" for key, value in shape(case).items()]
        subprocess.run([program, "init", made, f"--model.type={model_type(case)}", *values, "--tokenizer", "bytes",
                        "--precision", "bf16", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return made


def start_of(made):
    """What hone bench says of loading, the first step and products."""
    return {"load": made["load_seconds"],
            "steps": (made["first_step_seconds"] - made["load_seconds"]) / made["step_seconds"],
            "rate": made["flops_by_op"]["matrix products"] / 1e9}


def product_floor(case):
    """Seconds that torch needs for the matrix products of one step alone, in bf16 or fp32."""
    import time
    import torch
    torch.set_grad_enabled(False)
    hidden, layers, vocab, rows, length, _, precision, _ = CASES[case]
    s, tokens = shape(case), rows * length
    kv = hidden * s["num_key_value_heads"] // s["num_attention_heads"]
    inner = s["intermediate_size"]
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32

    def best(work):
        seconds = []
        for _ in range(8):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
        return min(seconds[1:])

    total = 0
    for wide, narrow, count in [(hidden, hidden, 2 * layers), (hidden, kv, 2 * layers), (hidden, inner, 2 * layers),
                                (inner, hidden, layers), (hidden, vocab, 1)]:
        x, w, y = (torch.randn(*size).to(dtype) for size in [(tokens, wide), (narrow, wide), (tokens, narrow)])
        total += count * (best(lambda: x @ w.t()) + best(lambda: y @ w) + best(lambda: y.t() @ x))
    return total


def trainer_of(options):
    given = {"fp8": (options.fp8, "off"), "cuda_graphs": (options.graphs, "auto"),
             "deterministic": (options.deterministic, "strict")}
    return {name: value for name, (value, usual) in given.items() if value != usual}


def scale(options):
    """One process beside several, each of which has as many rows."""
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, ranks, fsdp in [("one", 1, False), ("whole", options.ranks, False), ("shares", options.ranks, True)]:
            made = hone(options.hone, options.case, folder, options.device, trainer_of(options),
                        ranks, fsdp, options.documents)
            rates[name] = made["tokens_per_step"] / made["step_seconds"]
            print(f"{name:12} {ranks} ranks, {made['step_seconds']:8.3f} s median, {rates[name]:.0f} tokens/s, "
                  f"{made['peak_memory_bytes'] / 1e9:5.2f} GB each, waits "
                  f"{made.get('exposed_seconds_per_step', 0):.3f} s", flush=True)
    for name in ("whole", "shares"):
        print(f"scaling, {name}: {rates[name] / rates['one'] / options.ranks:.2f} of {options.ranks} times one rank's rate")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone")
    parser.add_argument("--case", choices=CASES, default="32m")
    parser.add_argument("--peer", help="the peer's modes, separated by commas: autocast, pure, pure_fused, fp32; \"\": no peer")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--fp8", choices=["off", "tensorwise", "rowwise"], default="off", help="of hone alone")
    parser.add_argument("--graphs", choices=["auto", "always", "never"], default="auto", help="trainer.cuda_graphs, of hone alone")
    parser.add_argument("--deterministic", choices=["strict", "fast"], default="strict", help="of hone alone")
    parser.add_argument("--documents", type=int, default=0,
                        help="tokens of a document on average, packed into rows, of hone alone; 0: each row is one")
    parser.add_argument("--type", choices=TYPES, help="of the model, in place of the case's")
    parser.add_argument("--rows", type=int, help="in a batch, in place of the case's")
    parser.add_argument("--accumulate", type=int, default=1, help="batches of a step, on one rank")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=1, help="of hone, with as many rows each; no peer")
    parser.add_argument("--floor", action="store_true")
    parser.add_argument("--run-peer", help=argparse.SUPPRESS)
    parser.add_argument("--base", help=argparse.SUPPRESS)
    options = parser.parse_args()
    global TYPE
    TYPE = options.type
    if options.rows:
        made = list(CASES[options.case])
        made[3] = options.rows
        CASES[options.case] = tuple(made)
    if options.run_peer == "make":
        return make_base(options.case, options.base, options.device)
    if options.run_peer:
        return run_peer(options.case, options.run_peer, options.base, options.device, options.accumulate,
                        options.documents)
    if options.ranks > 1:
        return scale(options)
    modes = [mode for mode in (CASES[options.case][-1] if options.peer is None else options.peer).split(",") if mode]
    seconds, memory, floors, starts = {}, {}, [], []
    with tempfile.TemporaryDirectory() as folder:
        base = os.path.join(folder, "base")
        if is_lora(options.case):
            subprocess.run([sys.executable, __file__, "--case", options.case, "--run-peer", "make", "--base", base,
                            "--device", options.device],
                           check=True)
        for _ in range(options.rounds):
            if options.floor:
                floors.append(product_floor(options.case))
                print(f"{'products':12} {floors[-1]:8.3f} s", flush=True)
            for name in ["hone", *modes]:
                made = (hone(options.hone, options.case, folder, options.device, trainer_of(options),
                             documents=options.documents, accumulate=options.accumulate)
                        if name == "hone" else peer(options.case, name, base, options.device, options.accumulate,
                                                    options.documents))
                seconds.setdefault(name, []).append(made["step_seconds"])
                memory.setdefault(name, []).append(made["peak_memory_bytes"])
                if name == "hone":
                    starts.append(start_of(made))
                rate = (f", {made['flops'] / 1e12:.1f} TFLOP/s, {made['share_of_ceiling']:.2f} of a large product's"
                        if name == "hone" else "")
                print(f"{name:12} {made['step_seconds']:8.3f} s median, {made['best_step_seconds']:8.3f} s best, "
                      f"{made['peak_memory_bytes'] / 1e9:5.2f} GB{rate}", flush=True)
    if is_half_billion(options.case):
        start = {key: statistics.median(one[key] for one in starts) for key in starts[0]}
        print(f"start: loaded in {start['load']:.2f} s, first step done {start['steps']:.2f} steps' time later; "
              f"products {start['rate']:.0f} GFLOP/s")
    if not modes:
        return
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    fastest = min(modes, key=middle.get)
    print(f"step: hone {middle['hone']:.3f} s, {fastest} {middle[fastest]:.3f} s: "
          f"{middle[fastest] / middle['hone']:.2f} times as fast")
    used = {name: statistics.median(values) for name, values in memory.items()}
    print(f"memory: hone {used['hone'] / 1e9:.2f} GB, {fastest} {used[fastest] / 1e9:.2f} GB: "
          f"{used['hone'] / used[fastest]:.2f} of it")
    if floors:
        floor = statistics.median(floors)
        print(f"floor: {floor:.3f} s of products: the step takes {middle['hone'] / floor:.2f} times that")


if __name__ == "__main__":
    main()
