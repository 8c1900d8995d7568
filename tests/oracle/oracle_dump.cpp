// usage: oracle_dump REQUESTS.json      (alone, or as the ranks of an mpirun step)
//
// Writes what the engine computes to raw files, for scripts that compute the same with other implementations:
//   {"cases": [{"name": "untied", "mode": "gradients", "recipe": "x.yaml", "overrides": ["model.heads=3"],
//               "output": "folder", ...}]}
// Modes:
//   gradients   one optimizer step's worth of forward and backward passes, as the training loop makes them.
//               "perturb": standard deviation of noise that is added to all initial weights first.
//               "training": with dropout. Preferences: the reference has the weights before the noise.
//               -> rank-R.json (pieces, loss, config), rank-R.weights.f32, rank-R.gradients.f32, ids.i64 and
//               the other parts of the samples
//   weights     the initial weights only. -> rank-R.json, rank-R.weights.f32
//   generate    continues "prompts", lists of ids that the ranks share out, as "beams", "max_new_tokens",
//               "length_penalty" and "end_ids" say. -> rank-R.json, rank-R.weights.f32, rank-R.tokens.json
//   ids         samples ["first", "first" + "rows") of the recipe's data. -> ids.i64
//   logits      of the token after each of those samples (of pairs: the first of the target), and the
//   samples'
//               summed loss, with the weights of the checkpoint "checkpoint". -> logits.f32, loss.f32,
//               ids.i64
#include <ATen/ATen.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/philox.h"
#include "base/str.h"
#include "checkpoint/read/reader.h"
#include "data/loader.h"
#include "families/model_family.h"
#include "job.h"
#include "optim/parameter_groups.h"
#include "recipe/load.h"
#include "shard/sharded_model.h"
#include "train/batch_tensors.h"
#include "train/eval/inference_model.h"
#include "train/eval/reference_logps.h"

namespace echelon {
namespace {

using Json = nlohmann::json;
using Path = std::filesystem::path;

template <class T>
void write_raw(const Path& path, const T* values, std::int64_t count) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values), count * static_cast<std::int64_t>(sizeof(T)));
  file.close();
  if (!file) throw Error(Code::kUsage, str("cannot write '", path.string(), "'"));
}

void write_tensor(const Path& path, const at::Tensor& values) {
  write_raw(path, values.contiguous().const_data_ptr<float>(), values.numel());
}

/// What every mode starts from.
struct Case {
  Json request;
  Recipe recipe;
  Path output;
};

Case open_case(const Json& request) {
  const auto overrides = request.value("overrides", std::vector<std::string>{});
  Case opened{request, load_recipe(request.at("recipe").get<std::string>(), overrides).recipe,
              request.at("output").get<std::string>()};
  std::filesystem::create_directories(opened.output);
  return opened;
}

std::unique_ptr<Loader> loader_of(const Recipe& recipe) {
  return make_loader(recipe.data, recipe.model, static_cast<std::uint64_t>(recipe.run.seed));
}

ShardedModel build(const Recipe& recipe, Communicator& comm) {
  const EngineOptions options{
      .shard = recipe.shard,
      .precision = recipe.precision,
      .activations = recipe.activation_checkpointing,
      .reduce_at_end = recipe.train.reduce_gradients == ReduceGradients::kLastMicroBatch};
  return {with_frozen(build_model(recipe.model, resolve(recipe.precision).types(), at::kCPU, recipe.lora),
                      recipe.optim),
          comm, options, static_cast<std::uint64_t>(recipe.run.seed), at::kCPU};
}

/// Moves every weight by noise that depends on its tensor's name and its index only: norms' weights of
/// exactly one would hide a missing factor.
void perturb(const ShardedModel& model, double deviation) {
  for (const auto& unit : model.units()) {
    for (const SlicePiece& piece : unit->pieces()) {
      const std::uint64_t key = stream_key(7, "perturb/" + piece.part->name);
      at::Tensor noise = at::empty({piece.end - piece.begin});
      float* values = noise.mutable_data_ptr<float>();
      for (std::int64_t i = piece.begin; i < piece.end; ++i) {
        values[i - piece.begin] =
            static_cast<float>(deviation) * normal_at(key, static_cast<std::uint64_t>(i));
      }
      unit->master().narrow(0, piece.at, noise.numel()).add_(noise);
    }
  }
}

/// Where each piece lies in the files of write_slices(), in elements.
Json pieces_of(const ShardedModel& model) {
  Json pieces = Json::array();
  std::int64_t unit_begin = 0;
  for (const auto& unit : model.units()) {
    for (const SlicePiece& piece : unit->pieces()) {
      pieces.push_back({{"name", piece.part->name},
                        {"shape", piece.part->shape},
                        {"begin", piece.begin},
                        {"end", piece.end},
                        {"at", unit_begin + piece.at}});
    }
    unit_begin += unit->layout().slice_numel();
  }
  return pieces;
}

at::Tensor slices(const ShardedModel& model, const at::Tensor& (Unit::*which)() const) {
  std::vector<at::Tensor> all;
  for (const auto& unit : model.units()) {
    const at::Tensor& slice = (unit.get()->*which)();  // no gradient where all is frozen
    all.push_back(slice.numel() > 0 ? slice.to(at::kFloat) : at::zeros({unit->layout().slice_numel()}));
  }
  return at::cat(all);
}

/// `loss`: that of the step, every prediction's counted `scale` times.
void write_index(const Case& c, const ShardedModel& model, const Communicator& comm, double loss,
                 double scale) {
  const Json index{{"rank", comm.rank()},
                   {"ranks", comm.size()},
                   {"replicas", model.groups().replicas()},
                   {"slice_bytes", model.slice_bytes()},
                   {"loss", loss},
                   {"scale", scale},
                   {"config", Json::parse(families::hugging_face_config(c.recipe.model))},
                   {"pieces", pieces_of(model)}};
  std::ofstream(c.output / str("rank-", comm.rank(), ".json")) << index.dump();
}

