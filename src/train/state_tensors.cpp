#include "train/state_tensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/coverage.h"
#include "checkpoint/format/geometry.h"
#include "shapes/lora.h"
#include "train/device_reader.h"
#include "train/weights/slice_bytes.h"

namespace echelon {
namespace {

using checkpoint::TensorInfo;

const std::string kOptim = "optim/";
const std::string kEma = "ema/";

/// A kind of tensor that exists once per parameter (weights, a state of the optimizer, averages): the name is
/// prefix + parameter + suffix.
struct Kept {
  std::string prefix;
  std::string suffix;
  std::vector<at::Tensor> slices;                  ///< one for each unit
  std::function<bool(const Parameter::Part&)> of;  ///< the parameters for which it exists
  const checkpoint::BaseNote* left_out = nullptr;  ///< null: nothing is left out

  [[nodiscard]] bool holds(const Parameter::Part& part) const {
    return of(part) && (left_out == nullptr || left_out->find(prefix + part.name + suffix) == nullptr);
  }
  /// Returns the pieces of this tensor group in a unit's slice on this rank.
  [[nodiscard]] std::vector<SlicePiece> pieces(const Unit& unit) const {
    std::vector<SlicePiece> held = packed(unit.pieces(), of);
    std::erase_if(held, [&](const SlicePiece& piece) { return !holds(*piece.part); });
    return held;
  }
  [[nodiscard]] TensorInfo info(std::size_t unit, const Parameter::Part& part) const {
    return {prefix + part.name + suffix, dtype_of(slices[unit]), part.shape};
  }
};

std::vector<Kept> everything_kept(const TrainState& state) {
  std::vector<at::Tensor> masters;
  for (const auto& unit : state.model.units()) masters.push_back(unit->master());
  const auto all = [](const Parameter::Part& /*part*/) { return true; };
  const auto trained = [](const Parameter::Part& part) { return !part.frozen; };
  std::vector<Kept> kept{{kModelPrefix, "", std::move(masters), all, state.base ? &*state.base : nullptr}};
  for (const OptimizerState& optim : state.optim.states())
    kept.push_back({kOptim, "/" + optim.name, optim.slices, optim.holds});
  if (state.ema != nullptr) kept.push_back({kEma, "", state.ema->slices(), trained});
  return kept;
}

/// Calls body(tensor, elements, piece) with each piece of a tensor that lies in a slice of this rank.
template <class Body>
void each_piece(const TrainState& state, const Body& body) {
  for (const Kept& kept : everything_kept(state)) {
    for (std::size_t i = 0; i < kept.slices.size(); ++i) {
      for (const SlicePiece& piece : kept.pieces(*state.model.units()[i]))
        body(kept.info(i, *piece.part), kept.slices[i].narrow(0, piece.at, piece.numel()), piece);
    }
  }
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
  std::string kind = low_precision ? "anyprecision_adamw" : "adamw";
  if (states.count("exp_avg") == 0) kind = "sgd";
  if (states.count("square_avg") != 0) kind = "adadelta";
  if (states.count("muon_momentum") != 0) kind = "muon";
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
    throw Error(Code::kCheckpoint, "checkpoint '", folder, "' was trained with optim.kind ",
                optimizer_of(theirs), "; this recipe has ", own,
                "; use the optimizer it was made with, or another run.dir");
  }
  const bool averaged = any_average(reader.tensors());
  if (averaged != (state.ema != nullptr)) {
    throw Error(Code::kCheckpoint, "checkpoint '", folder, "' was made ", averaged ? "with" : "without",
                " averaged weights; this recipe needs ", averaged ? "none" : "them", "; set optim.ema_decay ",
                averaged ? "above" : "to", " 0, or use another run.dir");
  }
}

}  // namespace

std::vector<checkpoint::Slice> slices_of(const TrainState& state) {
  std::vector<checkpoint::Slice> slices;
  if (!state.model.groups().writes_state()) return slices;  // another rank has the same slices
  const auto windows = std::make_shared<ReadWindows>();
  each_piece(state, [&](const TensorInfo& tensor, const at::Tensor& values, const SlicePiece& piece) {
    slices.push_back({.tensor = tensor,
                      .begin = static_cast<std::uint64_t>(piece.begin),
                      .end = static_cast<std::uint64_t>(piece.end),
                      .bytes = {}});
    if (values.is_cpu()) {
      slices.back().bytes = bytes_of(values);
      return;
    }
    slices.back().read = [windows, values](std::uint64_t at, std::span<std::byte> to) {
      windows->read(values, at, to);
    };
  });
  return slices;
}

std::uint64_t bytes_to_save(const TrainState& state) {
  std::uint64_t bytes = 0;
  for (const checkpoint::Slice& slice : slices_of(state))
    bytes += (slice.end - slice.begin) * size_of(slice.tensor.dtype);
  return bytes;
}

