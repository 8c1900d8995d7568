#pragma once
#include <filesystem>

namespace echelon::tool {

/// `path` without a slash at the end; its parent folders are made. Throws Error(kUsage) when it exists, lies
/// inside `checkpoint`, or they cannot be made.
[[nodiscard]] std::filesystem::path checked_output(std::filesystem::path path,
                                                   const std::filesystem::path& checkpoint);
/// The folder that holds `path`.
[[nodiscard]] std::filesystem::path folder_of(const std::filesystem::path& path);

/// Gives `made`, whose content is durable already, the name `output`, durably. Throws Error(kUsage) when
/// somebody took that name meanwhile.
void publish_output(const std::filesystem::path& made, const std::filesystem::path& output);

/// An output that appears whole or not at all: made as "<path>.partial-<id>" and renamed at the end. The
/// destructor removes an unfinished output.
class PartialOutput {
 public:
  /// Throws what checked_output throws.
  PartialOutput(std::filesystem::path path, const std::filesystem::path& checkpoint);
  PartialOutput(const PartialOutput&) = delete;
  PartialOutput& operator=(const PartialOutput&) = delete;
  ~PartialOutput();

  /// The path to write: a file or folder that does not exist yet.
  [[nodiscard]] const std::filesystem::path& path() const { return partial_; }
  void publish();

 private:
  std::filesystem::path final_;
  std::filesystem::path partial_;
  bool published_ = false;
};

}  // namespace echelon::tool
