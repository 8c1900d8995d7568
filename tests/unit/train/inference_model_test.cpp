#include "train/eval/inference_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/tensor.h"
#include "checkpoint/write/commit.h"
#include "checkpoint/write/shard_write.h"
#include "comm/mpi/mpi_world.h"
#include "support/in_temp_dir.h"
#include "support/unsharded.h"
#include "unit/train/small_model.h"

namespace echelon {
namespace {

using test::materialize;

std::unique_ptr<Model> small_llama(bool tied) {
  return build_model(test::small_options(tied), at::kFloat, at::kCPU);
}

/// A checkpoint of the initial weights of seed 4, kept as `type`.
void save_initial(const std::filesystem::path& checkpoints, bool tied, at::ScalarType type) {
  const auto model = small_llama(tied);
  materialize(*model, 4, type);
  std::vector<checkpoint::Slice> slices;
  std::vector<checkpoint::TensorInfo> tensors;
  for (const Parameter* parameter : model->parameters()) {
    const auto* bytes = static_cast<const std::byte*>(parameter->value.const_data_ptr());
    for (const Parameter::Part& part : parameter->parts()) {
      tensors.push_back({"model/" + part.name, type == at::kFloat ? DType::kF32 : DType::kBF16, part.shape});
      const auto count = static_cast<std::size_t>(part.numel());
      const std::size_t size = count * size_of(tensors.back().dtype);
      slices.push_back({tensors.back(), 0, count, {bytes, size}});
      bytes += size;
    }
  }
  const std::string id = checkpoint::new_save_id();
  const auto folder = checkpoints / checkpoint::step_folder_name(1, id);
  std::filesystem::create_directories(folder);
  checkpoint::write_shard(folder, 0, 1, id, slices);
  checkpoint::commit(folder, {.step = 1, .save_id = id, .tensors = tensors, .trainer_state = "{}"});
}

/// A job of one process.
struct InferenceModel : test::InTempDir {
  /// The model as loaded from a checkpoint of the initial weights.
  [[nodiscard]] std::unique_ptr<ShardedModel> loaded(bool tied, at::ScalarType type = at::kFloat) const {
    std::filesystem::remove_all(dir / "c");
    save_initial(dir / "c", tied, type);
    return load_inference_model(checkpoint::Reader(dir / "c"), small_llama(tied), {*comm});
  }
  std::unique_ptr<Job> job = bootstrap(Launch::kSingle, 10.0);
  std::unique_ptr<Communicator> comm = make_mpi_communicator(*job, 10.0);
};

TEST_F(InferenceModel, HoldsTheCheckpointsWeightsInFp32) {
  for (const bool tied : {false, true}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const auto model = loaded(tied, type);

      const auto expected = small_llama(tied);
      materialize(*expected, 4, type);
      const auto actual = model->model().parameters();
      for (std::size_t i = 0; i < actual.size(); ++i) {
        EXPECT_EQ(actual[i]->value.scalar_type(), at::kFloat);
        const at::Tensor want = expected->parameters()[i]->value.detach().to(at::kFloat);
        EXPECT_TRUE(at::equal(actual[i]->value, want)) << actual[i]->parts()[0].name;
      }
    }
  }
}

TEST_F(InferenceModel, KeepsNothingButWeights) {
  const auto model = loaded(false);
  std::int64_t weights = 0;
  for (const auto& unit : model->units()) weights += unit->layout().slice_numel() * 4;
  EXPECT_EQ(model->slice_bytes(), weights);
}

TEST_F(InferenceModel, ContinuesAsAWholeModelDoes) {
  const auto whole = small_llama(true);
  materialize(*whole, 4);
  const Batch prompts = prompt_batch({{1, 2, 3}, {5}}, at::kCPU);
  const auto decoder = whole->decoder(prompts);
  const GenerateOptions options{.max_new_tokens = 4};
  EXPECT_EQ(generate_together(*loaded(true), prompts, options, *comm), generate(*decoder, 2, options));
}

TEST_F(InferenceModel, RefusesACheckpointOfAnotherModel) {
  save_initial(dir / "c", true, at::kFloat);
  const checkpoint::Reader reader(dir / "c");
  EXPECT_THROW((void)load_inference_model(reader, small_llama(false), {*comm}), Error) << "it has no lm_head";
  ModelOptions wide = test::small_options(true);
  wide.vocab_size = 14;
  EXPECT_THROW((void)load_inference_model(reader, build_model(wide, at::kFloat, at::kCPU), {*comm}), Error);
}

}  // namespace
}  // namespace echelon
