#include "train/state_tensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "base/str.h"
#include "train/device_reader.h"

namespace echelon {
namespace {

using checkpoint::TensorInfo;

const std::string kModel = "model/";
const std::string kOptim = "optim/";
const std::string kEma = "ema/";

DType dtype_of(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat) return DType::kF32;
  if (tensor.scalar_type() == at::kBFloat16) return DType::kBF16;
  throw Error(Code::kCheckpoint,
              str("state of type ", c10::toString(tensor.scalar_type()), "; checkpoints hold fp32 and bf16"));
}

/// A kind of tensor that exists once per parameter (weights, a state of the optimizer, averages): the name is
/// prefix + parameter + suffix.
struct Kept {
  std::string prefix;
  std::string suffix;
  std::vector<at::Tensor> slices;  ///< one for each unit
  bool of_frozen = false;          ///< exists also for parameters that are frozen
  /// What a unit's slice holds of it on this rank.
  [[nodiscard]] const std::vector<SlicePiece>& pieces(const Unit& unit) const {
    return of_frozen ? unit.pieces() : unit.trained_pieces();
  }
  [[nodiscard]] TensorInfo info(std::size_t unit, const Parameter::Part& part) const {
    return {prefix + part.name + suffix, dtype_of(slices[unit]), part.shape};
  }
};

std::vector<Kept> everything_kept(const TrainState& state) {
  std::vector<at::Tensor> masters;
  for (const auto& unit : state.model.units()) masters.push_back(unit->master());
  std::vector<Kept> kept{{kModel, "", std::move(masters), true}};
  for (const OptimizerState& optim : state.optim.states())
    kept.push_back({kOptim, "/" + optim.name, optim.slices});
  if (state.ema != nullptr) kept.push_back({kEma, "", state.ema->slices()});
  return kept;
}

/// The bytes of a piece of a slice in host memory.
std::span<std::byte> bytes_of(const at::Tensor& slice, const SlicePiece& piece) {
  const std::size_t size = size_of(dtype_of(slice));
  return {static_cast<std::byte*>(slice.mutable_data_ptr()) + static_cast<std::size_t>(piece.at) * size,
          static_cast<std::size_t>(piece.end - piece.begin) * size};
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(str(size));
  return "[" + join(sizes, ", ") + "]";
}

/// Names and types of an optimizer's states, which identify the optimizer.
using States = std::map<std::string, DType>;

States states_in(const std::vector<TensorInfo>& tensors) {
  States states;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name.starts_with(kOptim))
      states[tensor.name.substr(tensor.name.rfind('/') + 1)] = tensor.dtype;
  }
  return states;
}

std::string optimizer_of(const States& states) {
  std::vector<std::string> texts;
  bool low_precision = states.count("compensation") != 0;
  for (const auto& [name, type] : states) {
    texts.push_back(str(name, " ", name_of(type)));
    low_precision = low_precision || type != DType::kF32;
  }
  const std::string kind = states.count("square_avg") != 0 ? "adadelta"
                           : states.count("exp_avg") == 0  ? "sgd"
                           : low_precision                 ? "anyprecision_adamw"
                                                           : "adamw";
  return kind + " (" + (texts.empty() ? "no state" : join(texts, ", ")) + ")";
}

bool any_average(const std::vector<TensorInfo>& tensors) {
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name.starts_with(kEma)) return true;
  }
  return false;
}

/// Checks differences that a key of the recipe explains, so the error can name the key.
void require_same_optimizer(const checkpoint::Reader& reader, const TrainState& state,
                            const std::vector<TensorInfo>& expected) {
  const std::string folder = reader.folder().string();
  const States theirs = states_in(reader.tensors());
  const States ours = states_in(expected);
  if (theirs != ours) {
    const std::string own =
        std::string(word_of(state.optim.kind())) + optimizer_of(ours).substr(optimizer_of(ours).find(' '));
    throw Error(Code::kCheckpoint,
                str("checkpoint '", folder, "' was trained with optim.kind ", optimizer_of(theirs),
                    "; this recipe has ", own, "; use the optimizer it was made with, or another run.dir"));
  }
  const bool averaged = any_average(reader.tensors());
  if (averaged != (state.ema != nullptr)) {
    throw Error(Code::kCheckpoint,
                str("checkpoint '", folder, "' was made ", averaged ? "with" : "without",
                    " averaged weights; this recipe needs ", averaged ? "none" : "them",
                    "; set optim.ema_decay ", averaged ? "above" : "to", " 0, or use another run.dir"));
  }
}

}  // namespace

