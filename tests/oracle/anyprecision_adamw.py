"""AnyPrecisionAdamW as Meta published it in torchdistx, for fp32 gradients: one tensor operation after another, so that
every intermediate result is rounded to the type of the tensor that holds it."""
import torch


class AnyPrecisionAdamW(torch.optim.Optimizer):
    def __init__(self, groups, lr, betas, eps, weight_decay, dtypes, kahan):
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay})
        self.betas, self.eps, self.dtypes, self.kahan = betas, eps, dtypes, kahan
        self.count = 0

    def _state_of(self, weight):
        names = ("exp_avg", "exp_avg_sq", "compensation")[:3 if self.kahan else 2]
        if not self.state[weight]:
            self.state[weight] = {name: torch.zeros_like(weight, dtype=dtype)
                                  for name, dtype in zip(names, self.dtypes)}
        return self.state[weight]

    @torch.no_grad()
    def step(self):  # pylint: disable=arguments-differ
        self.count += 1
        corrections = [1 - beta ** self.count for beta in self.betas]
        for group in self.param_groups:
            step_size = group["lr"] / corrections[0]
            for weight in group["params"]:
                state, gradient = self._state_of(weight), weight.grad
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                mean = state["exp_avg"].mul_(self.betas[0]).add_(gradient, alpha=1 - self.betas[0])
                square = state["exp_avg_sq"].mul_(self.betas[1])
                square.addcmul_(gradient, gradient, value=1 - self.betas[1])
                deviation = (square.sqrt() / corrections[1] ** 0.5).add_(self.eps)
                if not self.kahan:
                    weight.addcdiv_(mean, deviation, value=-step_size)
                    continue
                # Kahan: what the addition rounds off is kept and added the next time.
                compensation = state["compensation"].addcdiv_(mean, deviation, value=-step_size)
                before = weight.clone()
                weight.add_(compensation)
                compensation.add_(before.sub_(weight))
