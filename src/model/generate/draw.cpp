#include "model/generate/draw.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/philox.h"
#include "base/str.h"

namespace echelon {

std::int64_t draw(const at::Tensor& logits, const GenerateOptions& options, std::int64_t prompt,
                  std::int64_t place) {
  const at::Tensor scaled = logits.to(at::kDouble) / options.temperature;
  const std::int64_t vocabulary = scaled.size(0);
  const std::int64_t kept = options.top_k > 0 ? std::min(options.top_k, vocabulary) : vocabulary;
  const auto [top, ids] = scaled.sort(/*stable=*/true, 0, /*descending=*/true);
  at::Tensor cumulative = at::softmax(top.narrow(0, 0, kept), 0).cumsum(0);
  const auto* shares = cumulative.const_data_ptr<double>();
  // The candidates end with the first token at which the cumulative probability reaches top_p.
  std::int64_t last = 0;
  while (last + 1 < kept && shares[last] < options.top_p) ++last;
  // A pure function of seed, prompt number and position, so neither the batch nor the rank changes the
  // token.
  const std::uint64_t key = stream_key(options.seed, str("sample/", prompt));
  const double chance =
      static_cast<double>(uniform_at(key, static_cast<std::uint64_t>(place))) * shares[last];
  const auto* drawn = std::upper_bound(shares, shares + last, chance);
  return ids[drawn - shares].item<std::int64_t>();
}

}  // namespace echelon
