"""bf16 matrix products per second of one core, at the shapes of the 179 M Llama's step and with PyTorch's own kernel.

For each weight the three products of a step (output, input gradient, weight gradient), each as often as the step needs
it; the best of a few tries counts, so that a moment's disturbance does not lower the mark. Prints one JSON line.
"""
import json
import time

import torch

TOKENS = 1024
# (output features, input features, how often): attention's projections, the two of the MLP, the output head
WEIGHTS = ((1152, 768, 12), (768, 768, 12), (6144, 768, 12), (768, 3072, 12), (50000, 768, 1))


def best_time(product):
    product()
    times = []
    for _ in range(4):
        began = time.perf_counter()
        product()
        times.append(time.perf_counter() - began)
    return min(times)


def main():
    torch.set_num_threads(1)
    flops = seconds = 0.0
    for outputs, inputs, count in WEIGHTS:
        x = torch.randn(TOKENS, inputs).bfloat16()
        weight = torch.randn(outputs, inputs).bfloat16()
        gradient = torch.randn(TOKENS, outputs).bfloat16()
        for product in (lambda: x @ weight.t(), lambda: gradient @ weight, lambda: gradient.t() @ x):
            seconds += count * best_time(product)
            flops += count * 2.0 * TOKENS * outputs * inputs
    print(json.dumps({"flops_per_s": flops / seconds}))


if __name__ == "__main__":
    main()
