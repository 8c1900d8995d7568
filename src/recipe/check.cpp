#include "recipe/check.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"
#include "recipe/contradictions.h"
#include "recipe/load.h"
#include "recipe/writer.h"

namespace echelon::recipe {
namespace {

constexpr std::int64_t kMaxParameters = 10'000'000'000'000;

/// An integer that remembers that it once did not fit in 64 bits.
class Checked {
 public:
  Checked(std::int64_t value) : value_(value) {}  // NOLINT: meant to be implicit
  Checked operator+(const Checked& other) const {
    Checked sum = *this;
    sum.overflow_ = __builtin_add_overflow(value_, other.value_, &sum.value_) || overflow_ || other.overflow_;
    return sum;
  }
  Checked operator*(const Checked& other) const {
    Checked product = *this;
    product.overflow_ =
        __builtin_mul_overflow(value_, other.value_, &product.value_) || overflow_ || other.overflow_;
    return product;
  }
  [[nodiscard]] std::optional<std::int64_t> value() const {
    return overflow_ ? std::nullopt : std::optional<std::int64_t>(value_);
  }

 private:
  std::int64_t value_;
  bool overflow_ = false;
};

/// The multiples of `unit` around `value`, or the first two when there is none below: "768 or 780".
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

void check_model(const ModelOptions& model, std::vector<Conflict>& found) {
  if (model.hidden_size % model.heads != 0) {
    found.push_back({{"model.hidden_size", "model.heads"},
                     str("model.hidden_size is ", model.hidden_size, "; expected a multiple of model.heads (",
                         model.heads, "), such as ", nearest_multiples(model.hidden_size, model.heads))});
  } else if (model.hidden_size / model.heads % 2 != 0) {
    found.push_back({{"model.hidden_size", "model.heads"},
                     str("model.hidden_size / model.heads is ", model.hidden_size, " / ", model.heads, " = ",
                         model.hidden_size / model.heads,
                         "; expected an even head size, because rotary positions turn pairs of values; set "
                         "model.hidden_size to ",
                         nearest_multiples(model.hidden_size, 2 * model.heads))});
  }
  if (model.heads % model.kv_heads != 0) {
    found.push_back({{"model.kv_heads", "model.heads"},
                     str("model.kv_heads is ", model.kv_heads, "; expected a divisor of model.heads (",
                         model.heads, "): ", divisors_of(model.heads))});
  }
  const std::vector<std::string> sizes{"model.layers",     "model.hidden_size", "model.intermediate_size",
                                       "model.vocab_size", "model.heads",       "model.kv_heads"};
  const auto parameters = parameter_count(model);
  if (!parameters || *parameters > kMaxParameters) {
    found.push_back(
        {sizes,
         str("the model has ",
             parameters ? human_count(static_cast<std::uint64_t>(*parameters)) : "more than 2^63",
             " parameters; at most ", human_count(kMaxParameters), " are accepted; check model.layers (",
             model.layers, "), hidden_size (", model.hidden_size, "), intermediate_size (",
             model.intermediate_size, ") and vocab_size (", model.vocab_size, ")")});
  }
}

void require_validation_data(const Recipe& recipe, const std::string& key, std::int64_t interval,
                             std::vector<Conflict>& found) {
  if (interval == 0 || !recipe.data.validation.path.empty()) return;
  found.push_back({{"data.validation.path", key},
                   str("data.validation.path is missing; ", key, " is ", interval,
                       ": name a token file, or set ", key, ": 0")});
}

void check_data(const Recipe& recipe, std::vector<Conflict>& found) {
  if (recipe.data.kind == "tokens" && recipe.data.path.empty()) {
    found.push_back({{"data.path", "data.kind"},
                     "data.path is missing; data.kind: tokens reads a token file: make one with `echelon "
                     "prepare` and name it "
                     "here, or set data.kind: synthetic_tokens"});
  }
  require_validation_data(recipe, "train.validate_every_steps", recipe.train.validate_every_steps, found);
  require_validation_data(recipe, "train.validate_every_epochs", recipe.train.validate_every_epochs, found);
  if (recipe.data.seq_len > recipe.model.max_positions) {
    found.push_back({{"data.seq_len", "model.max_positions"},
                     str("data.seq_len is ", recipe.data.seq_len, "; expected at most model.max_positions (",
                         recipe.model.max_positions, "): shorten the one or raise the other")});
  }
}

void check_training(const Recipe& recipe, std::vector<Conflict>& found) {
  const TrainOptions& train = recipe.train;
  if (train.epochs == 0 && recipe.schedule.warmup_steps > train.steps) {
    found.push_back({{"schedule.warmup_steps", "train.steps"},
                     str("schedule.warmup_steps is ", recipe.schedule.warmup_steps,
                         "; expected at most train.steps (", train.steps, ")")});
  }
  if (recipe.schedule.min_lr > recipe.optim.lr) {
    found.push_back(
        {{"schedule.min_lr", "optim.lr"},
         str("schedule.min_lr is ", shortest(recipe.schedule.min_lr), "; expected at most optim.lr (",
             shortest(recipe.optim.lr), "), the peak it falls from")});
  }
  if (train.global_batch_size % train.micro_batch_size != 0) {
    found.push_back(
        {{"train.global_batch_size", "train.micro_batch_size"},
         str("train.global_batch_size is ", train.global_batch_size,
             "; expected a multiple of train.micro_batch_size (", train.micro_batch_size,
             ") x ranks, such as ", nearest_multiples(train.global_batch_size, train.micro_batch_size))});
  }
  if (!(Checked(train.steps) * train.global_batch_size * recipe.data.seq_len).value()) {
    found.push_back({{"train.steps", "train.global_batch_size", "data.seq_len"},
                     str("train.steps x train.global_batch_size x data.seq_len (", train.steps, " x ",
                         train.global_batch_size, " x ", recipe.data.seq_len,
                         ") is more than 2^63 tokens; lower one of them")});
  }
}

}  // namespace

std::vector<Conflict> conflicts(const Recipe& recipe) {
  std::vector<Conflict> found;
  check_model(recipe.model, found);
  check_data(recipe, found);
  check_training(recipe, found);
  find_contradictions(recipe, found);
  return found;
}

std::optional<std::int64_t> parameter_count(const ModelOptions& model) {
  const Checked hidden = model.hidden_size;
  const Checked kv_width = Checked(model.hidden_size / model.heads) * model.kv_heads;
  const Checked attention = Checked(2) * hidden * hidden + Checked(2) * hidden * kv_width;
  const Checked feed_forward = Checked(3) * hidden * model.intermediate_size;
  const Checked norms = Checked(2) * hidden;
  const Checked embeddings = hidden * model.vocab_size * (model.tie_embeddings ? 1 : 2);
  return (Checked(model.layers) * (attention + feed_forward + norms) + hidden + embeddings).value();
}

}  // namespace echelon::recipe

