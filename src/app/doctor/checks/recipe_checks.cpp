#include "app/doctor/checks/recipe_checks.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/str.h"
#include "data/loader.h"
#include "text/tokenizer.h"

namespace echelon::app::doctor {
namespace {

/// Share of memory that state may take. More leaves too little room for activations, which are not predicted.
constexpr double kTight = 0.8;

/// The advice is general, because the text of an Error already names what to change.
Finding from_error(const std::string& name, const Error& error) {
  return fault(name, error.what(), "correct what the message names; docs/data.md describes the formats");
}

/// Steps that a run folder holds, whole or not.
std::int64_t checkpoints_in(const std::filesystem::path& run_dir) {
  std::error_code error;
  std::int64_t count = 0;
  for (std::filesystem::directory_iterator entry(run_dir / "checkpoints", error), end; !error && entry != end;
       entry.increment(error))
    count += entry->path().filename().string().starts_with("step-") ? 1 : 0;
  return count;
}

Finding open_stream(const std::string& name, const std::string& what,
                    const std::function<std::vector<ValidationSource>()>& open) {
  try {
    const std::vector<ValidationSource> sources = open();
    if (sources.empty()) return ok(name, "the recipe names no " + what);
    std::int64_t samples = 0;
    for (const auto& source : sources) {
      (void)source.loader->read(0, 1);
      samples += source.loader->samples_per_epoch();
    }
    Finding finding = ok(
        name, str(what, " opens, ", human_count(static_cast<std::uint64_t>(samples)), " samples per epoch"));
    finding.values = {{"samples_per_epoch", samples}};
    return finding;
  } catch (const Error& error) {
    return from_error(name, error);
  }
}

bool on_gpus(const Recipe& recipe, const Gpus& gpus) {
  switch (recipe.train.device) {
    case TrainDevice::kCuda:
    case TrainDevice::kCudaShared: return true;
    case TrainDevice::kAuto: return !gpus.cards.empty();
    case TrainDevice::kCpu: break;
  }
  return false;
}

}  // namespace

Finding check_data(const Recipe& recipe) {
  return open_stream("data", "training data", [&] {
    std::vector<ValidationSource> only;
    only.push_back({"", make_loader(recipe.data, recipe.model, static_cast<std::uint64_t>(recipe.run.seed))});
    return only;
  });
}

Finding check_validation_data(const Recipe& recipe) {
  return open_stream("validation_data", "validation data", [&] {
    return make_validation_sources(recipe.data, recipe.model, static_cast<std::uint64_t>(recipe.run.seed));
  });
}

Finding check_tokenizer(const Recipe& recipe) {
  const std::string path = tokenizer_path(recipe.data);
  if (path.empty()) return ok("tokenizer", "the recipe's data has no tokenizer");
  try {
    const std::int64_t size = Tokenizer::load(path)->vocab_size();
    if (size > recipe.model.vocab_size) {
      return warning(
          "tokenizer",
          str("tokenizer '", path, "' has ", size, " ids, but model.vocab_size is ", recipe.model.vocab_size),
          str("set model.vocab_size to ", size, " or more, unless no text has the others"));
    }
    return ok("tokenizer", str("tokenizer '", path, "' has ", size, " ids, model.vocab_size is ",
                               recipe.model.vocab_size));
  } catch (const Error& error) {
    return from_error("tokenizer", error);
  }
}

Finding check_room(const Recipe& recipe, const RecipeSize& size, const FolderFacts& folder) {
  const std::int64_t there = checkpoints_in(recipe.run.dir);
  const std::optional<std::int64_t> most = checkpoints_kept(recipe);
  // At least the one that is being written is still to come.
  const auto kept = static_cast<std::uint64_t>(std::max<std::int64_t>(1, most.value_or(1) - there));
  const std::uint64_t needed = size.checkpoint_bytes * kept;
  Finding finding = ok("checkpoint_room",
                       str(kept, there > 0 ? " more" : "", kept == 1 ? " checkpoint of " : " checkpoints of ",
                           human_bytes(size.checkpoint_bytes), " need ", human_bytes(needed), ", '",
                           folder.folder, "' has ", human_bytes(folder.available_bytes), " free"));
  finding.values = {{"checkpoint_bytes", size.checkpoint_bytes},
                    {"checkpoints", kept},
                    {"available_bytes", folder.available_bytes}};
  if (needed <= folder.available_bytes) {
    if (most) return finding;
    finding.verdict = Verdict::kUnknown;
    finding.text += "; how many this run keeps depends on its data or on time";
    finding.advice = "bound them: checkpoint.keep_last above 0 and, with train.epochs, no keep_every_steps";
    return finding;
  }
  finding.verdict = Verdict::kFault;
  finding.advice = "make room, keep fewer (checkpoint.keep_last), or set run.dir to a larger file system";
  return finding;
}

Finding uncountable() {
  return fault("memory", "the model has more parameters than can be counted", "make it smaller");
}

std::uint64_t host_bytes(const RecipeSize& size, int ranks_per_node) {
  return (size.rank_bytes + size.staging_bytes) * static_cast<std::uint64_t>(ranks_per_node);
}

Finding judge_memory(int ranks, std::uint64_t needed, const std::string& where, std::uint64_t there) {
  Finding finding = ok("memory", str("the state of ", counted(ranks, "rank"), " takes ", human_bytes(needed),
                                     " before activations, ", where, " has ", human_bytes(there)));
  finding.values = {{"needed_bytes", needed}, {"available_bytes", there}};
  if (static_cast<double>(needed) <= kTight * static_cast<double>(there)) return finding;
  finding.verdict = needed > there ? Verdict::kFault : Verdict::kWarning;
  finding.text += needed > there ? ": it does not fit" : ": little is left for activations";
  finding.advice =
      "use more ranks with shard.strategy: full_shard, precision.master or optimizer states in bf16, or "
      "shard.offload: cpu; echelon plan and docs/tuning.md help";
  return finding;
}

Finding check_memory(const Recipe& recipe, const RecipeSize& size, int ranks_per_node, const Machine& machine,
                     const Gpus& gpus) {
  const bool offloaded = recipe.shard.offload == Offload::kCpu;
  if (on_gpus(recipe, gpus) && !offloaded) {
    if (gpus.cards.empty()) {
      return unknown("memory",
                     str("each GPU needs ", human_bytes(size.rank_bytes),
                         " before activations, and this machine has no GPU to compare with"),
                     "run this on a compute node");
    }
    const auto least = std::ranges::min_element(
        gpus.cards, [](const auto& a, const auto& b) { return a.memory_bytes < b.memory_bytes; });
    const auto cards = static_cast<int>(gpus.cards.size());
    const int sharing = (ranks_per_node + cards - 1) / cards;
    return judge_memory(sharing, size.rank_bytes * static_cast<std::uint64_t>(sharing), least->name,
                        least->memory_bytes);
  }
  const std::optional<std::uint64_t> memory = machine.memory_bytes();
  if (!memory) return unknown("memory", "/proc/meminfo does not state this machine's memory");
  return judge_memory(ranks_per_node, host_bytes(size, ranks_per_node), "this machine", *memory);
}

Finding check_devices(const Recipe& recipe, int ranks_per_node, const Gpus& gpus) {
  const auto cards = static_cast<int>(gpus.cards.size());
  const std::string_view device = word_of(recipe.train.device);
  if (!on_gpus(recipe, gpus))
    return ok("devices", str("train.device is ", device, ": ranks compute on the CPU"));
  if (cards == 0) {
    return unknown("devices",
                   str("train.device is ", device, ", and this machine shows no GPU (", gpus.note, ")"),
                   "run this on a compute node");
  }
  if (cards >= ranks_per_node || recipe.train.device == TrainDevice::kCudaShared)
    return ok("devices", str(cards, " GPUs for ", ranks_per_node, " ranks of a node"));
  return fault("devices", str(ranks_per_node, " ranks of a node, but ", cards, " GPUs"),
               "request as many tasks as GPUs (--ntasks-per-node), or set train.device: cuda_shared");
}

}  // namespace echelon::app::doctor
