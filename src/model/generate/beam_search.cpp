#include "model/generate/beam_search.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace echelon {
namespace {

/// Log probability of beams that do not exist yet: all but the first start with it, as in transformers, or
/// the first step would choose the same token for every beam.
constexpr float kNoBeam = -1e9F;

struct Beam {
  std::vector<std::int64_t> ids;
  float score = 0;  ///< log probability; of a finished one divided by its length penalty
};

/// A beam of the previous step and a token that may follow it.
struct Candidate {
  float score;
  std::int64_t beam;
  std::int64_t id;
};

/// The search for one prompt's continuation.
class PromptSearch {
 public:
  explicit PromptSearch(const GenerateOptions& options)
      : options_(options), running_(static_cast<std::size_t>(options.beams)) {
    for (std::size_t i = 1; i < running_.size(); ++i) running_[i].score = kNoBeam;
  }

  [[nodiscard]] const std::vector<Beam>& running() const { return running_; }
  [[nodiscard]] bool improvable() const { return improvable_; }

  /// `candidates`: the best ones, best first. Returns the previous beams that the running ones continue.
  std::vector<std::int64_t> advance(const std::vector<Candidate>& candidates) {
    const auto beams = static_cast<std::size_t>(options_.beams);
    const auto length = static_cast<std::int64_t>(running_.front().ids.size()) + 1;
    const auto penalty = static_cast<float>(std::pow(static_cast<double>(length), options_.length_penalty));
    std::vector<Beam> next;
    std::vector<std::int64_t> origins;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& c = candidates[i];
      const bool ends = options_.ends(c.id) || length == options_.max_new_tokens;
      // transformers' rule: an ending counts only among the best `beams` candidates.
      if (ends && (i >= beams || !improvable_)) continue;
      if (!ends && next.size() == beams) continue;
      Beam beam{running_[static_cast<std::size_t>(c.beam)].ids, c.score};
      beam.ids.push_back(c.id);
      if (ends) {
        beam.score /= penalty;
        finish(std::move(beam));
      } else {
        next.push_back(std::move(beam));
        origins.push_back(c.beam);
      }
    }
    if (next.empty()) {  // every possible continuation has ended
      improvable_ = false;
      return {};
    }
    while (next.size() < beams) {  // fewer candidates than beams: a very small vocabulary
      next.push_back({next.front().ids, kNoBeam});
      origins.push_back(origins.front());
    }
    running_ = std::move(next);
    // early_stopping=False: goes on until the best running beam, if it ended now, could not beat the worst
    // finished one.
    improvable_ = improvable_ &&
                  (finished_.size() < beams || running_.front().score / penalty > finished_.back().score);
    return origins;
  }

  /// The best continuation, without the token that ends it.
  [[nodiscard]] std::vector<std::int64_t> best() const {
    std::vector<std::int64_t> ids = (finished_.empty() ? running_ : finished_).front().ids;
    if (!ids.empty() && options_.ends(ids.back())) ids.pop_back();
    return ids;
  }

 private:
  /// Keeps the best, earlier ones before equal ones.
  void finish(Beam beam) {
    const auto place = std::upper_bound(finished_.begin(), finished_.end(), beam.score,
                                        [](float score, const Beam& b) { return score > b.score; });
    finished_.insert(place, std::move(beam));
    if (finished_.size() > static_cast<std::size_t>(options_.beams)) finished_.pop_back();
  }

  const GenerateOptions& options_;
  std::vector<Beam> running_;   ///< best first
  std::vector<Beam> finished_;  ///< best first
  bool improvable_ = true;
};

/// The best continuations of each prompt's beams, best first.
std::vector<std::vector<Candidate>> candidates_of(const at::Tensor& logits,
                                                  const std::vector<PromptSearch>& searches,
                                                  const GenerateOptions& options) {
  const std::int64_t beams = options.beams;
  // So many that at least `beams` of them do not end.
  const std::int64_t count = std::max<std::int64_t>(2, 1 + std::ssize(options.end_ids)) * beams;
  const auto prompts = static_cast<std::int64_t>(searches.size());
  const std::int64_t vocabulary = logits.size(1);
  at::Tensor scores = at::empty({prompts * beams, 1}, at::kFloat);
  float* score = scores.mutable_data_ptr<float>();
  for (const PromptSearch& search : searches) {
    for (const Beam& beam : search.running()) *score++ = beam.score;
  }
  const at::Tensor sums =
      (at::log_softmax(logits, 1) + scores.to(logits.device())).view({prompts, beams * vocabulary});
  const auto [top, places] = sums.topk(std::min(count, beams * vocabulary), 1);
  const at::Tensor top_host = top.cpu();
  const at::Tensor places_host = places.cpu();
  std::vector<std::vector<Candidate>> all(searches.size());
  for (std::int64_t p = 0; p < prompts; ++p) {
    const float* value = top_host.const_data_ptr<float>() + p * top_host.size(1);
    const std::int64_t* place = places_host.const_data_ptr<std::int64_t>() + p * top_host.size(1);
    for (std::int64_t i = 0; i < top_host.size(1); ++i) {
      all[static_cast<std::size_t>(p)].push_back({value[i], place[i] / vocabulary, place[i] % vocabulary});
    }
  }
  return all;
}

/// For each row of the next step: the decoder's row it continues, and its token.
struct Step {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> ids;
};

/// Advances every unfinished search. A finished one keeps its rows in the batch, with arbitrary tokens.
Step advance(std::vector<PromptSearch>& searches, const std::vector<std::vector<Candidate>>& candidates,
             std::int64_t beams) {
  Step step;
  for (std::size_t p = 0; p < searches.size(); ++p) {
    std::vector<std::int64_t> origins;
    if (searches[p].improvable()) origins = searches[p].advance(candidates[p]);
    for (std::size_t b = 0; b < static_cast<std::size_t>(beams); ++b) {
      const bool runs = b < origins.size();
      step.rows.push_back(static_cast<std::int64_t>(p) * beams + (runs ? origins[b] : 0));
      step.ids.push_back(runs ? searches[p].running()[b].ids.back() : 0);
    }
  }
  return step;
}

}  // namespace

std::vector<std::vector<std::int64_t>> beam_search(Decoder& decoder, std::int64_t prompts,
                                                   const GenerateOptions& options,
                                                   const AnyUnfinished& any_unfinished) {
  const std::int64_t beams = options.beams;
  std::vector<PromptSearch> searches(static_cast<std::size_t>(prompts), PromptSearch(options));
  at::Tensor logits = decoder.start();
  const at::Tensor repeated = at::arange(prompts, at::kLong).repeat_interleave(beams).to(logits.device());
  decoder.reorder(repeated);
  logits = logits.index_select(0, repeated);
  for (std::int64_t place = 0;; ++place) {
    const Step step = advance(searches, candidates_of(logits, searches, options), beams);
    if (place + 1 == options.max_new_tokens) break;
    const bool unfinished =
        std::any_of(searches.begin(), searches.end(), [](const auto& s) { return s.improvable(); });
    if (!(any_unfinished ? any_unfinished(unfinished) : unfinished)) break;
    decoder.reorder(at::tensor(step.rows, at::kLong).to(logits.device()));
    logits = decoder.step(at::tensor(step.ids, at::kLong).to(logits.device()));
  }
  std::vector<std::vector<std::int64_t>> found;
  for (const PromptSearch& search : searches) found.push_back(search.best());
  return found;
}

}  // namespace echelon
