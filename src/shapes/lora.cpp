#include "shapes/lora.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/options/checked.h"
#include "base/options/patterns.h"
#include "base/str.h"
#include "shapes/llama_family.h"

namespace echelon {
namespace {

constexpr std::string_view kA = ".lora_A.weight";
constexpr std::string_view kB = ".lora_B.weight";
constexpr std::string_view kWeight = ".weight";

/// A pattern means the whole name of a module, or the end of one from a dot on: "q_proj".
bool names(const std::string& pattern, std::string_view module) {
  return matches(pattern, module) || matches("*." + pattern, module);
}

bool names_any(const std::vector<std::string>& patterns, std::string_view module) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return names(pattern, module); });
}

std::string_view last_of(std::string_view module) {
  return module.substr(module.rfind('.') + 1);
}

bool can_have_adapters(ModelKind kind) {
  return is_llama_family(kind) || kind == ModelKind::kGptNeoX;
}

/// The matrices that can have an adapter: those of the blocks.
std::vector<AdaptedMatrix> matrices_of(const ModelOptions& model) {
  std::vector<AdaptedMatrix> matrices;
  for (const LayerShapes& layer : shapes_of(model)) {
    for (std::int64_t i = 0; layer.repeats && i < *layer.repeats; ++i) {
      for (const TensorShape& tensor : layer.tensors) {
        if (tensor.dimensions.size() != 2 || !tensor.name.ends_with(kWeight)) continue;
        matrices.push_back(
            {str(layer.prefix, i, '.', module_of(tensor.name)), tensor.dimensions[0], tensor.dimensions[1]});
      }
    }
  }
  return matrices;
}

/// "q_proj, k_proj, ...": the last parts of names, each once.
std::string kinds_of(const std::vector<std::string>& modules) {
  std::vector<std::string> kinds;
  for (const std::string& module : modules) {
    const std::string kind(last_of(module));
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  }
  return join(kinds, ", ");
}

std::vector<std::string> modules_of(const ModelOptions& model) {
  std::vector<std::string> modules;
  std::set<std::string, std::less<>> known;  // a module's weight and bias need not be neighbors
  for (const TensorShape& tensor : tensors_of(model)) {
    if (known.emplace(module_of(tensor.name)).second) modules.emplace_back(module_of(tensor.name));
  }
  return modules;
}

void check_adapted(const ModelOptions& model, const LoraOptions& lora,
                   const std::vector<std::string>& modules, std::vector<LoraFault>& faults) {
  const auto can = mapped(matrices_of(model), &AdaptedMatrix::module);
  const std::set<std::string> adaptable(can.begin(), can.end());
  for (const std::string& pattern : lora.modules) {
    const auto found = [&](bool wanted) {
      return std::ranges::find_if(modules, [&](const std::string& module) {
        return names(pattern, module) && (adaptable.count(module) > 0) == wanted;
      });
    };
    const std::string which = str("lora.modules: pattern '", pattern, "' matches ");
    if (const auto other = found(false); other != modules.end()) {
      faults.push_back({{"lora.modules"},
                        str(which, "'", *other, "', which can have no adapter; those that can are ",
                            kinds_of(can), ", and lora.also_train trains others whole")});
    } else if (found(true) == modules.end()) {
      faults.push_back({{"lora.modules"}, str(which, "no module; expected some of ", kinds_of(can))});
    }
  }
}

void check_also_trained(const ModelOptions& model, const LoraOptions& lora,
                        const std::vector<std::string>& modules, std::vector<LoraFault>& faults) {
  const std::vector<AdaptedMatrix> adapted = adapted_matrices(model, lora);
  for (const std::string& pattern : lora.also_train) {
    if (std::ranges::none_of(modules, [&](const auto& m) { return names(pattern, m); }))
      faults.push_back({{"lora.also_train"},
                        str("lora.also_train: pattern '", pattern, "' matches no module; expected some of ",
                            kinds_of(modules))});
  }
  for (const AdaptedMatrix& matrix : adapted) {
    if (!names_any(lora.also_train, matrix.module)) continue;
    faults.push_back({{"lora.also_train", "lora.modules"},
                      str("lora.also_train names '", matrix.module,
                          "', which also has an adapter; train it in one way: leave it out of "
                          "lora.also_train, or out of lora.modules")});
    return;
  }
}

}  // namespace

