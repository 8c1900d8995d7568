#include "reference/parts.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "base/error.h"
#include "base/philox.h"
#include "shapes/llama_family.h"

namespace echelon::reference {

const at::Tensor& weight_of(const Pass& pass, const std::string& name) {
  const auto found = pass.weights.find(name);
  if (found == pass.weights.end()) throw Error::internal("the reference has no weight '" + name + "'");
  return found->second;
}

at::Tensor widened(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

at::Tensor affine(const Pass& pass, const std::string& name, const at::Tensor& x) {
  const at::Tensor product = at::matmul(x, weight_of(pass, name + ".weight").t());
  const auto bias = pass.weights.find(name + ".bias");
  return bias == pass.weights.end() ? product : product + bias->second;
}

std::vector<at::Tensor> adapted(const Pass& pass, const std::vector<std::string>& names,
                                const at::Tensor& x) {
  const LoraOptions& lora = pass.lora;
  const auto rank = static_cast<double>(lora.rank);
  std::vector<at::Tensor> products;
  at::Tensor given;  // to the adapters
  for (const std::string& name : names) {
    at::Tensor& product = products.emplace_back(affine(pass, name, x));
    const std::string a = name + ".lora_A.weight";
    if (!pass.weights.contains(a)) continue;
    if (!given.defined()) given = dropped(pass, a, lora.dropout, x);
    const double scale = lora.alpha / (lora.use_rslora ? std::sqrt(rank) : rank);
    const at::Tensor low = at::matmul(given, weight_of(pass, a).t());
    product = product + scale * at::matmul(low, weight_of(pass, name + ".lora_B.weight").t());
  }
  return products;
}

at::Tensor dropped(const Pass& pass, const std::string& site, double probability, const at::Tensor& x) {
  if (probability == 0) return x;
  const auto limit = static_cast<std::uint32_t>(std::lround(probability * 65536));
  const std::uint64_t key = stream_key(pass.seed, site);
  const std::int64_t width = x.numel() / x.size(0);
  const std::int64_t calls = (width + 7) / 8;  // of a token
  std::vector<double> factors;
  for (std::int64_t token = 0; token < x.size(0); ++token) {
    for (std::int64_t i = 0; i < width; ++i) {
      const auto words = philox4x32(key, static_cast<std::uint64_t>((pass.place + token) * calls + i / 8),
                                    static_cast<std::uint64_t>(pass.sample));
      const std::uint32_t drawn = (words[i % 8 / 2] >> (i % 2 * 16)) & 0xFFFFU;
      factors.push_back(drawn < limit ? 0 : 65536.0 / (65536.0 - limit));
    }
  }
  return (widened(x) * at::tensor(factors, widened(x).options()).view(x.sizes())).to(x.scalar_type());
}

at::Tensor rms_normed(const Pass& pass, const std::string& name, const at::Tensor& x) {
  const at::Tensor wide = widened(x);
  const at::Tensor mean = (wide * wide).mean(-1, true);
  at::Tensor normalized = wide / at::sqrt(mean + pass.model.norm_eps);
  if (norm_rounding(pass.model) == NormRounding::kTwice) normalized = widened(normalized.to(x.scalar_type()));
  at::Tensor weight = widened(weight_of(pass, name + ".weight"));
  if (norm_rounding(pass.model) == NormRounding::kOncePlusOne) weight = weight + 1;
  return (normalized * weight).to(x.scalar_type());
}

at::Tensor layer_normed(const Pass& pass, const std::string& name, const at::Tensor& x) {
  const at::Tensor wide = widened(x);
  const at::Tensor apart = wide - wide.mean(-1, true);
  const at::Tensor variance = (apart * apart).mean(-1, true);
  const at::Tensor normalized = (apart / at::sqrt(variance + pass.model.norm_eps)).to(x.scalar_type());
  return normalized * weight_of(pass, name + ".weight") + weight_of(pass, name + ".bias");
}

at::Tensor gelu_by_tanh(const at::Tensor& x) {
  const at::Tensor wide = widened(x);
  const at::Tensor inner = std::sqrt(2 / std::numbers::pi) * (wide + 0.044715 * wide * wide * wide);
  return (0.5 * wide * (1 + at::tanh(inner))).to(x.scalar_type());
}

at::Tensor exact_gelu(const at::Tensor& x) {
  const at::Tensor wide = widened(x);
  return (0.5 * wide * (1 + at::erf(wide / std::numbers::sqrt2))).to(x.scalar_type());
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const Attention& options) {
  const auto by_head = [](const at::Tensor& rows, std::int64_t heads) {
    return rows.view({rows.size(0), heads, -1}).transpose(0, 1);
  };
  const std::int64_t kv_heads = options.kv_heads > 0 ? options.kv_heads : options.heads;
  const std::int64_t shared = options.heads / kv_heads;  // query heads of one key head
  const at::Tensor queries = by_head(q, options.heads);
  const at::Tensor keys = by_head(k, kv_heads).repeat_interleave(shared, 0);
  const at::Tensor values = by_head(v, kv_heads).repeat_interleave(shared, 0);
  at::Tensor scores = widened(at::matmul(queries, keys.transpose(1, 2))) * options.scale;
  if (options.bias.defined()) scores = scores + options.bias;
  if (options.causal) {
    const at::Tensor back = at::arange(q.size(0)).unsqueeze(1) - at::arange(k.size(0)).unsqueeze(0);
    at::Tensor hidden = back < 0;
    if (options.window > 0) hidden = at::logical_or(hidden, back >= options.window);
    scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }
  const at::Tensor weights = at::softmax(scores, 2).to(v.scalar_type());
  return at::matmul(weights, values).transpose(0, 1).reshape({q.size(0), -1});
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor counted = at::nonzero(targets >= 0).squeeze(1);
  const at::Tensor rows = at::log_softmax(widened(logits).index_select(0, counted), 1);
  return -rows.gather(1, targets.index_select(0, counted).unsqueeze(1)).sum();
}

std::vector<at::Tensor> sequences_of(const std::vector<std::int64_t>& numbers,
                                     const std::vector<std::int64_t>& lengths) {
  const at::Tensor all = at::tensor(numbers, at::kLong);
  std::vector<at::Tensor> sequences;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    sequences.push_back(all.narrow(0, begin, length));
    begin += length;
  }
  return sequences;
}

at::Tensor sum_over_sequences(
    const Pass& pass, const SampleBatch& sample,
    const std::function<at::Tensor(const Pass& pass, const at::Tensor& ids)>& logits) {
  const std::vector<at::Tensor> ids = sequences_of(sample.ids, sample.lengths);
  const std::vector<at::Tensor> targets = sequences_of(sample.targets, sample.lengths);
  Pass here = pass;
  at::Tensor sum;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const at::Tensor loss = cross_entropy(logits(here, ids[i]), targets[i]);
    sum = sum.defined() ? sum + loss : loss;
    here.place += ids[i].size(0);
  }
  return sum;
}

}  // namespace echelon::reference
