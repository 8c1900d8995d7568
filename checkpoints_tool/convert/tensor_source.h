#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "checkpoint/format/manifest.h"
#include "checkpoint/read/base_note.h"
#include "checkpoint/read/reader.h"
#include "families/base_weights.h"

namespace echelon::tool {

/// The tensors of a checkpoint; once its base is open, also the tensors that the checkpoint leaves out.
/// Copies share the base; the reader must outlive them. read() may be called from several threads.
class TensorSource {
 public:
  /// Makes a source without a base, whatever base.json says.
  TensorSource(const checkpoint::Reader& reader)  // NOLINT(google-explicit-constructor)
      : reader_(&reader) {}
  /// `left_out`: that of base_note_of().
  TensorSource(const checkpoint::Reader& reader, std::optional<checkpoint::BaseNote> left_out)
      : reader_(&reader), note_(std::move(left_out)) {}

  /// Opens the base (empty: where the checkpoint says) and proves that it is the one: it reads all of it,
  /// except where a manifest has the same types. Throws Error(kCheckpoint), Error(kUsage) where the
  /// checkpoint needs none, and Interrupted.
  void open_base(const std::string& folder);

  [[nodiscard]] const checkpoint::Reader& reader() const { return *reader_; }
  /// Returns whether the checkpoint leaves tensors out.
  [[nodiscard]] bool has_base() const { return note_.has_value(); }
  /// A tensor of the checkpoint, or one that it leaves out; null: there is none of this name.
  [[nodiscard]] const checkpoint::TensorInfo* find(const std::string& name) const;
  /// Like Reader::read() and Reader::checksum(). Tensors that the checkpoint leaves out need open_base().
  void read(const std::string& name, std::uint64_t begin, std::uint64_t end, std::span<std::byte> out) const;
  [[nodiscard]] std::uint32_t checksum(const std::string& name) const;

 private:
  const checkpoint::Reader* reader_;
  std::optional<checkpoint::BaseNote> note_;
  std::shared_ptr<const families::BaseWeights> base_;
  std::map<std::string, std::uint32_t> checksums_;  ///< of the base's tensors
};

/// The checksums of one tensor of a base as `info` has it, from a manifest or by reading it.
[[nodiscard]] checkpoint::TensorDigest digest_of(const families::BaseWeights& base,
                                                 const checkpoint::TensorInfo& info);

}  // namespace echelon::tool
