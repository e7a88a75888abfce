#!/usr/bin/env python3
"""How fast transformers decodes and prefills a DeepSeek-V4 checkpoint on the CPU: the reference for `cargo bench --bench decode`.

    pip install torch transformers
    python benches/transformers.py tests/golden/tiny-a

Greedy decode with a cache after prompts of 256 tokens, at batch 1, 16 and 64, and a prefill of 16 prompts of 256 tokens.
Every figure is the least over some repetitions, so that what else the machine does counts as little as it can.
"""

import argparse
import json
import pathlib
import sys
import time
import warnings

# This file has the library's name, so its folder must not be searched.
sys.path = [path for path in sys.path if pathlib.Path(path).resolve() != pathlib.Path(__file__).resolve().parent]

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

PROMPT = 256


def prompts(rows: int, vocabulary: int) -> torch.Tensor:
    """The prompts that benches/decode.rs uses."""
    row = torch.arange(rows).unsqueeze(1)
    at = torch.arange(PROMPT).unsqueeze(0)
    return (row * 131 + at * 17) % vocabulary


def decode(model, rows: int, steps: int) -> list[float]:
    """Seconds of each greedy step after the prompt."""
    out = model(prompts(rows, model.config.vocab_size), use_cache=True)
    seconds = []
    for _ in range(steps):
        token = out.logits[:, -1:].argmax(-1)
        start = time.perf_counter()
        out = model(token, past_key_values=out.past_key_values, use_cache=True)
        seconds.append(time.perf_counter() - start)
    return seconds


def prefill(model, rows: int) -> float:
    """Seconds that a prefill takes."""
    tokens = prompts(rows, model.config.vocab_size)
    start = time.perf_counter()
    model(tokens, use_cache=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a Hugging Face directory")
    parser.add_argument("--threads", type=int, default=2, help="threads that compute (default 2)")
    parser.add_argument("--repetitions", type=int, default=5, help="times that each figure is measured (default 5)")
    parser.add_argument("--steps", type=int, default=32, help="decode steps of a repetition (default 32)")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="numbers (default float32)")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    # The cache's argument has another name in later versions.
    warnings.simplefilter("ignore", FutureWarning)
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=getattr(torch, arguments.dtype)).eval()
    report = {"model": arguments.model, "dtype": arguments.dtype, "threads": arguments.threads}
    with torch.inference_mode():
        for rows in (1, 16, 64):
            runs = [decode(model, rows, arguments.steps) for _ in range(arguments.repetitions)]
            # Of one run the median step, as some steps close an entry of the compressed cache; of the runs the best.
            best = min(sorted(run)[len(run) // 2] for run in runs)
            report[f"decode_batch_{rows}"] = {"ms_per_step": 1e3 * best, "tokens_per_second": rows / best}
        prefill(model, 16)
        best = min(prefill(model, 16) for _ in range(arguments.repetitions))
        report["prefill_16x256"] = {"ms": 1e3 * best, "tokens_per_second": 16 * PROMPT / best}
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
