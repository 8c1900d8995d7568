#include <ATen/ATen.h>

#include "base/error.h"
#include "model/causal_model.h"
#include "model/generate/kv_cache.h"

namespace echelon {
namespace {

void require_positions(std::int64_t tokens, std::int64_t positions) {
  if (tokens <= positions) return;
  throw Error(Code::kUsage, "a sequence of ", tokens, " tokens; the model takes at most ", positions,
              " (model.max_positions): shorten the prompt or add fewer tokens");
}

/// x [tokens, heads, d], whose first `width` elements are turned by `angles` [tokens, width] (cos half | sin
/// half), pairing as Table::rope_split.
at::Tensor rotated(const at::Tensor& x, const at::Tensor& angles) {
  const std::int64_t width = angles.size(1);
  const auto halves = x.narrow(2, 0, width).to(at::kFloat).chunk(2, 2);
  const auto turn = angles.unsqueeze(1).chunk(2, 2);
  const at::Tensor turned =
      at::cat({halves[0] * turn[0] - halves[1] * turn[1], halves[1] * turn[0] + halves[0] * turn[1]}, 2)
          .to(x.scalar_type());
  return at::cat({turned, x.narrow(2, width, x.size(2) - width)}, 2);
}

}  // namespace

/// Prompts run as ragged sequences, later tokens one at a time.
class CausalModel::TokenByToken final : public Decoder {
 public:
  /// `prompts`: ids and sequences. Throws Error(kUsage) for one longer than the model's positions.
  TokenByToken(const CausalModel& model, const Batch& prompts)
      : model_(model), ids_(prompts.ids), prompts_(prompts.sequences) {
    for (std::int64_t block = 0; block < model_.options_.layers; ++block)
      caches_.emplace_back(model_.attention_of(block));
    require_positions(prompts_->longest(), longest_sequence(model_.options_));
  }

  at::Tensor start() override {
    const at::Tensor positions = prompts_->positions(ids_.device());
    const BlockRotary rotary = model_.rotary_of(prompts_->longest());
    const auto attend = [this, rotary, positions](std::int64_t block, const at::Tensor& qkv) {
      const at::Tensor table = rotary(block);
      const Split tokens = split(qkv, table, positions);
      caches_[static_cast<std::size_t>(block)].fill(tokens.k, tokens.v, *prompts_);
      return ops::self_attention(qkv, prompts_, model_.attention_of(block), {.rotary = table, .bias = {}});
    };
    const at::Tensor hidden = model_.body(ids_, {attend, positions, {}});
    lengths_ = at::tensor(prompts_->lengths(), at::kLong).to(ids_.device());
    return logits(hidden.index_select(0, lengths_.cumsum(0) - 1));
  }

  at::Tensor step(const at::Tensor& ids) override {
    const std::int64_t longest = caches_.front().longest() + 1;
    require_positions(longest, longest_sequence(model_.options_));
    const auto attend = [this, rotary = model_.rotary_of(longest)](std::int64_t block,
                                                                   const at::Tensor& qkv) {
      const Split tokens = split(qkv, rotary(block), lengths_);
      KvCache& cache = caches_[static_cast<std::size_t>(block)];
      cache.append(tokens.k, tokens.v);
      return cache.attend(tokens.q.reshape({qkv.size(0), -1}));
    };
    const at::Tensor hidden = model_.body(ids, {attend, lengths_, {}});
    lengths_ = lengths_ + 1;
    return logits(hidden);
  }

  void reorder(const at::Tensor& rows) override {
    for (KvCache& cache : caches_) cache.reorder(rows);
    lengths_ = lengths_.index_select(0, rows);
  }

 private:
  /// Query, key and value of tokens, [tokens, heads of each, head_dim], the first two rotated.
  struct Split {
    at::Tensor q;
    at::Tensor k;
    at::Tensor v;
  };
  /// `rotary`: of the block, of which `positions` are the tokens' rows; undefined: no rotation.
  [[nodiscard]] Split split(const at::Tensor& qkv, const at::Tensor& rotary,
                            const at::Tensor& positions) const {
    const ops::AttentionOptions& a = model_.attention_;
    const auto parts =
        qkv.view({qkv.size(0), -1, a.head_dim}).split_with_sizes({a.heads, a.kv_heads, a.kv_heads}, 1);
    if (!rotary.defined()) return {parts[0], parts[1], parts[2]};
    const at::Tensor angles = rotary.index_select(0, positions);
    return {rotated(parts[0], angles), rotated(parts[1], angles), parts[2]};
  }

  [[nodiscard]] at::Tensor logits(const at::Tensor& hidden) const {
    return model_.head_layer_->run(hidden, [&model = model_](const at::Tensor& x) {
      return ops::linear(model.head_input(x), *model.head_).to(at::kFloat);
    });
  }

  const CausalModel& model_;
  at::Tensor ids_;
  Sequences prompts_;
  std::vector<KvCache> caches_;  ///< of each block
  at::Tensor lengths_;           ///< int64 [rows]
};

std::unique_ptr<Decoder> CausalModel::decoder(const Batch& prompts) const {
  return std::make_unique<TokenByToken>(*this, prompts);
}

}  // namespace echelon