void write_samples(const Case& c, const SampleBatch& batch) {
  const auto write = [&](const char* name, const std::vector<std::int64_t>& values) {
    write_raw(c.output / name, values.data(), static_cast<std::int64_t>(values.size()));
  };
  write("ids.i64", batch.ids);
  write("lengths.i64", batch.lengths);
  write("targets.i64", batch.targets);
  write("target_lengths.i64", batch.target_lengths);
  write_raw(c.output / "images.f32", batch.images.data(), static_cast<std::int64_t>(batch.images.size()));
}

void dump_gradients(const Case& c, Communicator& comm) {
  validate_for_size(c.recipe, comm.size());
  ShardedModel model = build(c.recipe, comm);
  const auto data = loader_of(c.recipe);
  const std::int64_t rows = c.recipe.train.micro_batch_size;
  if (data->reference() != nullptr) (void)compute_reference(*data, model, rows, comm, nullptr);
  perturb(model, c.request.value("perturb", 0.0));
  model.weights_changed();
  const std::int64_t batch = c.recipe.train.global_batch_size;
  const double scale = 1.0 / static_cast<double>(batch * data->sample_size().targets);
  double loss = 0;
  for (std::int64_t first = 0; first < batch; first += rows * comm.size()) {
    Batch samples =
        to_tensors(data->read(first + comm.rank() * rows, rows), at::kCPU, c.recipe.train.dpo.beta);
    samples.training = c.request.value("training", false);
    samples.dropout_key = static_cast<std::uint64_t>(c.recipe.run.seed);
    loss +=
        model.accumulate(samples, scale, {first == 0, first + rows * comm.size() >= batch}).item<double>() *
        scale;
  }
  model.finish_gradients();
  comm.all_reduce(&loss, 1, DType::kF64, ReduceOp::kSum, "loss").wait();
  write_tensor(c.output / str("rank-", comm.rank(), ".weights.f32"), slices(model, &Unit::master));
  write_tensor(c.output / str("rank-", comm.rank(), ".gradients.f32"), slices(model, &Unit::gradient));
  write_index(c, model, comm, loss, scale);
  if (comm.rank() != 0) return;
  write_samples(c, data->read(0, batch));
}

void dump_weights(const Case& c, Communicator& comm) {
  const ShardedModel model = build(c.recipe, comm);
  write_tensor(c.output / str("rank-", comm.rank(), ".weights.f32"), slices(model, &Unit::master));
  write_index(c, model, comm, 0, 0);
}

/// Every size()-th prompt is this rank's.
void dump_continuations(const Case& c, Communicator& comm) {
  ShardedModel model = build(c.recipe, comm);
  perturb(model, c.request.value("perturb", 0.0));
  const auto all = c.request.at("prompts").get<std::vector<std::vector<std::int64_t>>>();
  std::vector<std::vector<std::int64_t>> mine;
  for (std::size_t i = static_cast<std::size_t>(comm.rank()); i < all.size(); i += comm.size())
    mine.push_back(all[i]);
  GenerateOptions options;
  options.max_new_tokens = c.request.at("max_new_tokens").get<std::int64_t>();
  options.beams = c.request.value("beams", std::int64_t{1});
  options.length_penalty = c.request.value("length_penalty", 1.0);
  options.end_ids = c.request.value("end_ids", std::vector<std::int64_t>{});
  const Json tokens(generate_together(model, prompt_batch(mine, at::kCPU), options, comm));
  std::ofstream(c.output / str("rank-", comm.rank(), ".tokens.json")) << tokens.dump();
  write_tensor(c.output / str("rank-", comm.rank(), ".weights.f32"), slices(model, &Unit::master));
  write_index(c, model, comm, 0, 0);
}

SampleBatch requested_samples(const Case& c) {
  const SampleBatch batch = loader_of(c.recipe)->read(c.request.at("first").get<std::int64_t>(),
                                                      c.request.at("rows").get<std::int64_t>());
  write_samples(c, batch);
  return batch;
}

/// Every rank computes the same.
void dump_logits(const Case& c, Communicator& comm) {
  const checkpoint::Reader reader(Path(c.request.at("checkpoint").get<std::string>()));
  const auto model = load_inference_model(
      reader, build_model(c.recipe.model, resolve(c.recipe.precision).types(), at::kCPU, c.recipe.lora),
      {comm});
  const Batch samples = to_tensors(requested_samples(c), at::kCPU);
  write_tensor(c.output / "loss.f32", model->evaluate(samples).loss);
  write_tensor(c.output / "logits.f32", model->decoder(samples)->start());
}

void run_case(const Json& request, Communicator& comm) {
  const Case c = open_case(request);
  const auto mode = request.at("mode").get<std::string>();
  const bool lead = comm.rank() == 0;
  if (mode == "gradients") {
    dump_gradients(c, comm);
  } else if (mode == "generate") {
    dump_continuations(c, comm);
  } else if (mode == "weights") {
    dump_weights(c, comm);
  } else if (mode == "ids") {
    if (lead) (void)requested_samples(c);
  } else if (mode == "logits") {
    dump_logits(c, comm);
  } else {
    throw Error(Code::kUsage, str("mode '", mode, "' is unknown"));
  }
}

}  // namespace
}  // namespace echelon

int main(int argc, char** argv) {
  return echelon::run_cases(argc, argv, echelon::run_case);
}
