#!/usr/bin/env python3
"""Tokens a second of hone serve beside transformers serve: requests of a chat that come together.

  python bench/serving.py --hone build/release/hone [--case 32m] [--rounds 3] [--at-once 16]
                          [--peer transformers,batching]

Needs transformers, fastapi and uvicorn, for the peers; --peer none does without. Both serve the same folder (random
weights, a tokenizer of bytes and a chat template of its own) and are asked by the same threads over HTTP, greedily, for
answers of a fixed length. By turns; ratios are of medians over the rounds. peers: transformers: a request after the
other; batching: --continuous-batching.
"""
import argparse
import concurrent.futures
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

# hidden, layers, vocabulary
CASES = {"5m": (256, 4, 4096), "32m": (512, 8, 16384), "125m": (768, 12, 32768)}
PROMPT, ANSWER = 96, 96  # tokens
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


def make_folder(case, folder):
    """A model whose ids are bytes, so that texts of random letters have a known number of tokens."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    hidden, layers, vocab = CASES[case]
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 64,
        num_key_value_heads=hidden // 128, intermediate_size=hidden * 11 // 4, vocab_size=vocab,
        max_position_embeddings=2048, tie_word_embeddings=True, eos_token_id=None, bos_token_id=None))
    model.generation_config.eos_token_id = None
    model.to(torch.bfloat16).save_pretrained(folder)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    fast = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    fast.pre_tokenizer, fast.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=fast)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    def __init__(self, command, port):
        self.url = f"http://127.0.0.1:{port}"
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log,
                                        env=dict(os.environ, HF_HUB_OFFLINE="1"))
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url + "/health", timeout=5).read()
                return
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None:
                    break
                time.sleep(0.2)
        self.log.seek(0)
        sys.exit(f"{command}: did not start\n{self.log.read()}")

    def ask(self, model, number):
        text = "".join(chr(97 + (number * 7 + i * i) % 26) for i in range(PROMPT))
        body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": ANSWER, "temperature": 0}
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        begin = time.perf_counter()
        with urllib.request.urlopen(request, timeout=600) as reply:
            usage = json.loads(reply.read()).get("usage") or {}
        assert usage.get("completion_tokens") == ANSWER, usage
        return time.perf_counter() - begin

    def measure(self, model, at_once, count):
        self.ask(model, 0)
        begin = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(at_once) as threads:
            waits = list(threads.map(lambda number: self.ask(model, number), range(count)))
        return count * ANSWER / (time.perf_counter() - begin), statistics.median(waits)

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", default="build/release/hone")
    parser.add_argument("--case", choices=CASES, default="32m")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--peer", default="transformers,batching")
    args = parser.parse_args()
    peers = [] if args.peer == "none" else args.peer.split(",")
    with tempfile.TemporaryDirectory() as folder:
        make_folder(args.case, folder)

        def serve(name):
            port = free_port()
            if name == "hone":
                command = [args.hone, "serve", folder, "--port", str(port), "--name", folder,
                           "--batch-size", str(args.at_once)]
            else:
                command = [sys.executable, "-m", "transformers.cli.transformers", "serve", folder, "--port", str(port),
                           "--host", "127.0.0.1", "--device", "cpu"]
                command += ["--continuous-batching"] if name == "batching" else []
            return Server(command, port)

        found = {name: [] for name in ["hone", *peers]}
        for _ in range(args.rounds):
            for name, results in found.items():
                server = serve(name)
                try:
                    for at_once, count in ((1, 2), (args.at_once, 2 * args.at_once)):
                        results.append((at_once, *server.measure(folder, at_once, count)))
                finally:
                    server.end()
        for at_once in (1, args.at_once):
            rates = {name: statistics.median(rate for n, rate, _ in results if n == at_once)
                     for name, results in found.items()}
            waits = {name: statistics.median(wait for n, _, wait in results if n == at_once)
                     for name, results in found.items()}
            for name in found:
                print(json.dumps({"case": args.case, "server": name, "at_once": at_once,
                                  "tokens_per_second": round(rates[name], 1), "median_wait_s": round(waits[name], 3),
                                  "hone_is_faster_by": round(rates["hone"] / rates[name], 2)}), flush=True)


if __name__ == "__main__":
    main()