std::vector<checkpoint::Slice> slices_of(const TrainState& state) {
  std::vector<checkpoint::Slice> slices;
  if (!state.model.groups().writes_state()) return slices;  // another rank has the same slices
  const auto windows = std::make_shared<ReadWindows>();
  for (const Kept& kept : everything_kept(state)) {
    for (std::size_t i = 0; i < kept.slices.size(); ++i) {
      const at::Tensor& slice = kept.slices[i];
      for (const SlicePiece& piece : kept.pieces(*state.model.units()[i])) {
        slices.push_back({.tensor = kept.info(i, *piece.part),
                          .begin = static_cast<std::uint64_t>(piece.begin),
                          .end = static_cast<std::uint64_t>(piece.end),
                          .bytes = {}});
        if (slice.is_cpu()) {
          slices.back().bytes = bytes_of(slice, piece);
          continue;
        }
        slices.back().read = [windows, values = slice.narrow(0, piece.at, piece.end - piece.begin)](
                                 std::uint64_t at, std::span<std::byte> to) {
          windows->read(values, at, to);
        };
      }
    }
  }
  return slices;
}

std::uint64_t bytes_to_save(const TrainState& state) {
  std::uint64_t bytes = 0;
  if (!state.model.groups().writes_state()) return bytes;
  for (const Kept& kept : everything_kept(state)) {
    for (const at::Tensor& slice : kept.slices) bytes += slice.nbytes();
  }
  return bytes;
}

namespace {

/// Those of a checkpoint; `of_frozen`: also what it would hold of parameters that are frozen.
std::vector<TensorInfo> all_tensors(const TrainState& state, bool of_frozen) {
  std::vector<TensorInfo> tensors;
  for (const Kept& kept : everything_kept(state)) {
    for (std::size_t i = 0; i < kept.slices.size(); ++i) {
      for (const Parameter* parameter : state.model.units()[i]->layout().parameters()) {
        for (const Parameter::Part& part : parameter->parts()) {
          if (of_frozen || kept.of_frozen || !part.frozen) tensors.push_back(kept.info(i, part));
        }
      }
    }
  }
  return tensors;
}

/// "optim/<parameter>/exp_avg", "ema/<parameter>" -> "<parameter>".
std::string parameter_of(const std::string& tensor) {
  const std::string name = tensor.substr(tensor.find('/') + 1);
  return tensor.starts_with(kOptim) ? name.substr(0, name.rfind('/')) : name;
}

/// Of a tensor that a checkpoint lacks.
std::string missing(const checkpoint::Reader& reader, const std::string& tensor) {
  const std::string parameter = parameter_of(tensor);
  if (tensor.starts_with(kModel) || reader.find(kModel + parameter) == nullptr)
    return str("is of a different model: it has no tensor '", tensor,
               "'; use the recipe it was made with, or another run.dir");
  return str("was made while parameter '", parameter, "' was frozen, and has no tensor '", tensor,
             "' to go on training it; give it factor 0 in optim.lr_factors, or start another run from these "
             "weights (checkpoint.init_from)");
}

}  // namespace

std::vector<TensorInfo> global_tensors(const TrainState& state) {
  return all_tensors(state, false);
}

void require_same_model(const checkpoint::Reader& reader, const TrainState& state) {
  const std::vector<TensorInfo> tensors = global_tensors(state);
  require_same_optimizer(reader, state, tensors);
  const std::string folder = str("checkpoint '", reader.folder().string(), "' ");
  const auto differs = [&](const std::string& what) {
    throw Error(Code::kCheckpoint, str(folder, "is of a different model: ", what,
                                       "; use the recipe it was made with, or another run.dir"));
  };
  for (const TensorInfo& tensor : tensors) {
    const TensorInfo* found = reader.find(tensor.name);
    if (found == nullptr) throw Error(Code::kCheckpoint, folder + missing(reader, tensor.name));
    if (found->shape != tensor.shape || found->dtype != tensor.dtype) {
      differs(str("tensor '", tensor.name, "' is ", name_of(found->dtype), " ", shape_text(found->shape),
                  " there and ", name_of(tensor.dtype), " ", shape_text(tensor.shape), " in this recipe"));
    }
  }
  std::set<std::string> expected;  // what was trained before it was frozen is not read
  for (const TensorInfo& tensor : all_tensors(state, true)) expected.insert(tensor.name);
  for (const TensorInfo& tensor : reader.tensors()) {
    if (expected.count(tensor.name) == 0) differs(str("this recipe has no tensor '", tensor.name, "'"));
  }
}

