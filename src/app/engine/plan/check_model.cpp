#include <ATen/core/Tensor.h>

#include "app/engine/answer.h"
#include "app/engine/engine.h"
#include "model/model.h"
#include "optim/pattern_check.h"
#include "shard/precision.h"

int echelon_engine_check_model(const echelon::Recipe& recipe, echelon::app::ModelFaults& faults,
                               std::string& fault) {
  return echelon::app::answer(fault, [&] {
    // On the meta device tensors have shapes without storage.
    const auto model = build_model(recipe.model, resolve(recipe.precision).types(), at::kMeta, recipe.lora);
    for (const echelon::PatternFault& found : pattern_faults(*model, recipe.shard, recipe.precision,
                                                             recipe.activation_checkpointing, recipe.optim)) {
      faults.emplace_back(found.key, found.text);
    }
  });
}
