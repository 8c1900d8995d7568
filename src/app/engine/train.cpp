#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/engine/accelerator.h"
#include "app/engine/attachments.h"
#include "app/engine/checkpoint_review.h"
#include "app/engine/consolidate_run.h"
#include "app/engine/cpu_rate.h"
#include "app/engine/engine.h"
#include "app/engine/forecast_check.h"
#include "app/engine/rank_error.h"
#include "app/engine/rank_life.h"
#include "app/engine/run_plan.h"
#include "app/engine/threads.h"
#include "app/report_error.h"
#include "base/checksum/crc32c.h"
#include "base/files/new_file.h"
#include "base/log.h"
#include "base/process/descriptors.h"
#include "base/process/process.h"
#include "base/str.h"
#include "comm/agree.h"
#include "comm/mpi/mpi_world.h"
#include "data/loader.h"
#include "model/ops/products/compiled_products.h"
#include "recipe/check/check.h"
#include "shard/memory/host_memory.h"
#include "train/eval/reference_logps.h"
#include "train/loop.h"
#include "train/measure/memory_report.h"
#include "train/memory/memory_saves.h"
#include "train/restore.h"

namespace echelon::app {
namespace {

/// Ranks with different recipes would wait for each other in different collectives. Comparing a checksum is
/// enough.
void require_same_recipe(Job& job, const Recipe& recipe) {
  const std::string text = to_yaml(recipe);
  const std::uint32_t mine = crc32c(text);
  const auto bytes = std::as_bytes(std::span(&mine, 1));
  const auto all = job.exchange("recipe", Blob(bytes.begin(), bytes.end()));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw Error(Code::kPeer, "rank ", rank, " (", job.info().hosts[rank],
                ") runs a different recipe than rank 0 (", job.info().hosts[0],
                "): start all ranks with the same file and overrides");
  }
}

/// Converts epochs to steps, once the data says how many samples an epoch has. Conflicts with the schedule
/// can only be checked then.
TrainOptions in_steps(const Recipe& recipe, const TrainState& state) {
  Recipe resolved = recipe;
  resolved.train = with_steps(recipe.train, {state.data.samples_per_epoch(),
                                             recipe.train.global_batch_size,
                                             {state.step, state.position.next_sample}});
  if (recipe.train.epochs == 0) return resolved.train;
  for (const recipe::Conflict& conflict : recipe::conflicts(resolved))
    throw Error(Code::kUsage, conflict.text);
  return resolved.train;
}

LoopOptions loop_options(const Recipe& r, const TrainOptions& train, const RunPlan& plan,
                         const Compute& compute, TextOptions text) {
  LoopOptions options{.train = train,
                      .optim = r.optim,
                      .schedule = r.schedule,
                      .metrics = r.metrics,
                      .data = r.data,
                      .seed = plan.seed,
                      .adapters = r.lora.rank > 0,
                      .text = std::move(text),
                      .activity = plan.engine.activity};
  if (compute.accelerator) {
    options.peak_flops = compute.accelerator->peak_flops(compute.device.index());
    options.peak_device_bytes = [compute] { return compute.accelerator->peak_bytes(compute.device.index()); };
  }
  return options;
}

/// Longest wait in one exchange while the ranks find each other. In a restart in place on nodes of the last
/// start these have just shown that they work: what takes longer is stuck (an exchange of Slurm's PMIx was,
/// once in 280 restarts), and another restart is quicker. A new node has its libraries to load first.
double bootstrap_timeout_s(const ClusterOptions& cluster) {
  constexpr double kInPlace_s = 30;
  const auto timeout_s = static_cast<double>(cluster.timeout_s);
  const bool known_nodes = restarts_in_place() && environment_variable("ECHELON_NEW_NODES").empty();
  return known_nodes ? std::min(timeout_s, kInPlace_s) : timeout_s;
}

/// Opens the run folder and this rank's log in it. Collective. Rank 0 goes first, because it creates the
/// folder. What an earlier command has recorded there is left alone until this start trains; a job that
/// starts its run again records all of it.
void open_run_folder(const RunOptions& run, Communicator& comm, const std::string& host, RankLife& life) {
  const bool lead = comm.rank() == 0;
  const auto open = [&] {
    life.folder = std::make_unique<RunFolder>(
        run.dir, lead,
        RunFolderRules{.allow_foreign = run.allow_foreign_folder, .after_loss = restarts_in_place()});
    life.held = life.folder->has_record() && !is_later_start_of_job();
  };
  agree(comm, "run folder", [&] {
    if (lead) open();
  });
  agree(comm, "logs", [&] {
    if (!lead) open();
    log::init(str("rank ", comm.rank(), "/", comm.size(), " ", host), lead, life.folder->log(comm.rank()),
              life.held);
  });
}

/// Restores the run's newest checkpoint, and returns where it was. A new run gets initial weights, and loads
/// those of checkpoint.init_from, if any. Collective.
Restored bring_in(const Recipe& recipe, std::uint64_t seed, const RunFolder& folder, Communicator& comm,
                  TrainState& state, CheckpointReview& review, RunMemory* memory) {
  const bool lead = comm.rank() == 0;
  const std::string& base = recipe.model.from.empty() ? recipe.checkpoint.init_from : recipe.model.from;
  const auto inspect = [&review](const checkpoint::Reader& reader) { return review.inspect(reader); };
  if (auto restored = restore_latest(recipe.checkpoint, folder, comm, state, inspect, memory, base)) {
    if (!lead) return std::move(*restored);
    log::info(str("resumed from step ", state.step,
                  restored->memory.empty() ? "" : str(" (memory of ", restored->memory, ")")));
    if (!review.changes().empty())
      log::info(str("changed since that checkpoint: ", recipe::describe(review.changes())));
    return std::move(*restored);
  }
  // Not before: a checkpoint would overwrite them.
  state.model.initialize(seed);
  if (state.ema != nullptr) state.ema->restart();
  if (lead && recipe.lora.rank > 0 && base.empty())
    log::warn("neither model.from nor checkpoint.init_from is set: the adapters' base is random");
  if (!recipe.model.from.empty()) {
    load_folder_weights(recipe.model.from, comm, state, [&](const auto& read) {
      review.inherit(read);
      read.model().tell_of_training();
    });
    if (lead) log::info(str("weights of '", base, "' (model.from)"));
  } else if (!base.empty()) {
    const WeightMatch match = load_initial_weights(recipe.checkpoint, comm, state, inspect);
    if (lead)
      log::info(str("weights of '", base, "'; step 0: ", match.taken.size(),
                    " tensors are taken; optimizer, schedule and data start anew"));
  }
  return {};
}

/// The inputs of a run, and the files that it adds to its checkpoints.
struct Inputs {
  std::unique_ptr<Loader> data;
  std::vector<ValidationSource> validation;
  RunTexts texts;                             ///< empty on ranks that need none
  std::unique_ptr<RunEvaluation> evaluation;  ///< null: no tasks
  std::map<std::string, std::string> files;   ///< of rank 0, which writes them

