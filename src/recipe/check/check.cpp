#include "recipe/check/check.h"

#include "base/error.h"
#include "base/options/checked.h"
#include "base/str.h"
#include "recipe/check/contradictions.h"
#include "recipe/keys/keys.h"
#include "recipe/load.h"
#include "recipe/yaml/writer.h"
#include "shapes/lora.h"

namespace echelon::recipe {
namespace {

void require_validation_data(const Recipe& recipe, const std::string& key, std::int64_t interval,
                             Conflicts& found) {
  const ValidationDataOptions& given = recipe.data.validation;
  if (interval == 0 || !given.path.empty() || given.samples > 0) return;
  if (!given.sources.empty() && key != "data.validation.generate") return;
  if (recipe.data.kind == DataKind::kSyntheticImages) {
    found.add({"data.validation.samples", key}, "data.validation.samples is 0; ", key, " is ", interval,
              ": set the number of images to generate for validation, or set ", key, ": 0");
    return;
  }
  found.add({"data.validation.path", key}, "data.validation.path is missing; ", key, " is ", interval,
            ": name a token file, or set ", key, ": 0");
}

void check_data(const Recipe& recipe, Conflicts& found) {
  const DataKind kind = recipe.data.kind;
  const bool has_file = kind == DataKind::kTokens || kind == DataKind::kPairs || gives_chats(kind);
  if (has_file && recipe.data.path.empty() && recipe.data.mixture.empty()) {
    found.add({"data.path", "data.kind"}, "data.path is missing; data.kind: ", word_of(kind),
              " reads a token file: make one with `echelon prepare` and name it "
              "here, or set data.kind: synthetic_",
              kind == DataKind::kPairs ? "pairs" : "tokens");
  }
  if (has_file && !recipe.data.path.empty() && !recipe.data.mixture.empty()) {
    found.add({"data.mixture", "data.path"},
              "data.mixture and data.path are both given; training reads one of them: add the file of "
              "data.path to data.mixture, or remove one");
  }
  if (!recipe.data.validation.path.empty() && !recipe.data.validation.sources.empty()) {
    found.add({"data.validation.sources", "data.validation.path"},
              "data.validation.sources and data.validation.path are both given; validation reads one of "
              "them: add the file of data.validation.path to data.validation.sources, or remove one");
  }
  const bool wants_pairs = takes_pairs(recipe.model.kind);
  if (gives_pairs(kind) != wants_pairs && !gives_images(kind) && !takes_images(recipe.model.kind)) {
    found.add({"data.kind", "model.kind"}, "data.kind is ", word_of(kind),
              "; model.kind: ", word_of(recipe.model.kind), " trains on ",
              wants_pairs ? "pairs or synthetic_pairs" : "tokens, chat, preference or synthetic_tokens");
  }
  require_validation_data(recipe, "train.validate_every_steps", recipe.train.validate_every_steps, found);
  require_validation_data(recipe, "train.validate_every_epochs", recipe.train.validate_every_epochs, found);
  require_validation_data(recipe, "data.validation.generate", recipe.data.validation.generate, found);
  if (kind == DataKind::kPreference && recipe.data.seq_len < 2) {
    found.add({"data.seq_len", "data.kind"},
              "data.seq_len is 1; expected at least 2 with data.kind: preference, for two answers");
  }
  const std::int64_t longest = longest_sequence(recipe.model);
  if (is_used("model.max_positions", recipe) && recipe.data.seq_len > longest) {
    const bool dynamic = longest < recipe.model.max_positions;
    found.add({"data.seq_len", dynamic ? "model.rope_scaling.original_positions" : "model.max_positions"},
              dynamic
                  ? str("data.seq_len is ", recipe.data.seq_len,
                        "; expected at most model.rope_scaling.original_positions (", longest,
                        "): beyond it, frequencies of kind ", word_of(recipe.model.rope_scaling.kind),
                        " depend on the batch; lower data.seq_len",
                        recipe.model.kind == ModelKind::kPhi3 ? "" : ", or choose kind yarn or linear")
                  : str("data.seq_len is ", recipe.data.seq_len, "; expected at most model.max_positions (",
                        longest, "): lower the former or raise the latter"));
  }
}

void check_training(const Recipe& recipe, Conflicts& found) {
  const TrainOptions& train = recipe.train;
  if (train.epochs == 0 && recipe.schedule.warmup_steps > train.steps) {
    found.add({"schedule.warmup_steps", "train.steps"}, "schedule.warmup_steps is ",
              recipe.schedule.warmup_steps, "; expected at most train.steps (", train.steps, ")");
  }
  if (recipe.schedule.min_lr > recipe.optim.lr) {
    found.add({"schedule.min_lr", "optim.lr"}, "schedule.min_lr is ", shortest(recipe.schedule.min_lr),
              "; expected at most optim.lr (", shortest(recipe.optim.lr), "), the peak it falls from");
  }
  if (train.global_batch_size % train.micro_batch_size != 0) {
    found.add({"train.global_batch_size", "train.micro_batch_size"}, "train.global_batch_size is ",
              train.global_batch_size, "; expected a multiple of train.micro_batch_size (",
              train.micro_batch_size, ") x ranks, such as ",
              nearest_multiples(train.global_batch_size, train.micro_batch_size));
  }
  if (!(Checked(train.steps) * train.global_batch_size * recipe.data.seq_len).value()) {
    found.add({"train.steps", "train.global_batch_size", "data.seq_len"},
              "train.steps x train.global_batch_size x data.seq_len (", train.steps, " x ",
              train.global_batch_size, " x ", recipe.data.seq_len,
              ") is more than 2^63 tokens; lower one of them");
  }
}

void check_evaluation(const Recipe& recipe, Conflicts& found) {
  const EvaluationOptions& evaluation = recipe.evaluation;
  const auto is_task = [&](const std::string& name) {
    return std::ranges::any_of(evaluation.tasks, [&](const auto& task) { return task.first == name; });
  };
  const auto require_task = [&](const char* key, const std::string& name) {
    if (is_task(name)) return;
    found.add({key, "evaluation.tasks"}, key, " names '", name,
              "', which evaluation.tasks does not have: add it there, or correct the name");
  };
  for (const auto& [name, file] : evaluation.prefix) require_task("evaluation.prefix", name);
  for (const auto& [name, text] : evaluation.until) {
    require_task("evaluation.until", name);
    if (text.empty())
      found.add({"evaluation.until"}, "evaluation.until of '", name,
                "' is empty, so every answer would end at once; name a text, or remove it for a "
                "line feed");
  }
  for (const auto& [name, text] : evaluation.after) require_task("evaluation.after", name);
  if (!evaluation.best.empty()) require_task("evaluation.best", evaluation.best);
  if (evaluation.tasks.empty()) return;
  if (!is_decoder_only(recipe.model.kind)) {
    found.add({"evaluation.tasks", "model.kind"},
              "evaluation.tasks is set, which model.kind: ", word_of(recipe.model.kind),
              " cannot answer; expected a decoder-only language model, or no tasks");
  } else if (is_synthetic(recipe.data.kind) && recipe.data.tokenizer.empty()) {
    found.add({"evaluation.tasks", "data.tokenizer"},
              "evaluation.tasks is set, but data.kind: ", word_of(recipe.data.kind),
              " has no tokenizer to read its questions with; name one in data.tokenizer");
  }
}

void check_cluster(const ClusterOptions& cluster, Conflicts& found) {
  constexpr double kBeats = 3;  // one late heartbeat must not end a run
  if (cluster.heartbeat_timeout_s == 0 ||
      cluster.heartbeat_timeout_s >= kBeats * cluster.heartbeat_interval_s)
    return;
  found.add({"cluster.heartbeat_timeout_s", "cluster.heartbeat_interval_s"},
            "cluster.heartbeat_timeout_s is ", shortest(cluster.heartbeat_timeout_s),
            "; expected at least three times cluster.heartbeat_interval_s (",
            shortest(cluster.heartbeat_interval_s), "), or 0 for no heartbeats");
}

}  // namespace

std::string nearest_multiples(std::int64_t value, std::int64_t unit) {
  const std::int64_t below = value / unit * unit;
  const Checked first = below == 0 ? unit : below;
  const auto second = (first + unit).value();
  return second ? str(*first.value(), " or ", *second) : str(*first.value());
}

std::string divisors_of(std::int64_t value) {
  std::vector<std::string> divisors;
  for (std::int64_t d = 1; d <= value && divisors.size() < 20; ++d) {
    if (value % d == 0) divisors.push_back(std::to_string(d));
  }
  return join(divisors, ", ");
}

std::vector<Conflict> conflicts(const Recipe& recipe) {
  Conflicts found;
  find_model_conflicts(recipe.model, found);
  if (found.all.empty()) {
    for (const LoraFault& fault : lora_faults(recipe.model, recipe.lora)) found.add(fault.keys, fault.text);
  }
  check_data(recipe, found);
  find_image_conflicts(recipe, found);
  check_training(recipe, found);
  check_evaluation(recipe, found);
  check_cluster(recipe.cluster, found);
  find_contradictions(recipe, found);
  return std::move(found.all);
}

std::string how_to_unset(const Conflict& conflict, const std::map<std::string, Position>& given,
                         const Position& here, const Sources& sources) {
  const bool any = conflict.text.find("remove one") != std::string::npos;
  if (!any && conflict.text.find("remove ") == std::string::npos) return "";
  for (const std::string& key : conflict.keys) {
    const auto at = given.find(key);
    if (!any && key != conflict.keys.front()) break;
    if (at == given.end() || sources.is_override(at->second) || at->second.source == here.source) continue;
    const std::string value = written(*find_key(key), Recipe());
    return str("; ", key, " stands in ", sources.where(at->second), ": to unset it from here, set ",
               sources.is_override(here) ? str("'", key, "=", value, "'") : str(key, ": ", value),
               ", its default");
  }
  return "";
}

}  // namespace echelon::recipe

