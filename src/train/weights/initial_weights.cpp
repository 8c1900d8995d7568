#include "train/weights/initial_weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "families/convert.h"
#include "shapes/lora.h"
#include "train/weights/slice_bytes.h"

namespace echelon {

using checkpoint::TensorInfo;

WeightMatch match_weights(const checkpoint::Reader& reader, const std::optional<checkpoint::BaseNote>& base,
                          const ShardedModel& model) {
  WeightMatch match;
  std::set<std::string> taken;
  const auto& all = reader.tensors();
  const bool without_adapters =
      std::none_of(all.begin(), all.end(), [](const TensorInfo& tensor) { return is_adapter(tensor.name); });
  for (const auto& unit : model.units()) {
    for (const Parameter::Part* part : parts_of(unit->layout().parameters())) {
      const TensorInfo* other = reader.find(kModelPrefix + part->name);
      const auto* noted = base ? base->find(kModelPrefix + part->name) : nullptr;
      if (noted != nullptr) other = &noted->info;
      if (other != nullptr && other->shape == part->shape) {
        taken.insert(kModelPrefix + part->name);
      } else if (without_adapters && is_adapter(part->name)) {
        match.new_adapters.push_back(part->name);
      } else {
        match.fresh.push_back(
            str(part->name, ' ', checkpoint::shape_text(part->shape),
                other == nullptr ? "" : str(", there ", checkpoint::shape_text(other->shape))));
      }
    }
  }
  for (const TensorInfo& tensor : reader.tensors()) {
    if (tensor.name.starts_with(kModelPrefix) && taken.count(tensor.name) == 0)
      match.dropped.push_back(
          str(tensor.name.substr(kModelPrefix.size()), ' ', checkpoint::shape_text(tensor.shape)));
  }
  match.taken.assign(taken.begin(), taken.end());
  return match;
}

std::string describe(const WeightMatch& match) {
  const auto named = [](const std::vector<std::string>& all) {
    constexpr std::size_t kNamed = 6;
    const std::size_t shown = std::min(all.size(), kNamed);
    const std::vector<std::string> first(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shown));
    return str(" (", join(first, ", "), all.size() > shown ? str(" and ", all.size() - shown, " more") : "",
               ")");
  };
  std::vector<std::string> texts;
  if (!match.dropped.empty())
    texts.push_back(str(match.dropped.size(), " of its tensors are not in this model", named(match.dropped)));
  if (!match.fresh.empty())
    texts.push_back(str(match.fresh.size(), " of this model's tensors start fresh", named(match.fresh)));
  if (!match.new_adapters.empty())
    texts.push_back(str("it has none of this model's adapters", named(match.new_adapters)));
  return join(texts, ", ");
}

void load_weights(const checkpoint::Reader& reader, ShardedModel& model) {
  const at::NoGradGuard no_grad;
  std::vector<checkpoint::Reader::Request> in_place;
  for (const auto& unit : model.units()) {
    const at::Tensor& slice = unit->master();
    for (const SlicePiece& piece : unit->pieces()) {
      const TensorInfo* found = reader.find(kModelPrefix + piece.part->name);
      if (found == nullptr || found->shape != piece.part->shape) continue;
      const TensorInfo& info = *found;
      const auto begin = static_cast<std::uint64_t>(piece.begin);
      const auto end = static_cast<std::uint64_t>(piece.end);
      const at::Tensor target = slice.narrow(0, piece.at, piece.numel());
      if (slice.is_cpu() && dtype_of(slice) == info.dtype) {
        in_place.push_back({info.name, begin, end, bytes_of(target)});
        continue;
      }
      if (!families::is_floating(info.dtype))
        throw Error(Code::kCheckpoint, "weights of type ", name_of(info.dtype),
                    "; expected a floating-point type");
      const at::Tensor values = at::empty({piece.numel()}, scalar_type_of(info.dtype));
      reader.read(info.name, begin, end, bytes_of(values));
      target.copy_(values);
    }
  }
  reader.read_many(in_place);
  model.weights_changed();
}

namespace {

const families::StoredWeight& stored_weight(const families::ModelWeights& weights,
                                            const Parameter::Part& part) {
  const families::StoredWeight* found = weights.find(part.name);
  if (found != nullptr && found->info.shape == part.shape) return *found;
  throw Error(Code::kCheckpoint, "'", weights.folder().string(), "' has no tensor '", part.name, "' ",
              checkpoint::shape_text(part.shape), ", which this recipe's model needs");
}

}  // namespace

void load_weights(const families::ModelWeights& weights, ShardedModel& model) {
  constexpr std::int64_t kAtOnce = std::int64_t{1} << 21;
  const at::NoGradGuard no_grad;
  families::WeightReader read(weights);
  for (const auto& unit : model.units()) {
    const at::Tensor& slice = unit->master();
    const DType type = dtype_of(slice);
    at::Tensor window;  // of what is not in host memory
    if (!slice.is_cpu()) window = at::empty({kAtOnce}, slice.options().device(at::kCPU));
    for (const SlicePiece& piece : unit->pieces()) {
      if (is_adapter(piece.part->name)) continue;  // a folder of a model has none: they start as they are
      const families::StoredWeight& weight = stored_weight(weights, *piece.part);
      if (slice.is_cpu()) {
        read(weight, static_cast<std::uint64_t>(piece.begin), type,
             bytes_of(slice.narrow(0, piece.at, piece.numel())));
        continue;
      }
      for (std::int64_t at = piece.begin; at < piece.end; at += kAtOnce) {
        const at::Tensor values = window.narrow(0, 0, std::min(kAtOnce, piece.end - at));
        read(weight, static_cast<std::uint64_t>(at), type, bytes_of(values));
        slice.narrow(0, piece.at + at - piece.begin, values.numel()).copy_(values);
      }
    }
  }
  model.weights_changed();
}

}  // namespace echelon