std::string_view module_of(std::string_view tensor) {
  return tensor.substr(0, tensor.rfind('.'));
}

std::vector<AdaptedMatrix> adapted_matrices(const ModelOptions& model, const LoraOptions& lora) {
  if (lora.rank == 0) return {};
  std::vector<AdaptedMatrix> all = matrices_of(model);
  if (!lora.modules.empty())
    std::erase_if(all, [&](const AdaptedMatrix& matrix) { return !names_any(lora.modules, matrix.module); });
  return all;
}

std::string adapter_a(std::string_view module) {
  return str(module, kA);
}
std::string adapter_b(std::string_view module) {
  return str(module, kB);
}
bool is_adapter(std::string_view tensor) {
  return tensor.ends_with(kA) || tensor.ends_with(kB);
}

bool is_trained(const LoraOptions& lora, std::string_view tensor) {
  return lora.rank == 0 || is_adapter(tensor) || names_any(lora.also_train, module_of(tensor));
}

std::vector<std::string> modules_trained_whole(const ModelOptions& model, const LoraOptions& lora) {
  if (lora.rank == 0) return {};
  std::vector<std::string> modules = modules_of(model);
  std::erase_if(modules, [&](const std::string& module) { return !names_any(lora.also_train, module); });
  return modules;
}

std::vector<std::string> target_modules(const ModelOptions& model, const LoraOptions& lora) {
  std::vector<std::string> targets;
  const std::vector<AdaptedMatrix> adapted = adapted_matrices(model, lora);
  const std::vector<AdaptedMatrix> all = matrices_of(model);
  const auto count = [](const std::vector<AdaptedMatrix>& matrices, std::string_view kind) {
    return std::ranges::count_if(matrices,
                                 [&](const AdaptedMatrix& matrix) { return last_of(matrix.module) == kind; });
  };
  for (const AdaptedMatrix& matrix : adapted) {
    const std::string kind(last_of(matrix.module));
    const bool whole = count(adapted, kind) == count(all, kind);
    const std::string& target = whole ? kind : matrix.module;
    if (std::ranges::find(targets, target) == targets.end()) targets.push_back(target);
  }
  return targets;
}

double lora_scale(const LoraOptions& lora) {
  const auto rank = static_cast<double>(lora.rank);
  return lora.alpha / (lora.use_rslora ? std::sqrt(rank) : rank);
}

std::vector<TensorShape> tensors_of(const ModelOptions& model, const LoraOptions& lora) {
  std::vector<TensorShape> all = tensors_of(model);
  for (const AdaptedMatrix& matrix : adapted_matrices(model, lora)) {
    all.push_back({adapter_a(matrix.module), {lora.rank, matrix.inputs}});
    all.push_back({adapter_b(matrix.module), {matrix.outputs, lora.rank}});
  }
  return all;
}

std::optional<std::int64_t> adapter_parameters(const ModelOptions& model, const LoraOptions& lora) {
  Checked total = 0;
  for (const AdaptedMatrix& matrix : adapted_matrices(model, lora))
    total = total + Checked(lora.rank) * matrix.inputs + Checked(lora.rank) * matrix.outputs;
  return total.value();
}

std::vector<LoraFault> lora_faults(const ModelOptions& model, const LoraOptions& lora) {
  std::vector<LoraFault> faults;
  if (lora.rank == 0) return faults;
  if (!can_have_adapters(model.kind)) {
    std::vector<std::string> kinds;
    for (std::size_t kind = 0; kind < kWords<ModelKind>.size(); ++kind) {
      if (can_have_adapters(static_cast<ModelKind>(kind))) kinds.emplace_back(kWords<ModelKind>[kind]);
    }
    faults.push_back(
        {{"lora.rank", "model.kind"},
         str("lora.rank is ", lora.rank, ", but model.kind: ", word_of(model.kind),
             " can have no adapters; set lora.rank: 0, or use a kind that can: ", join(kinds, ", "))});
    return faults;
  }
  const std::vector<std::string> modules = modules_of(model);
  check_adapted(model, lora, modules, faults);
  if (faults.empty()) check_also_trained(model, lora, modules, faults);
  return faults;
}

}  // namespace echelon
