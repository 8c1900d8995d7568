#include "text/bpe/tokenizer_steps.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/foreign_text.h"
#include "text/base64.h"

namespace echelon::data {
namespace {

template <class Value, std::size_t kCount>
std::optional<Value> value_named(std::string_view name,
                                 const std::array<std::pair<std::string_view, Value>, kCount>& names) {
  for (const auto& [known, value] : names) {
    if (name == known) return value;
  }
  return std::nullopt;
}

SplitBehavior read_behavior(const JsonField& field) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames{
      {{"Removed", SplitBehavior::kRemoved},
       {"Isolated", SplitBehavior::kIsolated},
       {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
       {"MergedWithNext", SplitBehavior::kMergedWithNext},
       {"Contiguous", SplitBehavior::kContiguous}}};
  if (const auto behavior = value_named(field.text(), kNames)) return *behavior;
  field.refuse("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

SplitStep read_split(const JsonField& step) {
  const JsonField pattern = step.at("pattern");
  const auto literal = pattern.find("String");
  const JsonField text = literal ? *literal : pattern.at("Regex");
  return {.pattern = literal ? SplitPattern::literal(token_text(text), text.path())
                             : SplitPattern(token_text(text), text.path()),
          .invert = step.boolean("invert"),
          .behavior = read_behavior(step.at("behavior"))};
}

const std::string& read_character(const JsonField& field) {
  const std::string& text = token_text(field);
  if (utf8_length(text.substr(0, 4)) != text.size()) field.refuse("one character");
  return text;
}

const std::string& read_content(const JsonField& step) {
  const JsonField content = step.at("content");
  return content.text().empty() ? content.text() : token_text(content);
}

const std::string& read_replaced(const JsonField& step) {
  const JsonField pattern = step.at("pattern");
  if (pattern.find("Regex")) pattern.refuse("a String: no regular expression is supported here");
  return token_text(pattern.at("String"));
}

/// Files of tokenizers 0.14 and older have add_prefix_space; where it is false, the scheme must say so too.
MetaspaceStep read_metaspace(const JsonField& step) {
  constexpr std::array<std::pair<std::string_view, PrependScheme>, 3> kNames{
      {{"always", PrependScheme::kAlways},
       {"first", PrependScheme::kFirst},
       {"never", PrependScheme::kNever}}};
  MetaspaceStep metaspace{.sign = read_character(step.at("replacement")),
                          .split = step.boolean("split", true)};
  if (const auto scheme = step.find("prepend_scheme")) {
    const auto known = value_named(scheme->text(), kNames);
    if (!known) scheme->refuse("always, first or never");
    metaspace.prepend = *known;
  }
  if (!step.boolean("add_prefix_space", true) && metaspace.prepend != PrependScheme::kNever)
    step.at("add_prefix_space").refuse("true, as prepend_scheme is not \"never\"");
  return metaspace;
}

NormalizerStep read_replace(const JsonField& step) {
  NormalizerStep replace{.kind = Normalization::kReplace, .content = read_content(step)};
  if (const auto regex = step.at("pattern").find("Regex")) {
    replace.regex = SplitPattern(token_text(*regex), regex->path());
  } else {
    replace.pattern = read_replaced(step);
  }
  return replace;
}

NormalizerStep read_precompiled(const JsonField& step) {
  const JsonField field = step.at("precompiled_charsmap");
  const auto table = from_base64(field.text());
  const std::string problem = table ? normalizer_table_problem(*table) : "it is not base64";
  if (!problem.empty()) throw Error(Code::kData, field.path(), " is no table of sentencepiece: ", problem);
  return {.kind = Normalization::kPrecompiled, .table = std::make_shared<NormalizerTable>(*table)};
}

NormalizerStep read_normalizer(const JsonField& step) {
  constexpr std::array<std::pair<std::string_view, Normalization>, 7> kPlain{
      {{"NFC", Normalization::kNfc},
       {"NFD", Normalization::kNfd},
       {"NFKC", Normalization::kNfkc},
       {"NFKD", Normalization::kNfkd},
       {"Nmt", Normalization::kNmt},
       {"Lowercase", Normalization::kLowercase},
       {"StripAccents", Normalization::kStripAccents}}};
  const JsonField type = step.at("type");
  if (const auto kind = value_named(type.text(), kPlain)) return {.kind = *kind};
  if (type.text() == "Replace") return read_replace(step);
  if (type.text() == "Precompiled") return read_precompiled(step);
  if (type.text() == "Prepend")
    return {.kind = Normalization::kPrepend, .content = token_text(step.at("prepend"))};
  if (type.text() == "Strip")
    return {.kind = Normalization::kStrip,
            .left = step.boolean("strip_left"),
            .right = step.boolean("strip_right")};
  type.refuse(
      "NFC, NFD, NFKC, NFKD, Nmt, Lowercase, Strip, StripAccents, Prepend, Replace, Precompiled or Sequence: "
      "no other normalizer is supported");
}

DecoderStep read_strip(const JsonField& step) {
  constexpr std::int32_t kMost = 1000;
  return {.kind = Decoding::kStrip,
          .pattern = read_character(step.at("content")),
          .start = step.at("start").integer(kMost),
          .stop = step.at("stop").integer(kMost)};
}

DecoderStep read_decoder(const JsonField& step) {
  const JsonField type = step.at("type");
  if (type.text() == "ByteFallback") return {.kind = Decoding::kByteFallback};
  if (type.text() == "Fuse") return {.kind = Decoding::kFuse};
  if (type.text() == "Strip") return read_strip(step);
  if (type.text() == "Replace")
    return {.kind = Decoding::kReplace, .pattern = read_replaced(step), .content = read_content(step)};
  if (type.text() == "Metaspace") {
    const MetaspaceStep metaspace = read_metaspace(step);
    return {.kind = Decoding::kMetaspace,
            .pattern = metaspace.sign,
            .drops_first = metaspace.prepend != PrependScheme::kNever};
  }
  type.refuse(
      "Replace, ByteFallback, Fuse, Strip, Metaspace or a Sequence of them, as the pre-tokenizer has no "
      "ByteLevel step");
}

}  // namespace

const std::string& token_text(const JsonField& field) {
  const std::string& text = field.text();
  if (text.empty() || text.size() > kLongestToken)
    field.refuse(str("a text of 1 to ", kLongestToken, " bytes"));
  return text;
}

std::vector<JsonField> steps_of(const std::optional<JsonField>& step, const char* name) {
  if (!step) return {};
  if (step->at("type").text() != "Sequence") return {*step};
  std::vector<JsonField> all;
  for (const JsonField& inner : step->at(name).items(kMostSteps)) {
    for (JsonField& found : steps_of(inner, name)) all.push_back(std::move(found));
  }
  if (all.size() > kMostSteps) step->refuse(str("at most ", kMostSteps, " steps"));
  return all;
}

std::vector<NormalizerStep> read_normalizers(const JsonField& root) {
  std::vector<NormalizerStep> all;
  for (const JsonField& step : steps_of(root.find("normalizer"), "normalizers"))
    all.push_back(read_normalizer(step));
  return all;
}

void read_pre_tokenizers(const JsonField& root, TokenizerSteps& out) {
  const auto steps = steps_of(root.find("pre_tokenizer"), "pretokenizers");
  for (const JsonField& step : steps) {
    const JsonField type = step.at("type");
    if (out.byte_level) type.refuse("nothing after the ByteLevel step");
    if (out.metaspace) type.refuse("nothing after the Metaspace step");
    if (type.text() == "Split") {
      out.splits.push_back(read_split(step));
    } else if (type.text() == "Digits") {
      const bool each = step.boolean("individual_digits");
      out.splits.push_back({.pattern = SplitPattern("\\p{N}", step.path()),
                            .behavior = each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous});
    } else if (type.text() == "WhitespaceSplit") {
      out.splits.push_back(
          {.pattern = SplitPattern("\\s", step.path()), .behavior = SplitBehavior::kRemoved});
    } else if (type.text() == "ByteLevel") {
      out.byte_level = {.add_prefix_space = step.boolean("add_prefix_space"),
                        .use_regex = step.boolean("use_regex", true)};
    } else if (type.text() == "Metaspace") {
      out.metaspace = read_metaspace(step);
    } else {
      type.refuse(
          "Split, Digits, WhitespaceSplit, ByteLevel, Metaspace or a Sequence of them: no other "
          "pre-tokenizer is supported");
    }
  }
}

void read_decoders(const JsonField& root, TokenizerSteps& out) {
  if (!out.byte_level) {
    for (const JsonField& step : steps_of(root.at("decoder"), "decoders")) {
      out.decoders.push_back(read_decoder(step));
    }
  } else if (const auto decoder = root.find("decoder")) {
    const JsonField type = decoder->at("type");
    if (type.text() != "ByteLevel") type.refuse("ByteLevel, as the pre-tokenizer has such a step");
  }
}

}  // namespace echelon::data
