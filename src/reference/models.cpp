#include "reference/models.h"

#include <stdexcept>

namespace echelon::reference {

at::Tensor loss_sum(const Pass& pass, const SampleBatch& sample) {
  switch (pass.model.kind) {
    case ModelKind::kLlama:
    case ModelKind::kMistral:
    case ModelKind::kQwen2:
    case ModelKind::kQwen3:
    case ModelKind::kOlmo2:
    case ModelKind::kOlmo3:
    case ModelKind::kSmolLm3:
    case ModelKind::kGranite:
    case ModelKind::kPhi3:
    case ModelKind::kGemma3Text:
      return llama_loss(pass, sample);
    case ModelKind::kGpt2:
      return gpt2_loss(pass, sample);
    case ModelKind::kT5:
      return t5_loss(pass, sample);
    case ModelKind::kVit:
      return vit_loss(pass, sample);
    case ModelKind::kDeepVit:
      return deepvit_loss(pass, sample);
    case ModelKind::kCnn:
      return cnn_loss(pass, sample);
  }
  throw std::logic_error("a kind of model without a reference");
}

}  // namespace echelon::reference
