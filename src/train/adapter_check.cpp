#include "train/adapter_check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/agree.h"
#include "shapes/lora.h"

namespace echelon {
namespace {

/// Elements that a device widens to 64 bits at a time.
constexpr std::int64_t kAtOnce = std::int64_t{1} << 22;

template <class Bits>
std::int64_t host_sum(const at::Tensor& values) {
  const auto* bits = static_cast<const Bits*>(values.const_data_ptr());
  return static_cast<std::int64_t>(std::accumulate(bits, bits + values.numel(), std::uint64_t{0}));
}

/// Modulo 2^64, of elements of two or four bytes. On the host without temporaries, which would count as the
/// run's memory.
std::int64_t sum_of_bits(const at::Tensor& values) {
  const bool wide = values.element_size() == 4;
  if (values.is_cpu()) return wide ? host_sum<std::uint32_t>(values) : host_sum<std::uint16_t>(values);
  const at::Tensor bits = values.view(wide ? at::kInt : at::kShort);
  at::Tensor total = at::zeros({}, bits.options().dtype(at::kLong));
  for (std::int64_t done = 0; done < bits.numel(); done += kAtOnce)
    total += bits.narrow(0, done, std::min(kAtOnce, bits.numel() - done)).sum(at::kLong);
  return total.item<std::int64_t>();
}

/// The sum of the bits of every frozen element in this rank's slices. One changed element changes it.
std::int64_t sum_of_frozen(const ShardedModel& model) {
  std::uint64_t sum = 0;
  for (const auto& unit : model.units()) {
    for (const SlicePiece& piece : unit->pieces()) {
      if (piece.part->frozen)
        sum += static_cast<std::uint64_t>(sum_of_bits(unit->master().narrow(0, piece.at, piece.numel())));
    }
  }
  return static_cast<std::int64_t>(sum);
}

bool is_trained_b(const Parameter::Part& part) {
  return !part.frozen && part.name == adapter_b(module_of(module_of(part.name)));
}

}  // namespace

AdapterCheck::AdapterCheck(const ShardedModel& model, Communicator& comm)
    : model_(model), comm_(comm), frozen_(sum_of_frozen(model)) {}

void AdapterCheck::updated() {
  if (looked_) return;
  looked_ = true;
  std::vector<std::string> modules;
  std::vector<double> largest;  // of each B, over all ranks
  for (const auto& unit : model_.units()) {
    for (const Parameter::Part* part : parts_of(unit->layout().parameters())) {
      if (!is_trained_b(*part)) continue;
      modules.emplace_back(module_of(module_of(part->name)));
      double mine = 0;
      for (const SlicePiece& piece : unit->pieces()) {
        if (piece.part == part)
          mine = unit->master().narrow(0, piece.at, piece.numel()).abs().max().item<double>();
      }
      largest.push_back(mine);
    }
  }
  comm_.all_reduce(largest.data(), largest.size(), DType::kF64, ReduceOp::kMax, "adapters").wait();
  std::vector<std::string> idle;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (largest[i] == 0) idle.push_back(modules[i]);
  }
  agree(comm_, "adapters", [&] {
    if (comm_.rank() != 0 || idle.empty()) return;
    throw Error(Code::kTraining, "after an update, ", idle.size(), " of ", modules.size(),
                " adapters are still zero, such as that of '", idle.front(),
                "': no gradient reaches them; leave them out of lora.modules");
  });
}

void AdapterCheck::require_frozen() {
  const bool same = sum_of_frozen(model_) == frozen_;
  agree(comm_, "frozen weights", [&] {
    if (same) return;
    throw Error::internal("weights that LoRA freezes have changed; this step is not saved");
  });
}

}  // namespace echelon
