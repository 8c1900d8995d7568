"""What this device can do at most, by PyTorch: copies, matrix products and attention of the sizes of the 1.5 B Llama. One
line of JSON."""
import argparse
import json
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

# (rows, inner, columns) of the products of a forward pass over 32,768 tokens; --trial: tiny.
TOKENS, HIDDEN, INNER, KV, VOCAB = 32768, 2048, 8192, 512, 128256
SHAPES = {"query and output": (TOKENS, HIDDEN, HIDDEN), "key and value": (TOKENS, HIDDEN, 2 * KV),
          "gate and up": (TOKENS, HIDDEN, 2 * INNER), "down": (TOKENS, INNER, HIDDEN), "head": (TOKENS // 8, HIDDEN, VOCAB)}
COPY_BYTES = 1 << 30


def seconds(device, work, least_s):
    """Median of the seconds of `work`, over runs of at least `least_s` together. On a GPU ten for each wait of the host,
    which would count otherwise."""
    together = 10 if device.type == "cuda" else 1

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize()

    work()
    wait()
    times = []
    while sum(times) < least_s or len(times) < 5:
        began = time.perf_counter()
        for _ in range(together):
            work()
        wait()
        times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2] / together


def products(device, dtype, shrink, least_s):
    """TFLOP/s by shape."""
    rates = {}
    for name, (rows, inner, columns) in SHAPES.items():
        rows, inner, columns = rows // shrink, max(inner // shrink, 16), max(columns // shrink, 16)
        a = torch.randn(rows, inner, device=device, dtype=dtype)
        b = torch.randn(columns, inner, device=device, dtype=dtype)
        rates[name] = 2 * rows * inner * columns / seconds(device, lambda: torch.mm(a, b.t()), least_s) / 1e12
    return rates


def fp8_products(device, least_s):
    """TFLOP/s of fp8 products with one scale a tensor."""
    rates = {}
    one = torch.ones((), device=device)
    for name, (rows, inner, columns) in SHAPES.items():
        a = torch.randn(rows, inner, device=device).to(torch.float8_e4m3fn)
        b = torch.randn(columns, inner, device=device).to(torch.float8_e4m3fn)

        def product():
            torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)

        rates[name] = 2 * rows * inner * columns / seconds(device, product, least_s) / 1e12
    return rates


def attention(device, shrink, least_s):
    """TFLOP/s of causal attention by backend, head size and direction; a masked pair of positions counts as none."""
    rates = {}
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        for size in (64, 128):
            rows, heads, kv_heads, length = 8, HIDDEN // size, KV // size, 4096 // shrink
            q, k, v = (torch.randn(rows, length, n, size, device=device, dtype=torch.bfloat16).transpose(1, 2).requires_grad_()
                       for n in (heads, kv_heads, kv_heads))
            flops = 2 * rows * heads * length**2 * size
            with sdpa_kernel(backend):
                def forward():
                    return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

                result = forward()
                slope = torch.randn_like(result)
                rates[f"{name}, head size {size}, forward"] = flops / seconds(device, forward, least_s) / 1e12
                rates[f"{name}, head size {size}, backward"] = 2.5 * flops / seconds(
                    device, lambda: torch.autograd.grad(result, (q, k, v), slope, retain_graph=True), least_s) / 1e12
    return rates


def copies(device, size, least_s):
    """GB/s: bytes copied a second (a copy within the device reads and writes as many)."""
    here = torch.empty(size, dtype=torch.uint8, device=device)
    there = torch.empty_like(here)
    rates = {"within the device": size / seconds(device, lambda: there.copy_(here), least_s) / 1e9}
    for name, pinned in (("pinned", True), ("pageable", False)):
        host = torch.empty(size, dtype=torch.uint8, pin_memory=pinned and device.type == "cuda")
        rates[f"from {name} host memory"] = size / seconds(device, lambda: here.copy_(host, non_blocking=True), least_s) / 1e9
        rates[f"to {name} host memory"] = size / seconds(device, lambda: host.copy_(here, non_blocking=True), least_s) / 1e9
    return rates


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trial", action="store_true", help="on the CPU, small")
    args = parser.parse_args()
    device = torch.device("cpu" if args.trial else "cuda")
    shrink, least_s, size = (64, 0.0, 1 << 20) if args.trial else (1, 0.5, COPY_BYTES)
    found = {"copies_gb_per_s": copies(device, size, least_s),
             "bf16_tflops": products(device, torch.bfloat16, shrink, least_s),
             "fp32_tflops": products(device, torch.float32, shrink, least_s)}
    if device.type == "cuda":
        found["attention_tflops"] = attention(device, shrink, least_s)
    if device.type == "cuda" and torch.cuda.get_device_capability() >= (8, 9):
        try:
            found["fp8_tflops"] = fp8_products(device, least_s)
        except RuntimeError as why:
            found["fp8_tflops"] = {"failed": str(why).splitlines()[0]}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
