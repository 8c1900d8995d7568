"""The peer of llama_8b_lora.yaml: the same adapters by peft on transformers' Llama, on one device. One line of JSON.

Weights in bf16, SDPA, every block recomputed in backward, fused AdamW, gradient norm clipped.
"""
import argparse

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from fsdp2_llama import measure, tell

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


def measured(a):
    model = build("cuda")
    trained = [p for p in model.parameters() if p.requires_grad]
    optim = torch.optim.AdamW(trained, lr=2e-4, weight_decay=0.0, fused=True)
    found = measure(a, optim, lambda: torch.randint(0, 128256, (a.rows, a.seq_len)).cuda(),
                    lambda ids: model(input_ids=ids, labels=ids).loss)
    return {**found, "trained": sum(p.numel() for p in trained)}


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("rows", 4), ("seq-len", 4096), ("steps", 12), ("skip", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    tell(lambda: measured(a))


if __name__ == "__main__":
    main()
