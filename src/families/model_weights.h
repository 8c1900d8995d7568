#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "families/model_family.h"
#include "families/transposed_read.h"
#include "families/weight_source.h"

namespace echelon::families {

/// A parameter as the trainer has it, in a file of a WeightSource.
struct StoredWeight {
  checkpoint::TensorInfo info;  ///< the trainer's name and shape; the type in the file
  const SourceTensor* source = nullptr;
  bool transposed = false;  ///< rows and columns are exchanged in the file
};

/// The weights of a Hugging Face folder, or of one .safetensors file beside its config.json, under the names
/// of the trainer's model. Opening reads config.json and the headers, and checks that they hold every
/// parameter with its shape and nothing else; it reads no tensor. Unchangeable.
class ModelWeights {
 public:
  /// `doing` begins errors: "cannot import". Throws Error(kCheckpoint) for anything that does not fit;
  /// Error(kUsage) when `input` is nothing of the kind.
  ModelWeights(const std::filesystem::path& input, std::string doing);

  [[nodiscard]] const std::vector<StoredWeight>& weights() const { return weights_; }
  /// Null: the model has no parameter of this name.
  [[nodiscard]] const StoredWeight* find(const std::string& name) const;
  [[nodiscard]] const ModelDescription& model() const { return model_; }
  /// config.json, with the special ids of generation_config.json.
  [[nodiscard]] const std::string& config() const { return config_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return source_.folder(); }
  [[nodiscard]] const WeightSource& source() const { return source_; }

  /// A checksum of config.json, of the names, types and shapes of all tensors, and of some bytes of each:
  /// practically always another one after training or an exchange of files.
  [[nodiscard]] std::uint32_t fingerprint() const;

  /// Throws Error(kCheckpoint) when a second copy of a tied weight differs from the first. Reads both.
  void check_tied() const;

 private:
  [[noreturn]] void refuse(const std::string& problem) const;
  [[nodiscard]] StoredWeight match(const checkpoint::TensorInfo& wanted, const std::string& name) const;
  void match_all();
  void require_head() const;
  [[nodiscard]] std::string stored_name(const std::string& name) const;

  std::string doing_;
  WeightSource source_;
  std::string config_;
  ModelDescription model_;
  std::string omitted_prefix_;  ///< of every name of the model; the files omit it
  std::vector<StoredWeight> weights_;
  std::map<std::string, std::size_t> places_;
};

/// Reads stretches of weights in bounded memory: 17 MiB. One per thread.
class WeightReader {
 public:
  explicit WeightReader(const ModelWeights& weights)
      : source_(weights.source()), transposed_(weights.source()) {}

  /// Fills `to` with elements from `begin` on of the flattened weight, converted to `type`: fp32, bf16 or
  /// its own.
  void operator()(const StoredWeight& weight, std::uint64_t begin, DType type, std::span<std::byte> to);

 private:
  const WeightSource& source_;
  TransposedRead transposed_;
  std::vector<std::byte> in_;
};

/// Returns whether the folder holds weights in Hugging Face's form: config.json, and model.safetensors or its
/// index.
[[nodiscard]] bool is_model_folder(const std::filesystem::path& folder);

/// ModelWeights::config() of a folder. Throws Error(kCheckpoint).
[[nodiscard]] std::string config_of(const std::filesystem::path& folder);

/// The section `model` of a recipe for the model in a Hugging Face folder, from its config.json. Throws
/// Error(kUsage) where there is no such folder or file, and as describe_model() does.
[[nodiscard]] std::string model_section(const std::filesystem::path& folder);

/// The files beside weights that a checkpoint of them keeps: tokenizer, chat template, generation settings.
/// Throws Error(kCheckpoint).
[[nodiscard]] std::map<std::string, std::string> companions_of(const std::filesystem::path& folder);

}  // namespace echelon::families
