#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/folder/files.h"
#include "checkpoint/format/tensor.h"

namespace echelon::families {

/// A tensor in one of the files of a WeightSource.
struct SourceTensor {
  checkpoint::TensorInfo info;
  std::size_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::string_view other_type;  ///< of SafetensorsTensor
};

/// Weights as Hugging Face keeps them: a folder with model.safetensors, or with several files and
/// model.safetensors.index.json; or one .safetensors file. Opening reads every header, checks that index and
/// files agree tensor for tensor, and reads no tensor. Pickle files are never opened, links never followed.
class WeightSource {
 public:
  /// Throws Error(kCheckpoint); Error(kUsage) when `input` is nothing of the kind.
  explicit WeightSource(const std::filesystem::path& input);

  [[nodiscard]] const std::map<std::string, SourceTensor>& tensors() const { return tensors_; }
  /// What the index lists, and its files do not have: an index may have been made before tied weights were
  /// left out of the files (flan-t5-xl).
  [[nodiscard]] const std::vector<std::string>& absent() const { return absent_; }
  /// The folder of config.json and the tokenizer's files.
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  /// Bytes [at, at + to.size()) of a tensor.
  void read(const SourceTensor& tensor, std::uint64_t at, std::span<std::byte> to) const;

  /// Throws Error(kCheckpoint) when a file was changed since it was opened.
  void check_unchanged() const;

 private:
  struct File {
    std::filesystem::path path;
    checkpoint::InputFile input;
    struct stat opened {};
  };
  /// Throws when a tensor comes twice. Returns the bytes of its tensors.
  std::uint64_t add_file(const std::filesystem::path& path);
  void add_indexed(const std::filesystem::path& index);

  std::filesystem::path folder_;
  std::vector<File> files_;
  std::map<std::string, SourceTensor> tensors_;
  std::vector<std::string> absent_;
};

}  // namespace echelon::families
