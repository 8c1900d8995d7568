#include <ATen/core/Tensor.h>

#include "app/engine/answer.h"
#include "app/engine/engine.h"
#include "model/model.h"
#include "optim/pattern_check.h"
#include "shard/precision.h"

int echelon_engine_check_model(const echelon::Recipe& recipe, echelon::app::ModelFaults& result) {
  return echelon::app::answer(result.trouble, [&] {
    // On the meta device tensors have shapes without storage.
    const auto model = build_model(recipe.model, resolve(recipe.precision).types(), at::kMeta, recipe.lora);
    for (const echelon::PatternFault& fault : pattern_faults(*model, recipe.shard, recipe.precision,
                                                             recipe.activation_checkpointing, recipe.optim)) {
      result.faults.emplace_back(fault.key, fault.text);
    }
  });
}
