#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace echelon::app::doctor {

/// Read access to this machine's files for the checks. With a root other than "/", the files of a mounted
/// image, a container or a copied tree are examined instead: <root>/proc, <root>/sys, <root>/dev ...
class Machine {
 public:
  explicit Machine(std::filesystem::path root) : root_(std::move(root)) {}

  /// The place of the absolute `path` below the root.
  [[nodiscard]] std::filesystem::path at(const std::string& path) const;
  /// The first 64 KiB of a file without trailing white space; nothing if it cannot be read.
  [[nodiscard]] std::optional<std::string> text(const std::string& path) const;
  /// Sorted names in a folder; empty if it cannot be read.
  [[nodiscard]] std::vector<std::string> names(const std::string& path) const;
  /// A field of /proc/meminfo such as "MemTotal", in bytes.
  [[nodiscard]] std::optional<std::uint64_t> meminfo(const std::string& field) const;
  /// Memory that this process may use, in bytes: the machine's memory, or the limit of its control group or
  /// one above it, whichever is least.
  [[nodiscard]] std::optional<std::uint64_t> memory_bytes() const;

 private:
  std::filesystem::path root_;
};

}  // namespace echelon::app::doctor