namespace {

/// The tensors of a checkpoint; `everything`: also what it leaves out, and what it would hold of parameters
/// that are frozen.
std::vector<TensorInfo> all_tensors(const TrainState& state, bool everything) {
  std::vector<TensorInfo> tensors;
  for (const Kept& kept : everything_kept(state)) {
    for (std::size_t i = 0; i < kept.slices.size(); ++i) {
      for (const Parameter::Part* part : parts_of(state.model.units()[i]->layout().parameters())) {
        if (everything || kept.holds(*part)) tensors.push_back(kept.info(i, *part));
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

/// Explains why a checkpoint lacks a tensor.
std::string missing(const checkpoint::Reader& reader, const TrainState& state, const std::string& tensor) {
  const std::string parameter = parameter_of(tensor);
  const std::string weight = kModelPrefix + parameter;
  const bool left_out = state.base && state.base->find(weight) != nullptr;
  if (tensor.starts_with(kModelPrefix) || (!left_out && reader.find(weight) == nullptr))
    return str("is of a different model: it has no tensor '", tensor,
               "'; use the recipe it was made with, or another run.dir");
  const std::string of_optimizer = kOptim + parameter + "/";
  for (const TensorInfo& other : reader.tensors()) {
    if (tensor.starts_with(kOptim) && other.name.starts_with(of_optimizer))
      return str("was made with other optim.muon.adamw: it has '", other.name, "' and no '", tensor,
                 "'; use the patterns it was made with, or another run.dir");
  }
  const auto& tensors = reader.tensors();
  const bool whole =
      !is_adapter(parameter) &&
      std::any_of(tensors.begin(), tensors.end(), [](const auto& one) { return is_adapter(one.name); });
  return str("was made while parameter '", parameter, "' was frozen, and has no tensor '", tensor,
             "' to go on training it; ",
             whole ? "leave it out of lora.also_train" : "give it factor 0 in optim.lr_factors",
             ", or start another run from these weights (checkpoint.init_from)");
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
    throw Error(Code::kCheckpoint, folder, "is of a different model: ", what,
                "; use the recipe it was made with, or another run.dir");
  };
  const auto compare = [&](const TensorInfo& tensor, const TensorInfo& found) {
    if (found.shape == tensor.shape && found.dtype == tensor.dtype) return;
    differs(str("tensor '", tensor.name, "' is ", name_of(found.dtype), " ",
                checkpoint::shape_text(found.shape), " there and ", name_of(tensor.dtype), " ",
                checkpoint::shape_text(tensor.shape), " in this recipe"));
  };
  for (const TensorInfo& tensor : tensors) {
    const TensorInfo* found = reader.find(tensor.name);
    if (found == nullptr) throw Error(Code::kCheckpoint, folder + missing(reader, state, tensor.name));
    compare(tensor, *found);
  }
  std::map<std::string, TensorInfo> expected;  // what was trained before it was frozen is not read
  for (TensorInfo& tensor : all_tensors(state, true)) expected.emplace(tensor.name, std::move(tensor));
  const auto require_expected = [&](const TensorInfo& tensor) -> const TensorInfo& {
    const auto found = expected.find(tensor.name);
    if (found == expected.end()) differs(str("this recipe has no tensor '", tensor.name, "'"));
    return found->second;
  };
  for (const TensorInfo& tensor : reader.tensors()) (void)require_expected(tensor);
  if (!state.base) return;
  for (const auto& noted : state.base->tensors) compare(require_expected(noted.info), noted.info);
}

std::vector<int> shards_to_load(const checkpoint::Reader& reader, const TrainState& state) {
  std::set<int> shards;
  each_piece(state, [&](const TensorInfo& tensor, const at::Tensor& /*values*/, const SlicePiece& piece) {
    for (const auto& stored : reader.pieces(tensor.name)) {
      const bool read = stored.begin < static_cast<std::uint64_t>(piece.end) &&
                        stored.end > static_cast<std::uint64_t>(piece.begin);
      if (read) shards.insert(static_cast<int>(stored.rank));
    }
  });
  return {shards.begin(), shards.end()};
}

void load_slices(const checkpoint::Reader& reader, TrainState& state) {
  std::vector<checkpoint::Reader::Request> requests;
  std::vector<std::pair<at::Tensor, at::Tensor>> uploads;  // a piece on the device, its host copy
  each_piece(state, [&](const TensorInfo& tensor, const at::Tensor& target, const SlicePiece& piece) {
    const at::Tensor host = target.is_cpu() ? target : at::empty_like(target, at::kCPU);
    requests.push_back({tensor.name, static_cast<std::uint64_t>(piece.begin),
                        static_cast<std::uint64_t>(piece.end), bytes_of(host)});
    if (!target.is_cpu()) uploads.emplace_back(target, host);
  });
  reader.read_many(requests);
  for (const auto& [target, host] : uploads) target.copy_(host);
}

}  // namespace echelon
