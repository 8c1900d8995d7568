#pragma once
#include <optional>
#include <string>
#include <vector>

namespace echelon::submit {

/// An array whose tasks train with one value each of a key.
struct Sweep {
  std::string array;                   ///< its tasks' numbers, as Slurm takes them: "0-2", "0-2%1"
  std::vector<std::string> overrides;  ///< of each task: "optim.lr=1e-3"
};

/// The sweep in "optim.lr=1e-3,3e-3,1e-2", with %N behind it if only N run at a time; nothing if `array` is a
/// list of numbers. Commas in brackets are part of a value. Throws Error(kUsage) for an empty value.
[[nodiscard]] std::optional<Sweep> sweep_in(const std::string& array);

}  // namespace echelon::submit
