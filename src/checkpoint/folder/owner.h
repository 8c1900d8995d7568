#pragma once
#include <filesystem>
#include <string>

namespace echelon::checkpoint {

/// The run that saves to a checkpoints folder: a fence for file systems without locks, where two jobs may
/// come to use one folder. The newest one becomes the owner; the other notices before its next commit or
/// removal.
class Owner {
 public:
  /// Makes this process the owner, by the record ".owner" in the folder, which is durable when it returns.
  /// Throws Error(kCheckpoint).
  explicit Owner(const std::filesystem::path& checkpoints);

  /// Throws Error(kCheckpoint) if the record names another process, or cannot be read. One that is gone is
  /// written again.
  void require() const;

 private:
  std::filesystem::path file_;
  std::string record_;  ///< this process, and a random number
};

}  // namespace echelon::checkpoint
