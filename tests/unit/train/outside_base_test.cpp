#include "train/weights/outside_base.h"

#include <gtest/gtest.h>

#include "support/matches.h"
#include "support/refusal.h"
#include "support/temp_dir.h"
#include "train/restore.h"
#include "unit/train/small_run.h"

namespace echelon {
namespace {

struct LoraRun : test::SmallRun {
  using SmallRun::SmallRun;

  void begin_from(const LoraRun& other, bool partial = false) {
    (void)load_initial_weights({.init_from = other.folder.root().string(), .init_partial = partial}, comm,
                               state);
  }
  /// All elements of the parameters whose name contains `part`.
  [[nodiscard]] std::vector<at::Tensor> values(const std::string& part) const {
    std::vector<at::Tensor> found;
    for (const auto& unit : model.units()) {
      for (const SlicePiece& piece : unit->pieces()) {
        if (piece.part->name.find(part) != std::string::npos)
          found.push_back(unit->master().narrow(0, piece.at, piece.numel()));
      }
    }
    return found;
  }
};

bool saves(const LoraRun& run, const std::string& name) {
  const auto all = global_tensors(run.state);
  return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.name == "model/" + name; });
}

void expect_same(const LoraRun& a, const LoraRun& b, const std::string& part) {
  const auto of_a = a.values(part);
  const auto of_b = b.values(part);
  ASSERT_FALSE(of_a.empty());
  for (std::size_t i = 0; i < of_a.size(); ++i) EXPECT_TRUE(at::equal(of_a[i], of_b[i])) << part;
}

const LoraOptions kLora{.rank = 2};
const LoraOptions kMore{.rank = 2, .also_train = {"lm_head"}};

/// Runs with adapters on a base.
struct OutsideBase : ::testing::Test {
  OutsideBase() { base.save(1); }
  test::TempDir dir;
  LoraRun base{dir.path() / "base"};
};

TEST_F(OutsideBase, WhatIsTrainedLaterIsInLaterCheckpoints) {
  LoraRun first(dir.path() / "run", kLora, 4);
  first.begin_from(base);
  EXPECT_FALSE(saves(first, "lm_head.weight"));
  first.save(1);
  LoraRun more(dir.path() / "run", kMore, 5);
  ASSERT_TRUE(restore_latest({}, more.folder, more.comm, more.state));
  expect_same(base, more, "lm_head");
  expect_same(first, more, "lora_A");
  EXPECT_TRUE(saves(more, "lm_head.weight"));
  EXPECT_FALSE(saves(more, "model.norm.weight"));
  for (const at::Tensor& head : more.values("lm_head")) head.add_(1);
  more.save(2);
  LoraRun fewer(dir.path() / "run", kLora, 6);
  ASSERT_TRUE(restore_latest({}, fewer.folder, fewer.comm, fewer.state));
  expect_same(more, fewer, "lm_head");
  EXPECT_TRUE(saves(fewer, "lm_head.weight")) << "the base has another";
  LoraRun next(dir.path() / "next", kLora, 7);
  next.begin_from(fewer);
  expect_same(more, next, "model");
  EXPECT_TRUE(saves(next, "lm_head.weight")) << "the base has another";
  EXPECT_EQ(next.state.base->folder, first.state.base->folder);
}

TEST_F(OutsideBase, OfWhatIsTrainedLaterAnOptimizerLacksTheState) {
  const OptimOptions momentum{.kind = OptimKind::kSgd, .momentum = 0.9};
  LoraRun first(dir.path() / "run", kLora, 4, momentum);
  first.begin_from(base);
  first.save(1);
  LoraRun more(dir.path() / "run", kMore, 5, momentum);
  EXPECT_MENTIONS(test::refusal(Code::kCheckpoint,
                                [&] { return restore_latest({}, more.folder, more.comm, more.state); }),
                  "while parameter 'lm_head.weight' was frozen",
                  "; leave it out of lora.also_train, or start another run");
}

TEST_F(OutsideBase, IsThereOnlyWhereItIsWholeAndElsewhere) {
  EXPECT_TRUE(base_of(base.model).tensors.empty()) << "no adapters";
  LoraRun alone(dir.path() / "alone", kLora, 4);
  EXPECT_TRUE(saves(alone, "model.norm.weight"));
  LoraRun partial(dir.path() / "partial", kLora, 4);
  partial.begin_from(base, true);
  EXPECT_TRUE(saves(partial, "model.norm.weight"));
  partial.save(1);
  LoraRun on_it(dir.path() / "on-it", kLora, 4);
  on_it.begin_from(partial);
  EXPECT_FALSE(saves(on_it, "model.norm.weight")) << "the other run's checkpoint is the base";
  on_it.save(1);
  const LoraRun& from = partial;
  expect_same(from, on_it, "model");
  LoraRun again(dir.path() / "on-it", kLora, 5);
  ASSERT_TRUE(restore_latest({}, again.folder, again.comm, again.state));
  expect_same(from, again, "model");
}

TEST_F(OutsideBase, HasTheFingerprintsOfAManifest) {
  LoraRun run(dir.path() / "run", kLora, 4);
  run.begin_from(base);
  const checkpoint::Reader reader(base.folder.root());
  ASSERT_EQ(run.state.base->tensors.size(), reader.tensors().size());
  for (const auto& tensor : run.state.base->tensors)
    EXPECT_EQ(tensor.fingerprint, reader.fingerprint(tensor.info.name)) << tensor.info.name;
}

}  // namespace
}  // namespace echelon
