#include "model/generate/causal_decoder.h"

#include <ATen/ATen.h>

#include <utility>

#include "base/error.h"
#include "base/str.h"

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

CausalDecoder::CausalDecoder(CausalParts parts, const Batch& prompts)
    : parts_(std::move(parts)), ids_(prompts.ids), prompts_(prompts.sequences) {
  for (std::int64_t block = 0; block < parts_.blocks; ++block) caches_.emplace_back(parts_.attention(block));
  require_positions(prompts_->longest(), parts_.max_positions);
}

CausalDecoder::Split CausalDecoder::split(const at::Tensor& qkv, const at::Tensor& rotary,
                                          const at::Tensor& positions) const {
  const ops::AttentionOptions a = parts_.attention(0);
  const auto parts =
      qkv.view({qkv.size(0), -1, a.head_dim}).split_with_sizes({a.heads, a.kv_heads, a.kv_heads}, 1);
  if (!rotary.defined()) return {parts[0], parts[1], parts[2]};
  const at::Tensor angles = rotary.index_select(0, positions);
  return {rotated(parts[0], angles), rotated(parts[1], angles), parts[2]};
}

at::Tensor CausalDecoder::start() {
  const at::Tensor positions = prompts_->positions(ids_.device());
  const BlockRotary rotary = parts_.rotary(prompts_->longest());
  const at::Tensor hidden =
      parts_.hidden(ids_, positions, [this, rotary, positions](std::int64_t block, const at::Tensor& qkv) {
        const at::Tensor table = rotary(block);
        const Split tokens = split(qkv, table, positions);
        caches_[static_cast<std::size_t>(block)].fill(tokens.k, tokens.v, *prompts_);
        return ops::self_attention(qkv, prompts_, parts_.attention(block), {.rotary = table, .bias = {}});
      });
  lengths_ = at::tensor(prompts_->lengths(), at::kLong).to(ids_.device());
  return parts_.logits(hidden.index_select(0, lengths_.cumsum(0) - 1));
}

at::Tensor CausalDecoder::step(const at::Tensor& ids) {
  const std::int64_t longest = caches_.front().longest() + 1;
  require_positions(longest, parts_.max_positions);
  const BlockRotary rotary = parts_.rotary(longest);
  const at::Tensor hidden =
      parts_.hidden(ids, lengths_, [this, rotary](std::int64_t block, const at::Tensor& qkv) {
        const Split tokens = split(qkv, rotary(block), lengths_);
        KvCache& cache = caches_[static_cast<std::size_t>(block)];
        cache.append(tokens.k, tokens.v);
        return cache.attend(tokens.q.reshape({qkv.size(0), -1}));
      });
  lengths_ = lengths_ + 1;
  return parts_.logits(hidden);
}

void CausalDecoder::reorder(const at::Tensor& rows) {
  for (KvCache& cache : caches_) cache.reorder(rows);
  lengths_ = lengths_.index_select(0, rows);
}

}  // namespace echelon
