#include "text/special_ids.h"

#include <algorithm>
#include <utility>

#include "base/foreign_json.h"
#include "base/str.h"
#include "text/json_field.h"

namespace echelon {
namespace {

using data::JsonField;

constexpr std::int32_t kLargestId = 0x7FFFFFFE;
constexpr std::size_t kMostEnds = 1000;

class EndedTokenizer final : public Tokenizer {
 public:
  EndedTokenizer(std::unique_ptr<const Tokenizer> inner, std::int32_t eos) : inner_(std::move(inner)) {
    set_facts({.vocab_size = std::max<std::int64_t>(inner_->vocab_size(), eos + std::int64_t{1}),
               .bos_id = inner_->bos_id(),
               .eos_id = eos,
               .digest = inner_->digest()});
  }
  [[nodiscard]] std::unique_ptr<TextEncoder> make_encoder() const override { return inner_->make_encoder(); }
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const override {
    std::vector<std::int32_t> known;  // the end gives no text
    std::ranges::copy_if(ids, std::back_inserter(known), [&](auto id) { return id != eos_id(); });
    return inner_->decode_any(known);
  }
  [[nodiscard]] std::string name_of(std::int32_t id) const override { return inner_->name_of(id); }
  [[nodiscard]] std::string piece_of(std::int32_t id) const override {
    return id < inner_->vocab_size() ? inner_->piece_of(id) : "";
  }

 private:
  std::unique_ptr<const Tokenizer> inner_;
};

std::int32_t id_of(const Tokenizer& tokenizer, const std::string& name) {
  for (std::int32_t id = 0; !name.empty() && id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.name_of(id) == name) return id;
  }
  return -1;
}

}  // namespace

std::vector<std::int32_t> end_ids_of(const std::string& config, const std::string& what) {
  const nlohmann::json json = parse_foreign_json(config, what, Code::kData);
  const auto field = JsonField(json, what).find("eos_token_id");
  if (!field) return {};
  if (!field->json().is_array()) return {field->integer(kLargestId)};
  return mapped(field->items(kMostEnds), [](const JsonField& id) { return id.integer(kLargestId); });
}

std::int32_t document_end(const SpecialIds& ids, const Tokenizer& tokenizer) {
  const auto ends = [&](std::int32_t id) {
    return id >= 0 && (ids.ends.empty() || std::ranges::find(ids.ends, id) != ids.ends.end());
  };
  if (const std::int32_t named = id_of(tokenizer, ids.end_token); ends(named)) return named;
  return ids.ends.empty() || ends(tokenizer.eos_id()) ? tokenizer.eos_id() : ids.ends.front();
}

std::unique_ptr<const Tokenizer> ending_with(std::unique_ptr<const Tokenizer> tokenizer, std::int32_t eos) {
  if (eos < 0 || eos == tokenizer->eos_id()) return tokenizer;
  return std::make_unique<EndedTokenizer>(std::move(tokenizer), eos);
}

}  // namespace echelon
