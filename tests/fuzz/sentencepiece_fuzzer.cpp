// Any bytes as a sentencepiece model, or as the two tables of one: loading must end in success or in Error,
// and what is loaded must encode any text and decode any ids.
#include <sentencepiece_trainer.h>

#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fuzz/refused.h"
#include "support/sentencepiece_model.h"
#include "text/sentencepiece/sentencepiece_tokenizer.h"

namespace {

using echelon::testing::SentencepieceModel;

/// In front of an input that is a table. No model begins with it.
constexpr char kTable = 'T';

/// Some text to train on.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  [[nodiscard]] bool done() const override { return number_ == 200; }
  void Next() override { line_ = "the heat of ﬁre " + std::to_string(++number_ * 37) + " 日本 ｱ ½"; }
  [[nodiscard]] const std::string& value() const override { return line_; }
  [[nodiscard]] sentencepiece::util::Status status() const override { return {}; }

 private:
  int number_ = 0;
  std::string line_ = "first";
};

/// A model as people make them, with the table of that normalization.
std::string trained(const char* type, const char* normalization) {
  std::string model;
  Lines lines;
  const std::unordered_map<std::string, std::string> settings{
      {"model_type", type},          {"normalization_rule_name", normalization}, {"vocab_size", "60"},
      {"hard_vocab_limit", "false"}, {"user_defined_symbols", "<sep>,<sep2>"},   {"minloglevel", "3"}};
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &lines, &model);
  if (!status.ok()) std::abort();
  return model;
}

std::string model_with(std::string_view table) {
  using Type = SentencepieceModel::Type;
  return SentencepieceModel()
      .piece("<unk>", 0, Type::kUnknown)
      .piece("\xE2\x96\x81", -1)
      .piece("a", -2)
      .piece("fi", -3)
      .piece("<x>", 0, Type::kUserDefined)
      .table(table)
      .denormalizer_table(table)
      .bytes();
}

void use(std::string_view model, std::string_view text) {
  const echelon::data::SentencepieceTokenizer tokenizer(model, "fuzzed");
  const auto encoder = tokenizer.make_encoder();
  for (const std::string_view part : {std::string_view("the ﬁ aab abc<x><sep2> \t\n\xFF\xE3 日本 ｱ"), text}) {
    std::vector<std::int32_t> ids;
    encoder->encode(part, ids);
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= tokenizer.vocab_size()) __builtin_trap();
    }
    (void)tokenizer.decode(ids);
  }
  std::vector<std::int32_t> all(static_cast<std::size_t>(tokenizer.vocab_size()));
  std::iota(all.begin(), all.end(), 0);
  (void)tokenizer.decode(all);
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  using echelon::testing::normalizer_table;
  const std::string small = normalizer_table({{"a", "b"}, {"ab", "fi"}, {"\xEF\xAC\x81", "fi"}, {"\t", " "}});
  std::vector<std::string> seeds{kTable + small, model_with(small), model_with(""),
                                 trained("bpe", "identity"), trained("unigram", "nmt_nfkc_cf")};
  for (const std::string& seed : seeds) {  // a seed that is refused would test nothing
    use(seed[0] == kTable ? model_with(seed.substr(1)) : seed, "");
  }
  return seeds;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const bool table = bytes.starts_with(kTable);
  if (table) bytes.remove_prefix(1);
  used_or_refused(echelon::Code::kData,
                  [&] { use(table ? model_with(bytes) : std::string(bytes), bytes.substr(0, 100)); });
  return 0;
}