  [[nodiscard]] std::vector<Loader*> loaders() const {
    std::vector<Loader*> all{data.get()};
    for (const auto& source : validation) all.push_back(source.loader.get());
    return all;
  }
};

/// Collective: if one rank cannot open an input, all ranks throw.
Inputs open_inputs(const Recipe& recipe, std::uint64_t seed, Communicator& comm) {
  Inputs inputs;
  const bool lead = comm.rank() == 0;
  if (lead) log::note("starting: opening the data");
  agree(comm, "data", [&] {
    inputs.data = make_loader(recipe.data, recipe.model, seed);
    inputs.validation = make_validation_sources(recipe.data, recipe.model, seed);
    if (lead || asks_for_texts(recipe)) inputs.texts = run_texts(recipe);
    inputs.evaluation = evaluation_of(recipe, inputs.texts);
    if (lead) inputs.files = attachments_of(recipe, inputs.texts);
  });
  return inputs;
}

/// The model with its optimizer and averaged weights.
struct Trainee {
  std::unique_ptr<ShardedModel> model;
  std::unique_ptr<Optimizer> optim;
  std::unique_ptr<Ema> ema;
};

/// Collective: an error, such as a pattern that matches nothing, is thrown on all ranks and reported once.
Trainee make_trainee(const OptimOptions& optim, const RunPlan& plan, at::Device device,
                     std::unique_ptr<Model> model, Communicator& comm, Communicator& between_devices) {
  Trainee made;
  agree(comm, "model and optimizer", [&] {
    EngineOptions options = plan.engine;
    options.initialize = false;  // bring_in() does
    made.model = std::make_unique<ShardedModel>(with_frozen(std::move(model), optim), between_devices,
                                                options, plan.seed, device);
    made.optim = std::make_unique<Optimizer>(optim, *made.model);
    made.ema = make_ema(optim, *made.model);
  });
  return made;
}

/// Returns whether all steps of the recipe are done; rank 0 logs it. Then `memory` (null: none) is emptied.
/// Collective.
bool is_complete(const TrainState& state, std::int64_t steps, RankLife& life, bool lead, bool changed,
                 RunMemory* memory) {
  if (state.step < steps) return false;
  if (memory != nullptr) memory->finish();
  if (lead) {
    // The run's last start may have ended without saying so.
    if (life.ledger->last_end() != StartEnd::kFinished) begin_record(life);
    log::info(str("complete: step ", state.step, " of ", steps,
                  "; nothing to do (raise train.steps to continue)",
                  changed ? "; the changes to the recipe have no effect on it" : ""));
  }
  return true;
}

/// Announces a slow phase of the start before it begins, so that a log that stands still is explained.
void tell(bool lead, const std::string& doing) {
  if (lead) log::info("starting: " + doing);
}

/// Trains from state.step to the end of the run or a stop. Collective.
void train_on(const Recipe& recipe, LoopOptions options, TrainState& state, Checkpointer& checkpointer,
              Communicator& comm, const Inputs& inputs, MemorySaves* memory, RankLife& life) {
  const bool lead = comm.rank() == 0;
  const std::int64_t steps = options.train.steps;
  MetricsFile metrics;
  agree(comm, "run files", [&] {  // as late as possible: a refused start must not change the run's files
    if (!lead) return;
    life.trains = true;
    metrics = MetricsFile(
        life.folder->metrics(), state.step,
        metrics::ExportOptions{options.metrics.tensorboard, options.metrics.prometheus, options.metrics.csv});
    fs::publish_file(life.folder->root() / "recipe.yaml", to_yaml(recipe, &life.origins), Code::kEnvironment);
  });
  begin_record(life);
  if (state.model.device().is_cpu()) {  // a GPU states its own
    options.peak_flops =
        cpu_product_rate(state.model.precision().param, life.folder->root() / "logs/cpu_rates.json", comm);
  }
  AgreedStop stop(life.signal, comm, [&life] { return life.deadline.reason_to_stop({}); });
  life.start.done("prepare");
  if (lead) log::note(life.start.describe());
  Progress progress(lead ? Progress::detect() : Progress::Style::kNone, state.step + 1, steps);
  tell(lead, str("step ", state.step + 1, ", which also allocates the memory of a step"));
  const LoopParts parts{.state = state,
                        .checkpointer = checkpointer,
                        .comm = comm,
                        .stop = stop,
                        .folder = *life.folder,
                        .progress = progress,
                        .metrics = metrics,
                        .deadline = life.deadline,
                        .ledger = *life.ledger,
                        .validation = inputs.validation,
                        .evaluation = inputs.evaluation.get(),
                        .memory = memory};
  if (TrainLoop(options, parts).run() == RunEnd::kStopped && lead)
    log::info(
        str("stopped after step ", state.step, " as requested; run the same command again to continue"));
}

constexpr const char* kOutOfMemory =
    "out of memory; the run's logs/ show what used it. Lower train.micro_batch_size, or see docs/tuning.md";
constexpr int kStopped = static_cast<int>(Code::kRequeue);

std::unique_ptr<Communicator> connect(const Recipe& recipe, Job& job, RankLife& life) {
  if (job.info().size > 1) tell(job.info().rank == 0, "connecting the ranks");
  // A rank may also be lost while they connect.
  life.peers = watch_peers(recipe.cluster, recipe.run.dir, job, life);
  auto comm = make_mpi_communicator(job, static_cast<double>(recipe.cluster.timeout_s), life.watch);
  life.signal.take_back();  // from the libraries of MPI
  life.start.done("connect");
  return comm;
}

/// The run of one rank, from top to bottom; each line uses only what is above it. Refusals come before
/// anything slow or lasting. After each slow phase, requests to stop are agreed on.
int run_rank(const Recipe& recipe, const ProfileRange& profiled, Job& job, RankLife& life) {
  validate_for_size(recipe, job.info().size);
  require_same_recipe(job, recipe);
  set_threads(recipe.train.threads_per_rank, job.info());
  const Compute compute = choose_compute(recipe.train, job);
  const RunPlan plan = plan_run(recipe, compute, job.info(), life.watch.activity);
  if (job.info().rank == 0)
    life.forecast = std::make_unique<ForecastCheck>(recipe.train, job.info(), compute);
  const auto comm = connect(recipe, job, life);
  const bool lead = comm->rank() == 0;
  open_run_folder(recipe.run, *comm, job.info().host, life);
  const RunFolder& folder = *life.folder;
  if (lead) open_ledger(job, life);
  life.start.done("folder");
  const std::int64_t resident_before = resident_bytes();
  AgreedStop stop(life.signal, *comm);
  if (stops_after("opening the run folder", stop)) return kStopped;
  auto model = build_model(recipe.model, plan.precision.types(), compute.device, recipe.lora);
  Inputs inputs = open_inputs(recipe, plan.seed, *comm);
  life.start.done("data");
  if (stops_after("opening the data", stop)) return kStopped;
  // Weights and gradients use the device communicator; agreement between ranks uses MPI between hosts.
  life.between_devices =
      device_communicator(compute, job, static_cast<double>(recipe.cluster.timeout_s), life.watch);
  const Trainee trainee = make_trainee(recipe.optim, plan, compute.device, std::move(model), *comm,
                                       life.between_devices ? *life.between_devices : *comm);
  TrainState state{
      .model = *trainee.model, .optim = *trainee.optim, .data = *inputs.data, .ema = trainee.ema.get()};
  state.loss_scale = LossScale(recipe.precision, trainee.model->needs_loss_scale());
  const LastWords last_words(state, *comm);
  if (lead) describe_run(job, compute, *trainee.model, *inputs.data, recipe, plan, resident_before);
  if (stops_after("building the model", stop)) return kStopped;
  life.start.done("model");
  tell(lead, "looking for a checkpoint to resume from");
  CheckpointReview review(recipe, folder, std::move(inputs.files), state.base);
  const std::unique_ptr<RunMemory> memory = open_memory(recipe.checkpoint, folder, job.info(), *comm);
  const Restored restored = bring_in(recipe, plan.seed, folder, *comm, state, review, memory.get());
  note_resumption(life, state.step);
  const TextOptions text = review.settle_text(std::move(inputs.texts), state.step > 0, *comm);
  const TrainOptions train = in_steps(recipe, state);
  settle_reference(inputs.loaders(), state, recipe.train, *comm, stop, review.reference());
  const auto on_saved = [&life](const Checkpointer::Saved& saved) { note_save(life, saved); };
  Checkpointer checkpointer(recipe.checkpoint, folder, *comm, review.files(), on_saved, restored.known);
  RunMemory* const from = restored.memory.empty() ? nullptr : memory.get();
  if (stops_before_training(recipe.cluster, stop, checkpointer, state, train.steps, from, *comm, life))
    return kStopped;
  if (is_complete(state, train.steps, life, lead, !review.changes().empty(), memory.get()))
    return agree_on_wait(recipe.checkpoint.consolidate, *comm, life);
  if (lead) review.tell_jump_of_rate(state, train.steps);
  LoopOptions options = loop_options(recipe, train, plan, compute, text);
  options.profile = profile::ahead(profiled, state.step, train.steps, lead);
  if (life.forecast) options.on_measured = life.forecast->listen(folder.root());
  std::unique_ptr<MemorySaves> saves;
  if (memory) saves = std::make_unique<MemorySaves>(recipe.checkpoint, *memory, state, review.files());
  train_on(recipe, options, state, checkpointer, *comm, inputs, saves.get(), life);
  saves.reset();
  if (memory) memory->finish();
  return state.step < train.steps ? kStopped : agree_on_wait(recipe.checkpoint.consolidate, *comm, life);
}

int consolidate_or_tell(const Recipe& recipe, const StopSignal& signal, const std::string& who) {
  try {
    consolidate_run(recipe, recipe.run.dir);
    return 0;
  } catch (...) {
    if (signal.requested() == nullptr) return report_error(current_error(kOutOfMemory), who);
    log::info(str("stopped while consolidating, by ", signal.requested(),
                  ": the run is complete; start the same command again to consolidate it"));
    return static_cast<int>(Code::kRequeue);
  }
}

int train(const TrainRequest& request) {
  log::show(request.console);
  const Recipe& recipe = request.loaded.recipe;
  RankLife life{.origins = request.loaded.origins};
  keep_freed_memory();
  allow_more_descriptors();
  ops::keep_compiled_products(ops::products_worth_keeping(
      recipe.train.micro_batch_size, std::max(recipe.data.seq_len, recipe.data.target_len),
      kernels::bf16_products()));
  const auto job = bootstrap(request.launch, bootstrap_timeout_s(recipe.cluster));
  try {
    const int status = run_rank(recipe, request.profile, *job, life);
    life.between_devices.reset();  // waits for the ranks of this node
    // Heartbeats sign off first; MPI must end before PMIx (finish_mpi()). Consolidation may take long and
    // needs none of them.
    life.peers.reset();
    finish_mpi();
    job->finish();
    const bool lead = job->info().rank == 0;
    const int end = status == 0 && lead ? consolidate_or_tell(recipe, life.signal, where(*job)) : status;
    // srun --wait ends the remaining tasks a while after others exit. So the other ranks stay until rank 0
    // has consolidated.
    if (life.waits_for_lead) life.folder->wait_for_release(life.signal);
    // The exit code is decided: a late signal must not change it.
    life.signal.ignore_further();
    close_ledger(life, end);
    log::flush();
    return end;
  } catch (...) {
    return leave_after(current_error(kOutOfMemory), *job, life);
  }
}

}  // namespace
}  // namespace echelon::app

int echelon_engine_train(const echelon::app::TrainRequest& request) {
  try {
    return echelon::app::train(request);
  } catch (const echelon::Error& error) {
    return echelon::app::report_error(error, "");
  }
}
