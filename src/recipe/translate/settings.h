#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace echelon::recipe {

/// One value of another trainer's configuration.
struct Setting {
  std::string
      path;      ///< "lr_scheduler.min_lr", with dots between sections; of a list of maps "datasets.0.path"
  int line = 0;  ///< from 1
  std::string text;  ///< a scalar without quotes, or a list of scalars as "[a, b]"; empty: null

  /// No value, or one that switches a feature off.
  [[nodiscard]] bool is_off() const;
};

/// Reads YAML, JSON or TOML (sections, and one scalar or list a key). Throws Error(kUsage) with `name`, line
/// and what was expected.
[[nodiscard]] std::vector<Setting> read_settings(const std::string& name, std::string_view text);

}  // namespace echelon::recipe
