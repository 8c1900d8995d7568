#include "app/engine/run_plan.h"

#include <ATen/Parallel.h>

#include "base/log.h"
#include "base/net/node_layout.h"
#include "base/str.h"
#include "model/ops/device_kernels.h"
#include "optim/optimizer.h"
#include "shapes/llama_family.h"

namespace echelon::app {
namespace {

std::string describe(const Compute& compute) {
  if (compute.accelerator) {
    const DeviceMemory memory = compute.accelerator->memory(compute.device.index());
    return str(compute.shared ? "ranks share GPUs, collectives go through the host: " : "one GPU per rank: ",
               compute.accelerator->device_name(compute.device.index()), ", ", human_bytes(memory.free_bytes),
               " of ", human_bytes(memory.total_bytes), " free");
  }
  return str("cpu, ", at::get_num_threads(), " compute thread(s) per rank");
}

std::string precisions(const Precision& p) {
  const auto name = [](at::ScalarType type) { return name_of(dtype_of(type)); };
  return str(name(p.param), " compute", p.fp8 ? ", fp8 products, " : ", ", name(p.reduce), " reduction, ",
             name(p.master), " masters");
}

std::string attention_of(const Compute& compute, at::ScalarType type, const ModelOptions& model,
                         std::int64_t seq_len) {
  if (!compute.accelerator || !is_llama_family(model.kind)) return {};
  return ops::attention_backend(compute.device, type,
                                {seq_len, model.heads, model.kv_heads, head_size(model)});
}

/// Ranks of a node, which are a shard group of a hybrid strategy without a mesh: the same number on all
/// ranks.
int ranks_per_node(const ShardOptions& shard, const JobInfo& job) {
  if (const auto each = NodeLayout(job.hosts).ranks_of_each()) return *each;
  if (is_hybrid(shard.strategy) && shard.mesh.shard == 0 && shard.mesh.replicate == 0) {
    throw Error(Code::kUsage, "shard.strategy is '", word_of(shard.strategy),
                "', and the nodes have different numbers of ranks; expected equal ones: start "
                "as many on each (--ntasks-per-node), or set shard.mesh.shard");
  }
  return job.local_size;
}

}  // namespace

RunPlan plan_run(const Recipe& recipe, const Compute& compute, const JobInfo& job,
                 const std::shared_ptr<Activity>& activity) {
  const Precision precision = resolve(recipe.precision);
  require_precision(compute, recipe.precision);
  limit_rounding(recipe.precision);
  return {.seed = static_cast<std::uint64_t>(recipe.run.seed),
          .precision = precision,
          .attention = attention_of(compute, precision.param, recipe.model, recipe.data.seq_len),
          .engine = engine_options(recipe, ranks_per_node(recipe.shard, job), activity)};
}

EngineOptions engine_options(const Recipe& recipe, int ranks_per_node,
                             const std::shared_ptr<Activity>& activity) {
  return {.shard = recipe.shard,
          .precision = recipe.precision,
          .activations = recipe.activation_checkpointing,
          .reduce_at_end = recipe.train.reduce_gradients == ReduceGradients::kLastMicroBatch,
          .ranks_per_node = ranks_per_node,
          .activity = activity};
}

void describe_run(const Job& job, const Compute& compute, const ShardedModel& model, const Loader& data,
                  const Recipe& recipe, const RunPlan& plan, std::int64_t resident_before) {
  const JobInfo& info = job.info();
  log::info(str("echelon ", ECHELON_VERSION, ": run ", recipe.run.name, ", ", counted(info.size, "rank"),
                " on ", counted(info.num_nodes, "node"), " (", info.launcher, "), ", describe(compute)));
  const ValidationDataOptions& valid = recipe.data.validation;
  const bool validates = recipe.train.validate_every_steps > 0 || recipe.train.validate_every_epochs > 0;
  if (!validates && (!valid.path.empty() || !valid.sources.empty() || valid.samples > 0))
    log::warn(
        "data.validation names data, but train.validate_every_steps and train.validate_every_epochs are 0: "
        "nothing is validated");
  const StateBytes bytes_of = state_bytes(recipe.optim);
  std::int64_t of_optimizer = 0;   // bytes on this rank
  std::int64_t with_gradient = 0;  // whole
  std::int64_t trained = 0;        // whole
  for (const auto& unit : model.units()) {
    for (const SlicePiece& piece : unit->pieces())
      of_optimizer += piece.part->frozen ? 0 : piece.numel() * bytes_of(*piece.part);
    with_gradient += unit->trains() ? unit->layout().numel() : 0;
    trained += unit->plan().trained_numel();
  }
  log::info(str("model ", word_of(recipe.model.kind), ": ",
                human_count(static_cast<std::uint64_t>(model.model().numel())), " parameters",
                trained == model.model().numel()
                    ? ""
                    : str(", of which ", human_count(static_cast<std::uint64_t>(trained)), " are trained,"),
                " in ", counted(model.units().size(), "unit"), "; ", word_of(recipe.shard.strategy), " over ",
                model.groups().describe(), "; ", precisions(model.precision()), "; ",
                human_bytes(model.slice_bytes() + of_optimizer),
                " of weights, gradients and optimizer state per rank"));
  for (const std::string& line : describe_units(model.plan(), model.groups().shard().size(), bytes_of)) {
    log::note("  " + line);
  }
  const std::int64_t passes = recipe.train.global_batch_size / (recipe.train.micro_batch_size * info.size);
  if (passes > 1 && recipe.train.reduce_gradients == ReduceGradients::kLastMicroBatch) {
    log::note(str("gradients are reduced once per ", passes, " micro-batches, which takes ",
                  human_bytes(with_gradient * 4), " per rank for their sums"));
  }
  if (!plan.attention.empty()) log::note("attention: " + plan.attention);
  log::note(str("memory of the process before the model: ", human_bytes(resident_before)));
  const SampleSize size = data.sample_size();
  log::info(str("data: ", human_count(static_cast<std::uint64_t>(data.samples_per_epoch())), " samples",
                size.tokens > 0 ? str(" of ", size.tokens, " tokens") : "", " per epoch; ",
                recipe.train.global_batch_size, " per step"));
}

}  // namespace echelon::app
