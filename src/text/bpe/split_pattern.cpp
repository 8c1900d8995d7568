#include "text/bpe/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "text/bpe/pattern_syntax.h"

namespace echelon::data {
namespace {

// A \p{..} with all its additions is about 2 KB; patterns in use are far smaller than this limit.
constexpr std::size_t kLongestPattern = 10000;

std::string message_of(int error) {
  std::array<PCRE2_UCHAR8, 256> text{};
  pcre2_get_error_message_8(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

}  // namespace

struct SplitPattern::Compiled {
  std::unique_ptr<pcre2_code_8, Deleter<pcre2_code_free_8>> code;
  std::string field;
};

SplitPattern::SplitPattern(std::string_view pattern, const std::string& field)
    : SplitPattern(pcre2_syntax(pattern.substr(0, kLongestPattern + 1), field), field,
                   // Ruby's ^ and $ match at every line.
                   PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C) {
  if (pattern.size() > kLongestPattern)
    throw Error(Code::kData, field, " is longer than ", kLongestPattern, " bytes");
}

SplitPattern SplitPattern::literal(std::string_view text, std::string field) {
  return {text, std::move(field), PCRE2_UTF | PCRE2_LITERAL};
}

SplitPattern::SplitPattern(std::string_view pattern, std::string field, unsigned options) {
  const std::unique_ptr<pcre2_compile_context_8, Deleter<pcre2_compile_context_free_8>> context(
      pcre2_compile_context_create_8(nullptr));
  pcre2_set_newline_8(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  std::size_t offset = 0;
  auto compiled = std::make_shared<Compiled>();
  compiled->code.reset(pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(pattern.data()), pattern.size(), options,
                                       &error, &offset, context.get()));
  if (!compiled->code) {
    throw Error(Code::kData, field, " holds a regular expression that cannot be used: ", message_of(error));
  }
  // Without the JIT (no support, or no memory) matching is slower, with the same results.
  (void)pcre2_jit_compile_8(compiled->code.get(), PCRE2_JIT_COMPLETE);
  compiled->field = std::move(field);
  compiled_ = std::move(compiled);
}

struct SplitPattern::Matcher::State {
  std::shared_ptr<const Compiled> compiled;
  std::unique_ptr<pcre2_match_data_8, Deleter<pcre2_match_data_free_8>> data;
  std::unique_ptr<pcre2_match_context_8, Deleter<pcre2_match_context_free_8>> context;
  std::unique_ptr<pcre2_jit_stack_8, Deleter<pcre2_jit_stack_free_8>> stack;
};

SplitPattern::Matcher::Matcher(const SplitPattern& pattern) : state_(std::make_unique<State>()) {
  constexpr std::size_t kFirstStack = std::size_t{1} << 15;
  constexpr std::size_t kLargestStack = std::size_t{1} << 24;
  state_->compiled = pattern.compiled_;
  state_->data.reset(pcre2_match_data_create_8(1, nullptr));
  state_->context.reset(pcre2_match_context_create_8(nullptr));
  state_->stack.reset(pcre2_jit_stack_create_8(kFirstStack, kLargestStack, nullptr));
  pcre2_jit_stack_assign_8(state_->context.get(), nullptr, state_->stack.get());
}

SplitPattern::Matcher::Matcher(Matcher&&) noexcept = default;
SplitPattern::Matcher::~Matcher() = default;

std::optional<TextSpan> SplitPattern::Matcher::find(std::string_view text, std::size_t from) const {
  const int result =
      pcre2_match_8(state_->compiled->code.get(), reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(),
                    from, PCRE2_NO_UTF_CHECK, state_->data.get(), state_->context.get());
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) {
    throw Error(Code::kData, "cannot split text by the regular expression of ", state_->compiled->field, ": ",
                message_of(result));
  }
  const std::size_t* ends = pcre2_get_ovector_pointer_8(state_->data.get());
  return TextSpan{ends[0], ends[1]};
}

}  // namespace echelon::data
