#include "families/base_weights.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/json.h"
#include "families/convert.h"

namespace echelon::families {
namespace {

using checkpoint::BaseNote;
using checkpoint::TensorInfo;

constexpr std::string_view kPrefix = "model/";

[[noreturn]] void refuse(const std::string& folder, const std::string& problem) {
  throw Error(Code::kCheckpoint, "'", folder,
              "' is not the base that the adapters were trained on: ", problem);
}

}  // namespace

BaseWeights::BaseWeights(const std::filesystem::path& folder, bool tells) {
  if (!is_model_folder(folder)) {
    leased_.emplace(folder, tells);
    folder_ = std::filesystem::absolute(leased_->folder).lexically_normal().string();
    return;
  }
  weights_.emplace(folder, "cannot read the base");
  if (tells) weights_->check_tied();  // one rank reads both copies
  folder_ = std::filesystem::absolute(folder).lexically_normal().string();
  for (const StoredWeight& weight : weights_->weights()) {
    infos_.push_back(weight.info);
    infos_.back().name.insert(0, kPrefix);
  }
}

BaseNote BaseWeights::place() const {
  return {.folder = folder_, .save_id = leased_ ? leased_->reader.save_id() : ""};
}

const TensorInfo* BaseWeights::find(const std::string& name) const {
  if (leased_) return leased_->reader.find(name);
  const StoredWeight* weight =
      name.starts_with(kPrefix) ? weights_->find(name.substr(kPrefix.size())) : nullptr;
  return weight == nullptr ? nullptr : &infos_[static_cast<std::size_t>(weight - weights_->weights().data())];
}

void BaseWeights::read(const std::string& name, std::uint64_t begin, DType type,
                       std::span<std::byte> to) const {
  if (weights_) {
    WeightReader read(*weights_);
    return read(*weights_->find(name.substr(kPrefix.size())), begin, type, to);
  }
  constexpr std::uint64_t kElementsAtOnce = std::uint64_t{1} << 17;
  const DType stored = leased_->reader.find(name)->dtype;
  const std::uint64_t end = begin + to.size() / size_of(type);
  if (stored == type) return leased_->reader.read(name, begin, end, to);
  std::vector<std::byte> raw;
  for (std::uint64_t at = begin; at < end; at += kElementsAtOnce) {
    const std::uint64_t count = std::min(kElementsAtOnce, end - at);
    raw.resize(count * size_of(stored));
    leased_->reader.read(name, at, at + count, raw);
    convert(raw, stored, to.subspan((at - begin) * size_of(type), count * size_of(type)), type);
  }
}

std::optional<std::uint64_t> BaseWeights::fingerprint(const std::string& name, DType type) const {
  if (!leased_ || leased_->reader.find(name)->dtype != type) return std::nullopt;
  return leased_->reader.fingerprint(name);
}

void BaseWeights::require_same(const BaseNote::Tensor& noted, std::uint64_t found) const {
  if (found == noted.fingerprint) return;
  refuse(folder_, str("tensor '", noted.info.name, "' has the fingerprint ",
                      checkpoint::fingerprint_text(found), " as ", name_of(noted.info.dtype), ", expected ",
                      checkpoint::fingerprint_text(noted.fingerprint),
                      "; put the base back as it was, or name another copy of it"));
}

std::unique_ptr<const BaseWeights> open_base(const BaseNote& note, const BasePlaces& places, bool tells) {
  const auto exists = [](const std::string& folder) {
    std::error_code ignored;
    return !folder.empty() && std::filesystem::exists(folder, ignored);
  };
  const auto place = std::ranges::find_if(places.folders, exists);
  if (place == places.folders.end()) {
    throw Error(Code::kCheckpoint, "the base that the adapters were trained on is gone: there is no '",
                places.folders.front(), "'; put it back, or ", places.how);
  }
  auto base = std::make_unique<const BaseWeights>(*place, tells);
  for (const BaseNote::Tensor& noted : note.tensors) {
    const TensorInfo* found = base->find(noted.info.name);
    if (found == nullptr || found->shape != noted.info.shape || !is_floating(found->dtype)) {
      refuse(base->folder(),
             str("it has ", found == nullptr ? "no" : "another", " tensor '", noted.info.name,
                 "', expected one of shape ", checkpoint::shape_text(noted.info.shape), "; ", places.how));
    }
  }
  return base;
}

}  // namespace echelon::families
