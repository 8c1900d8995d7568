#include "train/state_tensors.h"

#include <ATen/ATen.h>

#include <functional>
#include <set>

#include "base/error.h"
#include "base/str.h"

namespace echelon {
namespace {

using checkpoint::TensorInfo;

std::vector<std::string> names_of(const std::string& part) {
  return {"model/" + part, "optim/" + part + "/exp_avg", "optim/" + part + "/exp_avg_sq"};
}

/// The three slices of unit `i`, in the order of names_of().
std::vector<at::Tensor> slices_of(const TrainState& state, std::size_t i) {
  const AdamW::State& optim = state.optim.states()[i];
  return {state.model.units()[i]->master(), optim.exp_avg, optim.exp_avg_sq};
}

/// f(unit index, piece, k-th of the three tensors, its name).
void for_each_piece(
    const TrainState& state,
    const std::function<void(std::size_t, const SlicePiece&, std::size_t, const std::string&)>& f) {
  for (std::size_t i = 0; i < state.model.units().size(); ++i) {
    for (const SlicePiece& piece : state.model.units()[i]->pieces()) {
      const auto names = names_of(piece.part->name);
      for (std::size_t k = 0; k < names.size(); ++k) f(i, piece, k, names[k]);
    }
  }
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(str(size));
  return "[" + join(sizes, ", ") + "]";
}

}  // namespace

StagedSlices stage_slices(const TrainState& state) {
  StagedSlices staged;
  std::vector<std::vector<at::Tensor>> host;
  for (std::size_t i = 0; i < state.model.units().size(); ++i) {
    std::vector<at::Tensor> tensors = slices_of(state, i);
    for (at::Tensor& tensor : tensors) tensor = tensor.cpu();
    staged.staging.insert(staged.staging.end(), tensors.begin(), tensors.end());
    host.push_back(std::move(tensors));
  }
  for_each_piece(
      state, [&](std::size_t unit, const SlicePiece& piece, std::size_t k, const std::string& name) {
        const float* values = host[unit][k].const_data_ptr<float>() + piece.at;
        staged.slices.push_back(
            {.tensor = {name, DType::kF32, piece.part->shape},
             .begin = static_cast<std::uint64_t>(piece.begin),
             .end = static_cast<std::uint64_t>(piece.end),
             .bytes = std::as_bytes(std::span(values, static_cast<std::size_t>(piece.end - piece.begin)))});
      });
  return staged;
}

std::vector<TensorInfo> global_tensors(const TrainState& state) {
  std::vector<TensorInfo> tensors;
  for (const auto& unit : state.model.units()) {
    for (const Parameter* parameter : unit->layout().parameters()) {
      for (const Parameter::Part& part : parameter->parts()) {
        for (const std::string& name : names_of(part.name))
          tensors.push_back({name, DType::kF32, part.shape});
      }
    }
  }
  return tensors;
}

void require_same_model(const checkpoint::Reader& reader, const TrainState& state) {
  const auto differs = [&](const std::string& what) {
    throw Error(Code::kCheckpoint, str("checkpoint '", reader.folder().string(), "' is of another model: ",
                                       what, "; use the recipe it was made with, or another run.dir"));
  };
  std::set<std::string> expected;
  for (const TensorInfo& tensor : global_tensors(state)) {
    expected.insert(tensor.name);
    const TensorInfo* found = reader.find(tensor.name);
    if (found == nullptr) {
      differs(str("it has no tensor '", tensor.name, "'"));
    } else if (found->shape != tensor.shape || found->dtype != tensor.dtype) {
      differs(str("tensor '", tensor.name, "' is ", name_of(found->dtype), " ", shape_text(found->shape),
                  " there and ", name_of(tensor.dtype), " ", shape_text(tensor.shape), " in this recipe"));
    }
  }
  for (const TensorInfo& tensor : reader.tensors()) {
    if (expected.count(tensor.name) == 0) differs(str("this recipe has no tensor '", tensor.name, "'"));
  }
}

void load_slices(const checkpoint::Reader& reader, TrainState& state) {
  for_each_piece(
      state, [&](std::size_t unit, const SlicePiece& piece, std::size_t k, const std::string& name) {
        const at::Tensor target = slices_of(state, unit)[k].narrow(0, piece.at, piece.end - piece.begin);
        at::Tensor host = target.is_cpu() ? target : at::empty_like(target, at::kCPU);
        reader.read(name, static_cast<std::uint64_t>(piece.begin), static_cast<std::uint64_t>(piece.end),
                    std::as_writable_bytes(
                        std::span(host.mutable_data_ptr<float>(), static_cast<std::size_t>(host.numel()))));
        if (!target.is_cpu()) target.copy_(host);
      });
}

}  // namespace echelon
