"""torch.optim.Muon for matrices and torch.optim.AdamW for all else, as one optimizer with the states' names of Echelon."""
import torch


class MuonAdamW:
    """`is_matrix(parameter)`: what Muon updates. Groups as those of torch.optim."""

    def __init__(self, groups, lr, is_matrix, adamw, muon):
        def chosen(wanted):
            parts = [{**group, "params": [p for p in group["params"] if is_matrix(p) == wanted]} for group in groups]
            return [part for part in parts if part["params"]]
        self.muon = torch.optim.Muon(chosen(True), lr=lr, **muon)
        self.adamw = torch.optim.AdamW(chosen(False), lr=lr, **adamw)
        self.param_groups = self.muon.param_groups + self.adamw.param_groups

    @property
    def state(self):
        of_muon = {parameter: {"muon_momentum": state["momentum_buffer"]} for parameter, state in self.muon.state.items()}
        return {**of_muon, **self.adamw.state}

    def zero_grad(self):
        self.muon.zero_grad()
        self.adamw.zero_grad()

    def step(self):
        self.muon.step()
        self.adamw.step()