namespace echelon {
namespace {

/// The fault of a value that must divide the number of ranks: "shard.mesh.shard is 4; with 6 ranks expected
/// ...".
std::string not_a_divisor(const char* key, std::int64_t value, int ranks) {
  return str(key, " is ", value, "; with ", counted(ranks, "rank"),
             " expected a divisor of it: ", recipe::divisors_of(ranks), "; or start ",
             recipe::nearest_multiples(ranks, value), " ranks");
}

void check_batch(const TrainOptions& train, int ranks, std::vector<std::string>& faults) {
  const std::int64_t global = train.global_batch_size;
  const std::int64_t micro = train.micro_batch_size;
  const auto unit = (Checked(micro) * ranks).value();
  if (!unit || *unit < 1) {
    faults.push_back(str("train.micro_batch_size x ranks (", micro, " x ", ranks, ") is not a batch size"));
  } else if (global % *unit != 0) {
    faults.push_back(str("train.global_batch_size is ", global, "; with ", counted(ranks, "rank"),
                         " expected a multiple of train.micro_batch_size x ranks (", micro, " x ", ranks,
                         " = ", *unit, "): set train.global_batch_size to ",
                         recipe::nearest_multiples(global, *unit)));
  }
}

/// Reports a mesh that does not fit the ranks. Returns the number of ranks that share one copy of the state,
/// or 0 if it is unknown: the mesh is faulty, or a copy spans the ranks of a node, whose number is not known
/// here.
std::int64_t check_mesh(const ShardOptions& shard, int ranks, std::vector<std::string>& faults) {
  if (!is_hybrid(shard.strategy)) return ranks;
  const MeshOptions& mesh = shard.mesh;
  const std::size_t before = faults.size();
  if (mesh.shard > 0 && ranks % mesh.shard != 0) {
    faults.push_back(not_a_divisor("shard.mesh.shard", mesh.shard, ranks));
  } else if (mesh.replicate > 0 && ranks % mesh.replicate != 0) {
    faults.push_back(not_a_divisor("shard.mesh.replicate", mesh.replicate, ranks));
  } else if (mesh.shard > 0 && mesh.replicate > 0 && mesh.replicate != ranks / mesh.shard) {
    faults.push_back(str("shard.mesh.shard x shard.mesh.replicate is ", mesh.shard, " x ", mesh.replicate,
                         "; expected the number of ranks (", ranks, "): set shard.mesh.replicate to ",
                         ranks / mesh.shard, ", shard.mesh.shard to ", ranks / mesh.replicate, ", or start ",
                         mesh.shard * mesh.replicate, " ranks"));
  }
  return faults.size() > before ? 0 : ranks_of_a_copy(shard, ranks, 0);
}

void check_partial_gather(std::int64_t kept, std::int64_t group, std::vector<std::string>& faults) {
  if (kept == 0 || group == 0 || group % kept == 0) return;
  faults.push_back(str("shard.reshard_after_forward is ", kept,
                       "; expected true, false, or a divisor of the ranks that share one copy of the state (",
                       group, "): ", recipe::divisors_of(group)));
}

}  // namespace

void validate_for_size(const Recipe& recipe, int ranks) {
  if (ranks < 1) throw Error(Code::kUsage, "the number of ranks is ", ranks, "; expected at least 1");
  std::vector<std::string> faults;
  check_batch(recipe.train, ranks, faults);
  const std::int64_t group = check_mesh(recipe.shard, ranks, faults);
  check_partial_gather(recipe.shard.reshard_after_forward.count, group, faults);
  if (!faults.empty()) throw Error(Code::kUsage, join(faults, "\n"));
}

std::vector<std::int64_t> fewer_nodes(const Recipe& recipe, std::int64_t nodes, std::int64_t ranks_per_node) {
  std::vector<std::int64_t> fit;
  if (recipe.cluster.shrink == Shrink::kNever) return fit;
  const std::int64_t copy = ranks_of_a_copy(recipe.shard, nodes * ranks_per_node, ranks_per_node);
  for (std::int64_t fewer = nodes - 1; fewer >= 1; --fewer) {
    const std::int64_t ranks = fewer * ranks_per_node;
    if (ranks % copy != 0 || ranks_of_a_copy(recipe.shard, ranks, ranks_per_node) != copy) continue;
    std::vector<std::string> faults;
    check_batch(recipe.train, static_cast<int>(ranks), faults);
    check_mesh(recipe.shard, static_cast<int>(ranks), faults);
    if (faults.empty()) fit.push_back(fewer);
  }
  return fit;
}

}  // namespace echelon
