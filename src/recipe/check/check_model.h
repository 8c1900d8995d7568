#pragma once
#include <vector>

#include "recipe/check/check.h"

namespace echelon::recipe {

/// Adds conflicts of a model's sizes: heads that do not divide the width, patches that do not divide the
/// image, more parameters than any run can hold.
void find_model_conflicts(const ModelOptions& model, std::vector<Conflict>& found);

}  // namespace echelon::recipe
