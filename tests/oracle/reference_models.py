"""transformers' models with the weights of a dump, and their gradients in the layout of the engine."""
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

# GPT-2's matrices are Conv1D there: [in, out].
TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def transposed(name, tensor, kind):
    return tensor.t().contiguous() if kind == "gpt2" and name.endswith(TRANSPOSED) else tensor


def model_of(result):
    """transformers' model of a dump that holds weights, in fp32, without dropout."""
    kind = result.config["model_type"]
    config = AutoConfig.for_model(**result.config)
    family = AutoModelForSeq2SeqLM if kind == "t5" else AutoModelForCausalLM
    model = family.from_config(config).float().eval()
    weights = {name: transposed(name, tensor, kind) for name, tensor in result.tensors["weights"].items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    allowed = set(model._tied_weights_keys or ()) if tied or kind == "t5" else set()
    assert set(missing) <= allowed and not unexpected, (missing, unexpected)
    return model


def mean_loss(model, ids):
    """Of the prediction of each id after those before it."""
    logits = model(input_ids=ids[:, :-1]).logits.float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def gradients_of(model, result):
    kind = result.config["model_type"]
    return {name: transposed(name, parameter.grad, kind) for name, parameter in model.named_parameters()}
