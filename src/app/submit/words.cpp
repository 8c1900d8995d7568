#include "app/submit/words.h"

#include "base/error.h"
#include "base/str.h"

namespace echelon::submit {
namespace {

constexpr std::size_t kLongest = 1024;
constexpr std::string_view kTask = "{task}";

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

[[noreturn]] void refuse(const Word& word, std::string_view what, const std::string& text,
                         const std::string& why) {
  throw Error(Code::kUsage, what, " is '", printable(text), "': ", why, "; expected ", word.expected);
}

}  // namespace

const std::string& checked(const Word& word, std::string_view what, const std::string& text) {
  if (text.empty()) refuse(word, what, text, "it is empty");
  if (text.size() > kLongest) refuse(word, what, text, str("it is longer than ", kLongest, " characters"));
  const bool absolute = word.first == "/";
  if ((absolute || !is_plain(text[0])) && word.first.find(text[0]) == word.first.npos)
    refuse(word, what, text, str("it starts with '", printable(text.substr(0, 1)), "'"));
  for (const char c : text) {
    if (!is_plain(c) && word.beside.find(c) == word.beside.npos)
      refuse(word, what, text, str("a job script cannot hold '", printable({&c, 1}), "' there"));
  }
  return text;
}

std::string in_quotes(const std::string& checked_text) {
  return str('"', with_task(checked_text, "${SLURM_ARRAY_TASK_ID}"), '"');
}

std::string with_task(std::string text, std::string_view replacement) {
  for (std::size_t at = text.find(kTask); at != text.npos; at = text.find(kTask, at + replacement.size()))
    text.replace(at, kTask.size(), replacement);
  return text;
}

}  // namespace echelon::submit
