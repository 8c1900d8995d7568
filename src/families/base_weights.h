#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/read/base_note.h"
#include "checkpoint/read/leased_reader.h"
#include "families/model_weights.h"

namespace echelon::families {

/// Weights of a model in a checkpoint or in a Hugging Face folder, by the names of a checkpoint
/// ("model/..."). While it exists no run removes the checkpoint.
class BaseWeights {
 public:
  /// A Hugging Face folder, a step folder, or a run folder for its newest commit. `tells`: see LeasedReader;
  /// it also checks tied weights. Throws Error(kCheckpoint).
  explicit BaseWeights(const std::filesystem::path& folder, bool tells = true);

  /// Null: it is a Hugging Face folder, and weights() is not null.
  [[nodiscard]] const checkpoint::Reader* checkpoint() const { return leased_ ? &leased_->reader : nullptr; }
  [[nodiscard]] const ModelWeights* weights() const { return weights_ ? &*weights_ : nullptr; }

  /// The absolute path of the step folder or Hugging Face folder.
  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// Returns the place of the weights, as a checkpoint notes it, without tensors.
  [[nodiscard]] checkpoint::BaseNote place() const;

  /// Null: there is none.
  [[nodiscard]] const checkpoint::TensorInfo* find(const std::string& name) const;
  /// Reads elements of the flattened tensor, which must exist, from `begin` on, as `type`: fp32, bf16 or its
  /// own. May be called from several threads; a call needs 17 MiB. Throws Error(kCheckpoint).
  void read(const std::string& name, std::uint64_t begin, DType type, std::span<std::byte> to) const;
  /// The fingerprint of the whole tensor as `type`, if that is known without reading.
  [[nodiscard]] std::optional<std::uint64_t> fingerprint(const std::string& name, DType type) const;

  /// Throws Error(kCheckpoint) unless the tensor, whose fingerprint was `found`, is the one of the note.
  void require_same(const checkpoint::BaseNote::Tensor& noted, std::uint64_t found) const;

 private:
  std::optional<checkpoint::LeasedReader> leased_;
  std::optional<ModelWeights> weights_;
  std::vector<checkpoint::TensorInfo> infos_;  ///< of weights_, by their places there
  std::string folder_;
};

/// The places to look for a base.
struct BasePlaces {
  std::vector<std::string> folders;  ///< the first that exists is taken; empty ones are left out
  std::string how;                   ///< how a user names another one: "name its folder with --base"
};

/// Opens the base of `note`. Throws Error(kCheckpoint) where no place exists, or what lies there lacks a
/// tensor of the note.
[[nodiscard]] std::unique_ptr<const BaseWeights> open_base(const checkpoint::BaseNote& note,
                                                           const BasePlaces& places, bool tells = true);

}  // namespace echelon::families