std::vector<int> shards_to_load(const checkpoint::Reader& reader, const TrainState& state) {
  std::set<int> shards;
  for (const Kept& kept : everything_kept(state)) {
    for (std::size_t i = 0; i < kept.slices.size(); ++i) {
      for (const SlicePiece& piece : kept.pieces(*state.model.units()[i])) {
        for (const auto& range : reader.stored_ranges(kept.info(i, *piece.part).name)) {
          const bool read = range.begin < static_cast<std::uint64_t>(piece.end) &&
                            range.end > static_cast<std::uint64_t>(piece.begin);
          if (read) shards.insert(range.rank);
        }
      }
    }
  }
  return {shards.begin(), shards.end()};
}

void load_slices(const checkpoint::Reader& reader, TrainState& state) {
  std::vector<checkpoint::Reader::Request> requests;
  std::vector<std::pair<at::Tensor, at::Tensor>> uploads;  // device slice, its host copy
  for (const Kept& kept : everything_kept(state)) {
    for (std::size_t i = 0; i < kept.slices.size(); ++i) {
      const at::Tensor& target = kept.slices[i];
      const at::Tensor host = target.is_cpu() ? target : at::zeros_like(target, at::kCPU);
      if (!target.is_cpu()) uploads.emplace_back(target, host);
      for (const SlicePiece& piece : kept.pieces(*state.model.units()[i])) {
        requests.push_back({kept.info(i, *piece.part).name, static_cast<std::uint64_t>(piece.begin),
                            static_cast<std::uint64_t>(piece.end), bytes_of(host, piece)});
      }
    }
  }
  reader.read_many(requests);
  for (const auto& [target, host] : uploads) target.copy_(host);
}

namespace {

at::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return at::kFloat;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kF16:
      return at::kHalf;
    case DType::kF64:
      return at::kDouble;
    default:
      throw Error(Code::kCheckpoint,
                  str("weights of type ", name_of(dtype), "; expected a floating-point type"));
  }
}

/// The checkpoint's tensor with the same name and shape; null if there is none.
const TensorInfo* same_weight(const checkpoint::Reader& reader, const Parameter::Part& part) {
  const TensorInfo* found = reader.find(kModel + part.name);
  return found != nullptr && found->shape == part.shape ? found : nullptr;
}

}  // namespace

WeightMatch match_weights(const checkpoint::Reader& reader, const ShardedModel& model) {
  WeightMatch match;
  std::set<std::string> taken;
  for (const auto& unit : model.units()) {
    for (const Parameter* parameter : unit->layout().parameters()) {
      for (const Parameter::Part& part : parameter->parts()) {
        const TensorInfo* other = reader.find(kModel + part.name);
        if (same_weight(reader, part) != nullptr) {
          taken.insert(kModel + part.name);
        } else {
          match.fresh.push_back(str(part.name, ' ', shape_text(part.shape),
                                    other == nullptr ? "" : str(", there ", shape_text(other->shape))));
        }
      }
    }
  }
  for (const TensorInfo& tensor : reader.tensors()) {
    if (tensor.name.starts_with(kModel) && taken.count(tensor.name) == 0)
      match.dropped.push_back(str(tensor.name.substr(kModel.size()), ' ', shape_text(tensor.shape)));
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
  return join(texts, ", ");
}

void load_weights(const checkpoint::Reader& reader, ShardedModel& model) {
  const at::NoGradGuard no_grad;
  std::vector<checkpoint::Reader::Request> in_place;
  for (const auto& unit : model.units()) {
    const at::Tensor& slice = unit->master();
    for (const SlicePiece& piece : unit->pieces()) {
      const TensorInfo* found = same_weight(reader, *piece.part);
      if (found == nullptr) continue;
      const TensorInfo& info = *found;
      const auto begin = static_cast<std::uint64_t>(piece.begin);
      const auto end = static_cast<std::uint64_t>(piece.end);
      if (slice.is_cpu() && dtype_of(slice) == info.dtype) {
        in_place.push_back({info.name, begin, end, bytes_of(slice, piece)});
        continue;
      }
      const at::Tensor values = at::empty({piece.end - piece.begin}, scalar_type_of(info.dtype));
      reader.read(info.name, begin, end,
                  {static_cast<std::byte*>(values.mutable_data_ptr()), values.nbytes()});
      slice.narrow(0, piece.at, values.numel()).copy_(values);
    }
  }
  reader.read_many(in_place);
  model.weights_changed();
}

}  // namespace echelon
