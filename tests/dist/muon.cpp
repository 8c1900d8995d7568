// Muon on real ranks: the same gradients give the same bits for every number of ranks and under every
// strategy, and as much is sent as is promised. Groups of 1 to all ranks are split from one job, each beside
// one rank alone.
#include "optim/muon/muon.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/philox.h"
#include "base/str.h"
#include "comm/local_communicator.h"
#include "comm/mpi/mpi_world.h"
#include "dist/ranks.h"
#include "optim/optimizer.h"

namespace echelon {
namespace {

using testing::ranks;

// Odd sizes: slices cut matrices anywhere.
const ModelOptions kModel{.vocab_size = 13,
                          .hidden_size = 20,
                          .intermediate_size = 27,
                          .layers = 3,
                          .heads = 2,
                          .kv_heads = 1,
                          .max_positions = 8};
const OptimOptions kMuon{.kind = OptimKind::kMuon, .lr = 0.02, .lr_factors = {{"*.layers.1.*", 0.5}}};

/// Weights and momentum of matrices that one rank of a group holds, after three updates.
class Moved {
 public:
  Moved(Communicator& comm, const ShardOptions& shard)
      : model_(build_model(kModel, at::kFloat, at::kCPU), comm, {.shard = shard}, 3, at::kCPU),
        optimizer_(std::make_unique<Optimizer>(kMuon, model_)) {
    for (int number = 1; number <= 3; ++number) {
      for (const auto& unit : model_.units()) {
        for (const SlicePiece& piece : unit->pieces()) fill(piece, unit->gradient(), number);
      }
      const std::uint64_t before = comm.sent_bytes();
      optimizer_->step(number, kMuon.lr, number == 2 ? 0.3 : 1.0);
      sent_ = comm.sent_bytes() - before;
    }
  }

  /// f(name, first element, values) for each piece.
  void for_each(const std::function<void(const std::string&, std::int64_t, const at::Tensor&)>& f) const {
    const OptimizerState& momentum = optimizer_->states().back();
    for (std::size_t u = 0; u < model_.units().size(); ++u) {
      const Unit& unit = *model_.units()[u];
      for (const SlicePiece& piece : packed(unit.pieces(), momentum.holds))
        f(piece.part->name + "/momentum", piece.begin, momentum.slices[u].narrow(0, piece.at, piece.numel()));
      for (const SlicePiece& piece : unit.pieces()) {
        if (momentum.holds(*piece.part))
          f(piece.part->name, piece.begin, unit.master().narrow(0, piece.at, piece.numel()));
      }
    }
  }

  /// Bytes that this rank sent in the last update.
  [[nodiscard]] std::uint64_t sent() const { return sent_; }

  /// Twice the units with matrices in bf16, less what stays on the rank.
  [[nodiscard]] std::uint64_t promised() const {
    const auto others = static_cast<std::uint64_t>(model_.groups().shard().size() - 1);
    std::uint64_t bytes = 0;
    for (const auto& unit : model_.units()) {
      if (unit->name().starts_with("model.layers."))
        bytes += 2 * 2 * others * static_cast<std::uint64_t>(unit->layout().slice_numel());
    }
    return bytes;
  }

 private:
  static void fill(const SlicePiece& piece, const at::Tensor& gradient, int number) {
    const std::uint64_t key = stream_key(5, str(number, "/", piece.part->name));
    at::Tensor values = gradient.narrow(0, piece.at, piece.numel());
    for (std::int64_t i = 0; i < piece.numel(); ++i)
      values[i] = normal_at(key, static_cast<std::uint64_t>(piece.begin + i));
  }

  ShardedModel model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::uint64_t sent_ = 0;
};

/// Whole tensors by name, of one rank alone.
std::map<std::string, at::Tensor> alone() {
  LocalCommunicator comm;
  std::map<std::string, at::Tensor> all;
  Moved(comm, {}).for_each(
      [&](const std::string& name, std::int64_t, const at::Tensor& values) { all[name] = values.clone(); });
  return all;
}

void expect_bits(const Moved& moved, const std::map<std::string, at::Tensor>& right) {
  moved.for_each([&](const std::string& name, std::int64_t begin, const at::Tensor& values) {
    EXPECT_TRUE(at::equal(values, right.at(name).narrow(0, begin, values.numel()))) << name;
  });
}

TEST(Muon, BitsDoNotDependOnTheNumberOfRanks) {
  const auto comm = make_mpi_communicator(*ranks().job, 30.0);
  const auto right = alone();
  EXPECT_EQ(right.size(), 2U * 3 * 7);
  for (int size = 1; size <= comm->size(); ++size) {
    const auto group = comm->split([size](int rank) { return rank < size ? 0 : 1; });
    if (comm->rank() >= size) continue;
    SCOPED_TRACE(str(size, " ranks"));
    const Moved moved(*group, {});
    expect_bits(moved, right);
    EXPECT_EQ(moved.sent(), moved.promised());
  }
}

TEST(Muon, EveryStrategyGivesTheSameBits) {
  const auto comm = make_mpi_communicator(*ranks().job, 30.0);
  const auto right = alone();
  for (const std::string_view strategy : kWords<ShardStrategy>) {
    SCOPED_TRACE(strategy);
    ShardOptions shard{.strategy = choice_of<ShardStrategy>(std::string(strategy)).value()};
    if (is_hybrid(shard.strategy)) shard.mesh.shard = comm->size() / 2;
    const Moved moved(*comm, shard);
    expect_bits(moved, right);
    EXPECT_EQ(moved.sent(), moved.promised());
  }
}

}  // namespace
}  // namespace echelon
