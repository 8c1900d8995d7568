"""The tables of tests/unit/optim/schedule_test.cpp are what torch.optim.lr_scheduler computes."""
import pathlib
import re

import torch
from torch.optim import lr_scheduler

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "unit" / "optim" / "schedule_test.cpp"
LR = 2e-3
TEST = re.compile(r"((?:// torch: [^\n]*\n)+)TEST\(Schedule, (\w+)\) \{(.*?)\n\}", re.DOTALL)
TABLE = re.compile(r"\{([-+.,\de\s]+)\}\);", re.DOTALL)


def rates(expression, steps):
    """The learning rates of `steps` optimizer steps under the scheduler that `expression` makes."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=LR)
    scheduler = eval(expression, {**vars(lr_scheduler), "optimizer": optimizer})
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def main():
    tests = TEST.findall(SOURCE.read_text())
    assert len(tests) == 8, f"{len(tests)} tests of {SOURCE.name} name a scheduler, expected 8"
    for comment, name, body in tests:
        table = [float(number) for number in TABLE.search(body).group(1).split(",")]
        expected = rates(comment.replace("// torch:", "").strip(), len(table))
        error = max(abs(a - b) for a, b in zip(table, expected))
        assert error <= 1e-12, f"{name}: the table is {table}, PyTorch computes {expected}"
        print(f"ok {name}: {len(table)} steps within {error:.0e}", flush=True)


if __name__ == "__main__":
    main()
