#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace echelon::app::doctor {

/// This machine's files and environment as the checks see them. With another root than "/" the files of a
/// mounted image, a container or a copied tree are examined instead: <root>/proc, <root>/sys, <root>/dev ...
class Machine {
 public:
  explicit Machine(std::filesystem::path root) : root_(std::move(root)) {}

  /// `path` is absolute.
  [[nodiscard]] std::filesystem::path at(const std::string& path) const;
  /// The first 64 KiB of a file without the white space at its end; nothing where it cannot be read.
  [[nodiscard]] std::optional<std::string> text(const std::string& path) const;
  /// Names in a folder, sorted; empty where it cannot be read.
  [[nodiscard]] std::vector<std::string> names(const std::string& path) const;
  /// A field such as "MemTotal" of /proc/meminfo in bytes, or nothing.
  [[nodiscard]] std::optional<std::uint64_t> meminfo(const std::string& field) const;
  /// Memory this process may use: the machine's, or what its control group allows where that is less.
  [[nodiscard]] std::optional<std::uint64_t> memory_bytes() const;

 private:
  std::filesystem::path root_;
};

/// An environment variable; empty where it is not set.
[[nodiscard]] std::string variable(const char* name);

}  // namespace echelon::app::doctor
