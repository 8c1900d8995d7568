#include "app/engine/plan/stage.h"

#include <utility>

#include "app/engine/run_plan.h"
#include "data/loader.h"
#include "train/weights/outside_base.h"

namespace echelon::app {
namespace {

/// Samples without contents, each as long as the recipe allows.
class FullSamples final : public Loader {
 public:
  explicit FullSamples(const Recipe& recipe) : data_(recipe.data), input_(recipe.model) {
    SampleSize size{data_.seq_len, 0, data_.seq_len};
    if (gives_images(data_.kind)) size = {};
    if (gives_pairs(data_.kind)) size = {data_.seq_len, data_.target_len, data_.target_len};
    if (data_.kind == DataKind::kPreference) size.targets = 1;
    // How many samples there are is unknown without the files; this is enough for any step.
    identify(std::uint64_t{1} << 40, 0, size);
  }

  void append(std::int64_t /*sample*/, SampleBatch& batch) const override {
    if (gives_images(data_.kind)) {
      const data::ImageShape& image = input_.images;
      batch.image_shape = {image.channels, image.size, image.size};
      batch.images.resize(static_cast<std::size_t>(batch.samples * image.numel()));
      return batch.targets.push_back(0);
    }
    batch.ids.resize(batch.ids.size() + static_cast<std::size_t>(data_.seq_len));
    if (data_.kind == DataKind::kPreference) {
      batch.lengths.insert(batch.lengths.end(), {(data_.seq_len + 1) / 2, data_.seq_len / 2});
      batch.sample_lengths.push_back(data_.seq_len);
      batch.reference.resize(batch.lengths.size());
    } else {
      batch.lengths.push_back(data_.seq_len);
    }
    if (gives_pairs(data_.kind)) {
      batch.target_lengths.push_back(data_.target_len);
      batch.targets.resize(batch.targets.size() + static_cast<std::size_t>(data_.target_len));
    } else {
      batch.targets.resize(batch.ids.size());
    }
  }

 private:
  DataOptions data_;
  ModelInput input_;
};

/// Synthetic data, which need no files, are the same as in a run.
std::unique_ptr<Loader> full_samples(const Recipe& recipe) {
  if (is_synthetic(recipe.data.kind))
    return make_loader(recipe.data, recipe.model, static_cast<std::uint64_t>(recipe.run.seed));
  return std::make_unique<FullSamples>(recipe);
}

}  // namespace

Stage::Stage(const Recipe& recipe, Communicator& comm, Communicator& on_host, at::Device device,
             int ranks_per_node)
    : model(with_frozen(build_model(recipe.model, resolve(recipe.precision).types(), device, recipe.lora),
                        recipe.optim),
            comm, engine_options(recipe, ranks_per_node, activity),
            static_cast<std::uint64_t>(recipe.run.seed), device),
      optim(std::make_unique<Optimizer>(recipe.optim, model)),
      ema(make_ema(recipe.optim, model)),
      data(full_samples(recipe)),
      state{.model = model, .optim = *optim, .data = *data, .ema = ema.get()},
      options_{.train = recipe.train,
               .optim = recipe.optim,
               .schedule = recipe.schedule,
               .data = recipe.data,
               .seed = static_cast<std::uint64_t>(recipe.run.seed),
               .activity = activity},
      step_(options_, state, on_host, nobody_) {
  state.loss_scale = LossScale(recipe.precision, model.needs_loss_scale());
  const CheckpointOptions& start = recipe.checkpoint;
  const bool outside = !recipe.model.from.empty() || (!start.init_from.empty() && !start.init_partial);
  if (outside) state.base = base_of(model);  // bring_in() of train.cpp
}

void Stage::step() {
  step_.accumulate();
  (void)step_.finish(options_.optim.lr);
}

}  // namespace echelon::app
