#include <torch/csrc/api/include/torch/version.h>

#include "app/engine/engine.h"
#include "base/str.h"
#include "model/kernels/kernels.h"

const char* echelon_engine_versions() {
  static const std::string text =
      echelon::str("libtorch ", TORCH_VERSION, ", kernels for ", echelon::kernels::instruction_set());
  return text.c_str();
}
