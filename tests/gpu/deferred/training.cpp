#include "gpu/deferred/training.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/str.h"
#include "gpu/deferred/deferred_device.h"
#include "gpu/deferred/stream_communicator.h"
#include "model/model.h"
#include "support/small_models.h"
#include "train/batch_tensors.h"

namespace echelon::test::deferred {
namespace {

constexpr int kSteps = 2;
constexpr std::size_t kPasses = 2;
constexpr std::int64_t kVocabulary = 61;  // of lively_options()

std::vector<std::int64_t> ids(std::int64_t count, std::int64_t number) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 5 * number);
  for (std::int64_t& id : values) id = 2 + id * 7 % (kVocabulary - 2);
  return values;
}

SampleBatch batch_of(const ModelOptions& model, std::int64_t number) {
  SampleBatch batch{.samples = 2, .first_sample = 2 * number};
  if (takes_images(model.kind)) {
    const std::int64_t elements = model.channels * model.image_size * model.image_size;
    batch.image_shape = {model.channels, model.image_size, model.image_size};
    for (std::int64_t i = 0; i < 2 * elements; ++i)
      batch.images.push_back(static_cast<float>((i * 37 + number * 11) % 101) / 50 - 1);
    batch.targets = {number % model.classes, (number + 3) % model.classes};
    return batch;
  }
  batch.ids = ids(24, number);
  if (model.kind == ModelKind::kT5) {
    batch.lengths = {11, 13};
    batch.target_lengths = {6, 4};
    batch.targets = ids(10, number + 1);
    return batch;
  }
  batch.lengths = batch.sample_lengths = {12, 12};
  if (model.kind == ModelKind::kLlama) batch.lengths = {5, 7, 12};
  batch.targets = ids(24, number + 1);
  return batch;
}

}  // namespace

Subject small(const std::string& kind) {
  Subject subject{.model = lively_options(4)};
  ModelOptions& model = subject.model;
  model.kind = choice_of<ModelKind>(kind).value();
  if (kind != "llama") model.kv_heads = model.heads;
  if (kind == "gpt2" || kind == "t5") model.tie_embeddings = true;
  if (kind == "t5") model.layers = model.decoder_layers = 2;
  if (takes_images(model.kind)) {
    model.image_size = kind == "cnn" ? 28 : 12;
    model.patch_size = 4;
    model.channels = kind == "cnn" ? 1 : 3;
    model.classes = 10;
  }
  for (std::int64_t i = 0; i < kSteps * static_cast<std::int64_t>(kPasses); ++i)
    subject.batches.push_back(batch_of(model, i));
  return subject;
}

std::vector<at::Tensor> train(Communicator& comm, at::Device device, const Subject& subject,
                              const EngineOptions& options) {
  constexpr double kLearningRate = 0.05;
  auto built = build_model(subject.model, at::kFloat, device);
  for (Parameter* parameter : built->parameters())
    parameter->freeze([&](const std::string& name) { return matches_any(subject.frozen, name); });
  ShardedModel model(std::move(built), comm, options, 5, device);
  for (std::size_t step = 0; step < kSteps; ++step) {
    const int waits = host_waits();
    model.prefetch();
    for (std::size_t pass = 0; pass < kPasses; ++pass) {
      Batch batch = to_tensors(subject.batches[step * kPasses + pass], device);
      batch.training = true;
      (void)model.accumulate(batch, 1.0 / 24, {pass == 0, pass + 1 == kPasses});
    }
    model.finish_gradients();
    EXPECT_EQ(host_waits(), waits) << "the host waits for a copy";
    for (const auto& unit : model.units()) {
      if (unit->trains()) at::Tensor(unit->master()).sub_(unit->gradient(), kLearningRate);
    }
    model.weights_updated();
  }
  return mapped(model.units(), [](const auto& unit) { return unit->master().cpu().clone(); });
}

std::vector<at::Tensor> train_on_device(const Subject& subject, const EngineOptions& options) {
  const auto comm = make_stream_communicator();
  return train(*comm, device(), subject, options);
}

}  // namespace echelon::test::deferred
