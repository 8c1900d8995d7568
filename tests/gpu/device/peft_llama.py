"""The peer of llama_8b_lora.yaml: the same adapters by peft on transformers' Llama, on one device. One line of JSON.

Weights in bf16, SDPA, every block recomputed in backward, fused AdamW, gradient norm clipped.
"""
import argparse
import json
import statistics
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

MATRICES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def build(device):
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    config = LlamaConfig(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                         num_key_value_heads=8, max_position_embeddings=131072, rms_norm_eps=1e-5, use_cache=False)
    config._attn_implementation = "sdpa"
    with torch.device(device):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules=MATRICES, task_type="CAUSAL_LM"))
    return model.train()


def measure(a):
    model = build("cuda")
    trained = [p for p in model.parameters() if p.requires_grad]
    optim = torch.optim.AdamW(trained, lr=2e-4, weight_decay=0.0, fused=True)
    times = []
    for _ in range(a.steps):
        ids = torch.randint(0, 128256, (a.rows, a.seq_len)).cuda()
        began = time.perf_counter()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optim.step()
        optim.zero_grad(set_to_none=True)
        last = loss.item()
        times.append(time.perf_counter() - began)
    step = statistics.median(times[a.skip:])
    return {"step_time_s": step, "tokens_per_s": a.rows * a.seq_len / step, "peak_device_bytes": torch.cuda.max_memory_reserved(),
            "loss": last, "trained": sum(p.numel() for p in trained)}


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("rows", 4), ("seq-len", 4096), ("steps", 12), ("skip", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    try:
        found = measure(a)
    except torch.cuda.OutOfMemoryError:
        found = {"out_of_memory": True}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
