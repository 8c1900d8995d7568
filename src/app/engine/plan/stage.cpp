#include "app/engine/plan/stage.h"

#include "app/engine/plan/full_samples.h"
#include "app/engine/run_plan.h"
#include "train/weights/outside_base.h"

namespace echelon::app {

Stage::Stage(const Recipe& recipe, Communicator& comm, Communicator& on_host, at::Device device,
             int ranks_per_node)
    : model(with_frozen(build_model(recipe.model, resolve(recipe.precision).types(), device, recipe.lora),
                        recipe.optim),
            comm, engine_options(recipe, ranks_per_node, activity),
            static_cast<std::uint64_t>(recipe.run.seed), device),
      optim(make_optimizer(recipe.optim, model)),
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