namespace echelon {
namespace {

/// What is wrong with a divisor of the ranks; such as "shard.mesh.shard is 4; with 6 ranks expected ...".
std::string not_a_divisor(const char* key, std::int64_t value, int ranks) {
  return str(key, " is ", value, "; with ", ranks, ranks == 1 ? " rank" : " ranks",
             " expected a divisor of it: ", recipe::divisors_of(ranks), "; or start ",
             recipe::nearest_multiples(ranks, value), " ranks");
}

void check_batch(const TrainOptions& train, int ranks, std::vector<std::string>& faults) {
  const std::int64_t global = train.global_batch_size;
  const std::int64_t micro = train.micro_batch_size;
  const auto unit = (recipe::Checked(micro) * ranks).value();
  if (!unit || *unit < 1) {
    faults.push_back(str("train.micro_batch_size x ranks (", micro, " x ", ranks, ") is not a batch size"));
  } else if (global % *unit != 0) {
    faults.push_back(
        str("train.global_batch_size is ", global, "; with ", ranks, ranks == 1 ? " rank" : " ranks",
            " expected a multiple of train.micro_batch_size x ranks (", micro, " x ", ranks, " = ", *unit,
            "): set train.global_batch_size to ", recipe::nearest_multiples(global, *unit)));
  }
}

/// Reports a mesh that does not fit. Returns the ranks that share one copy of the state; 0: those of a node,
/// not known here.
std::int64_t check_mesh(const ShardOptions& shard, int ranks, std::vector<std::string>& faults) {
  if (!shard.strategy.starts_with("hybrid_")) return ranks;
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
  if (faults.size() > before) return 0;
  if (mesh.shard > 0) return mesh.shard;
  return mesh.replicate > 0 ? ranks / mesh.replicate : 0;
}

void check_partial_gather(std::int64_t kept, std::int64_t group, std::vector<std::string>& faults) {
  if (kept < 2 || group == 0 || group % kept == 0) return;
  faults.push_back(str("shard.reshard_after_forward is ", kept,
                       "; expected true, false, or a divisor of the ranks that share one copy of the state (",
                       group, "): ", recipe::divisors_of(group)));
}

}  // namespace

void validate_for_size(const Recipe& recipe, int ranks) {
  if (ranks < 1) throw Error(Code::kUsage, str("the number of ranks is ", ranks, "; expected at least 1"));
  std::vector<std::string> faults;
  check_batch(recipe.train, ranks, faults);
  const std::int64_t group = check_mesh(recipe.shard, ranks, faults);
  check_partial_gather(recipe.shard.reshard_after_forward, group, faults);
  if (!faults.empty()) throw Error(Code::kUsage, join(faults, "\n"));
}

}  // namespace echelon
