#pragma once
#include "shapes/shapes.h"

/// shapes_of() for each kind of model.
namespace echelon::shapes {

using Tensors = std::vector<TensorShape>;
using Layers = std::vector<LayerShapes>;

/// Names and layouts of transformers' LlamaForCausalLM and of the classes of its families (llama_family.h).
[[nodiscard]] Layers llama(const ModelOptions& model);
/// Names of transformers' GPT2LMHeadModel; its Conv1D matrices transposed.
[[nodiscard]] Layers gpt2(const ModelOptions& model);
/// Names and layouts of transformers' GPTNeoXForCausalLM.
[[nodiscard]] Layers gpt_neox(const ModelOptions& model);
/// Names and layouts of transformers' T5ForConditionalGeneration.
[[nodiscard]] Layers t5(const ModelOptions& model);
/// Names and layouts of transformers' ViTForImageClassification.
[[nodiscard]] Layers vit(const ModelOptions& model);
/// Names and layouts of vit-pytorch's DeepViT.
[[nodiscard]] Layers deepvit(const ModelOptions& model);
/// Names and layouts of the nn.Module in the MNIST tutorials.
[[nodiscard]] Layers cnn(const ModelOptions& model);

/// `name`.weight [outputs, inputs] and `name`.bias. Returns the weight, for notes beside its shape.
TensorShape& add_affine(Tensors& to, const std::string& name, std::int64_t outputs, std::int64_t inputs);
/// `name`.weight and `name`.bias of a LayerNorm.
void add_layer_norm(Tensors& to, const std::string& name, std::int64_t width);

}  // namespace echelon::shapes
