#include "app/submit/words.h"

#include "base/error.h"
#include "base/str.h"

namespace echelon::submit {
namespace {

constexpr std::size_t kLongest = 1024;
constexpr std::string_view kTask = "{task}";

struct Rule {
  std::string_view beside;    ///< allowed in addition to letters and digits
  std::string_view first;     ///< also allowed as first character; "/" alone: nothing but '/'
  std::string_view expected;  ///< description for messages
};

Rule rule_of(Word word) {
  switch (word) {
    case Word::kJobName: return {"._-", "_", "letters, digits, '.', '_', '-'"};
    case Word::kName: return {"._@-", "_", "letters, digits, '.', '_', '@', '-'"};
    case Word::kNames:
      return {"._-,", "_", "names of letters, digits, '.', '_', '-', with commas between them"};
    case Word::kNodes: return {"._-,[]", "", "nodes such as n1,n[3-5]"};
    case Word::kConstraint: return {"._-,&|*()[]:", "_([", "features such as a100&ssd or [rack1|rack2]"};
    case Word::kGres: return {"._-,:", "_", "resources such as gpu:h100:8"};
    case Word::kImage:
      return {"._-+@:/#=", "/._",
              "a file or an image such as docker://ubuntu:24.04, of letters, digits and . _ - + @ : / # ="};
    case Word::kPath: return {"._-+@=/", "/", "an absolute path of letters, digits and . _ - + @ = /"};
    case Word::kMounts:
      return {"._-+@=/:,", "/", "absolute paths FROM:TO or FROM:TO:ro, with commas between them"};
    case Word::kProgram: break;
  }
  return {"._-+@=/", "/._", "a program's path or name, of letters, digits and . _ - + @ = /"};
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

[[noreturn]] void refuse(const Rule& rule, std::string_view what, const std::string& text,
                         const std::string& why) {
  throw Error(Code::kUsage, what, " is '", printable(text), "': ", why, "; expected ", rule.expected);
}

}  // namespace

const std::string& checked(Word word, std::string_view what, const std::string& text) {
  const Rule rule = rule_of(word);
  if (text.empty()) refuse(rule, what, text, "it is empty");
  if (text.size() > kLongest) refuse(rule, what, text, str("it is longer than ", kLongest, " characters"));
  const bool absolute = rule.first == "/";
  if ((absolute || !is_plain(text[0])) && rule.first.find(text[0]) == rule.first.npos)
    refuse(rule, what, text, str("it starts with '", printable(text.substr(0, 1)), "'"));
  for (const char c : text) {
    if (!is_plain(c) && rule.beside.find(c) == rule.beside.npos)
      refuse(rule, what, text, str("a job script cannot hold '", printable({&c, 1}), "' there"));
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
