#include "optim/muon/matrices.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "base/str.h"
#include "support/refusal.h"
#include "unit/train/small_model.h"

namespace echelon {
namespace {

const OptimOptions kMuon{.kind = OptimKind::kMuon};

/// Names of what Muon updates, each with the rows of its matrices: "q 8", "qkv 8+4+4".
std::set<std::string> taken(const OptimOptions& options, const Model& model) {
  std::set<std::string> found;
  for (const Parameter* parameter : model.parameters()) {
    for (const Parameter::Part& part : parameter->parts()) {
      if (!is_of_muon(options, part)) continue;
      const auto rows = mapped(part.matrices, [](std::int64_t count) { return str(count); });
      found.insert(part.name + " " + join(rows, "+"));
    }
  }
  return found;
}

std::set<std::string> taken(const ModelOptions& options) {
  return taken(kMuon, *build_model(options, at::kFloat, at::kMeta));
}

TEST(MuonMatrices, AreThoseOfInnerLinearLayers) {
  ModelOptions options = test::small_options();
  options.layers = 1;
  const std::string block = "model.layers.0.";
  EXPECT_EQ(taken(options),
            (std::set<std::string>{block + "self_attn.q_proj.weight 8", block + "self_attn.k_proj.weight 4",
                                   block + "self_attn.v_proj.weight 4", block + "self_attn.o_proj.weight 8",
                                   block + "mlp.gate_proj.weight 12", block + "mlp.up_proj.weight 12",
                                   block + "mlp.down_proj.weight 8"}));
  options.kind = ModelKind::kPhi3;
  EXPECT_EQ(
      taken(options),
      (std::set<std::string>{block + "self_attn.qkv_proj.weight 8+4+4", block + "self_attn.o_proj.weight 8",
                             block + "mlp.gate_up_proj.weight 12+12", block + "mlp.down_proj.weight 8"}));
  options.kind = ModelKind::kGpt2;
  options.kv_heads = options.heads;
  const std::string gpt = "transformer.h.0.";
  EXPECT_EQ(taken(options),
            (std::set<std::string>{gpt + "attn.c_attn.weight 8+8+8", gpt + "attn.c_proj.weight 8",
                                   gpt + "mlp.c_fc.weight 12", gpt + "mlp.c_proj.weight 8"}));
}

TEST(MuonMatrices, OfImagesLeaveOutPatchesAndClasses) {
  const ModelOptions cnn{.kind = ModelKind::kCnn, .image_size = 12, .channels = 1, .classes = 3};
  EXPECT_EQ(taken(cnn), (std::set<std::string>{"fc1.weight 128"}));
  const ModelOptions vit{.kind = ModelKind::kDeepVit,
                         .hidden_size = 8,
                         .intermediate_size = 12,
                         .layers = 1,
                         .heads = 2,
                         .image_size = 8,
                         .patch_size = 4,
                         .channels = 3,
                         .classes = 5};
  const std::string block = "transformer.layers.0.";
  EXPECT_EQ(taken(vit),
            (std::set<std::string>{block + "0.fn.fn.to_qkv.weight 8+8+8", block + "0.fn.fn.reattn_weights 2",
                                   block + "0.fn.fn.to_out.0.weight 8", block + "1.fn.fn.net.0.weight 12",
                                   block + "1.fn.fn.net.3.weight 8"}));
}

TEST(MuonMatrices, PatternsAndFrozenTensorsAreLeftOut) {
  OptimOptions options = kMuon;
  options.muon.adamw = {"*_proj.weight"};
  const auto model = build_model(test::small_options(), at::kFloat, at::kMeta);
  EXPECT_TRUE(taken(options, *model).empty());
  EXPECT_TRUE(test::refusal(Code::kUsage, [&] {
                require_matrices(options, model->parameters());
              }).starts_with("optim.kind is muon, but no matrix is left for it"));
  options.muon.adamw = {};
  options.lr_factors = {{"*.self_attn.*", 0}, {"*.layers.1.*", 0}};
  EXPECT_EQ(taken(options, *model).size(), 3U);
  EXPECT_NO_THROW(require_matrices(options, model->parameters()));
  options.kind = OptimKind::kAdamW;
  EXPECT_TRUE(taken(options, *model).empty());
}

TEST(MuonMatrices, EachHasOneOwnerAndNoRankHasMoreWorkThanOneMatrixMore) {
  for (const int size : {1, 2, 3, 8}) {
    std::map<int, double> work;
    double largest = 0;
    const auto first = muon_matrices(kMuon, test::SmallModel(0, size).model);
    for (int rank = 0; rank < size; ++rank) {
      const auto mine = muon_matrices(kMuon, test::SmallModel(rank, size).model);
      ASSERT_EQ(mine.size(), first.size());
      for (std::size_t u = 0; u < mine.size(); ++u) {
        ASSERT_EQ(mine[u].size(), first[u].size());
        for (std::size_t i = 0; i < mine[u].size(); ++i) {
          const MuonMatrix& matrix = mine[u][i];
          EXPECT_EQ(matrix.owner, first[u][i].owner);
          EXPECT_EQ(matrix.at, first[u][i].at);
          const double cost = static_cast<double>(matrix.numel() * std::min(matrix.rows, matrix.columns));
          largest = std::max(largest, cost);
          if (matrix.owner == rank) work[rank] += cost;
        }
      }
    }
    double most = 0;
    double least = work[0];
    for (int rank = 0; rank < size; ++rank) {
      most = std::max(most, work[rank]);
      least = std::min(least, work[rank]);
    }
    EXPECT_LE(most - least, largest) << size << " ranks";
  }
}

}  // namespace
}  // namespace echelon
