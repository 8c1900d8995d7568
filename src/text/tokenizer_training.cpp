#include "text/tokenizer_training.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace echelon::data {
namespace {

class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::vector<std::string>& lines) : at_(lines.begin()), end_(lines.end()) {}
  [[nodiscard]] bool done() const override { return at_ == end_; }
  void Next() override { ++at_; }
  [[nodiscard]] const std::string& value() const override { return *at_; }
  [[nodiscard]] sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string>::const_iterator at_;
  std::vector<std::string>::const_iterator end_;
};

}  // namespace

std::string train_tokenizer(const std::vector<std::string>& lines, std::int64_t vocab_size) {
  // num_threads is stored in the model: fixed, so that every machine makes the same file.
  const std::unordered_map<std::string, std::string> settings{
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(vocab_size)},
      {"hard_vocab_limit", "false"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"byte_fallback", "true"},
      {"split_digits", "true"},
      {"character_coverage", "0.9995"},
      {"user_defined_symbols", "\n,\t"},
      {"max_sentence_length", "1000000"},
      {"num_threads", "2"},
      {"minloglevel", "2"},
  };
  Lines iterator(lines);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &iterator, &model);
  if (!status.ok()) {
    std::string reason = status.ToString();
    std::ranges::replace(reason, '\n', ' ');
    // The trainer's advice is about options that are not available here.
    const std::string too_small =
        "Vocabulary size is smaller than required_chars. " + std::to_string(vocab_size) + " vs ";
    if (const auto at = reason.find(too_small); at != std::string::npos) {
      throw Error(Code::kData, "cannot train a tokenizer of ", vocab_size,
                  " pieces: the characters of this text need ",
                  std::atoll(reason.c_str() + at + too_small.size()),
                  "; raise --train-tokenizer to that or more");
    }
    throw Error(Code::kData, "cannot train a tokenizer of ", vocab_size, " pieces: ", reason);
  }
  return model;
}

}  // namespace echelon::data
