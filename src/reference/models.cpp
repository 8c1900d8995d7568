#include "reference/models.h"

#include "base/error.h"
#include "shapes/llama_family.h"

namespace echelon::reference {

at::Tensor loss_sum(const Pass& pass, const SampleBatch& sample) {
  switch (class_of(pass.model.kind)) {
    case ModelClass::kLlama: return llama_loss(pass, sample);
    case ModelClass::kGpt2: return gpt2_loss(pass, sample);
    case ModelClass::kGptNeoX: return gpt_neox_loss(pass, sample);
    case ModelClass::kT5: return t5_loss(pass, sample);
    case ModelClass::kVit: return vit_loss(pass, sample);
    case ModelClass::kDeepVit: return deepvit_loss(pass, sample);
    case ModelClass::kCnn: return cnn_loss(pass, sample);
  }
  throw Error::internal("a kind of model without a reference");
}

}  // namespace echelon::reference
