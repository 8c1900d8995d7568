#include "model/model.h"

#include <map>

#include "base/error.h"
#include "model/cnn/cnn.h"
#include "model/deepvit/deepvit.h"
#include "model/gpt2/gpt2.h"
#include "model/gpt_neox/gpt_neox.h"
#include "model/llama/llama.h"
#include "model/t5/t5.h"
#include "model/vit/vit.h"
#include "shapes/llama_family.h"
#include "shapes/lora.h"

namespace echelon {
namespace {

void collect(const Layer& layer, std::vector<Parameter*>& found) {
  for (const auto& parameter : layer.parameters()) found.push_back(parameter.get());
  for (const auto& inner : layer.layers()) collect(*inner, found);
}

}  // namespace

std::vector<Parameter*> Model::parameters() const {
  std::vector<Parameter*> found;
  for (const Shared& shared : shared_) found.push_back(shared.parameter.get());
  for (const auto& layer : layers_) collect(*layer, found);
  return found;
}

std::int64_t Model::numel() const {
  std::int64_t total = 0;
  for (const Parameter* parameter : parameters()) total += parameter->numel();
  return total;
}

at::Tensor Model::token_losses(const Batch& /*batch*/, const at::Tensor& /*tokens*/,
                               const at::Tensor& /*targets*/) {
  throw Error(
      Code::kUsage,
      "this kind of model cannot be asked for the probability of a text; decoder-only language models can");
}

std::unique_ptr<Decoder> Model::decoder(const Batch& /*prompts*/) const {
  throw Error(Code::kUsage, "this kind of model cannot generate text; the kinds that read text can");
}

namespace {

std::unique_ptr<Model> whole_model(const ModelOptions& options, const ModelTypes& types, at::Device device,
                                   const LoraOptions& lora) {
  switch (class_of(options.kind)) {
    case ModelClass::kLlama: break;
    case ModelClass::kGpt2: return std::make_unique<Gpt2>(options, types);
    case ModelClass::kGptNeoX: return std::make_unique<GptNeoX>(options, types, device, lora);
    case ModelClass::kT5: return std::make_unique<T5>(options, types);
    case ModelClass::kVit: return std::make_unique<Vit>(options, types);
    case ModelClass::kDeepVit: return std::make_unique<DeepVit>(options, types);
    case ModelClass::kCnn: return std::make_unique<Cnn>(options, types);
  }
  return std::make_unique<Llama>(options, types, device, lora);
}

}  // namespace

std::unique_ptr<Model> build_model(const ModelOptions& options, const ModelTypes& types, at::Device device,
                                   const LoraOptions& lora) {
  std::unique_ptr<Model> model = whole_model(options, types, device, lora);
  std::map<std::string, Dimensions> rows;
  for (const TensorShape& tensor : tensors_of(options)) rows.emplace(tensor.name, matrix_rows(tensor));
  for (Parameter* parameter : model->parameters()) {
    parameter->freeze([&](const std::string& name) { return !is_trained(lora, name); });
    parameter->note_matrices([&](const std::string& name) { return rows[name]; });  // none of an adapter
    parameter->fp8 = types.fp8 && !parameter->parts().front().matrices.empty();
  }
  return model;
}

}  // namespace echelon
