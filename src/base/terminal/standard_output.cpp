#include "base/terminal/standard_output.h"

#include <cstdio>
#include <iostream>

#include "base/foreign_text.h"

namespace echelon {

TerminalOutput::TerminalOutput() : lines_(std::cout.rdbuf()) {
  std::cout.rdbuf(&lines_);
}

TerminalOutput::~TerminalOutput() {
  std::cout.flush();
  std::cout.rdbuf(lines_.target());
}

bool TerminalOutput::Lines::pass_on(std::size_t size) {
  const std::string text = terminal_text(std::string_view(kept_).substr(0, size));
  kept_.erase(0, size);
  return to_->sputn(text.data(), static_cast<std::streamsize>(text.size())) ==
         static_cast<std::streamsize>(text.size());
}

std::streamsize TerminalOutput::Lines::xsputn(const char* text, std::streamsize size) {
  kept_.append(text, static_cast<std::size_t>(size));
  const std::size_t end = kept_.rfind('\n');
  return end == std::string::npos || pass_on(end + 1) ? size : 0;
}

TerminalOutput::Lines::int_type TerminalOutput::Lines::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char one = traits_type::to_char_type(c);
  return xsputn(&one, 1) == 1 ? c : traits_type::eof();
}

int TerminalOutput::Lines::sync() {
  return pass_on(kept_.size()) ? to_->pubsync() : -1;
}

void finish_standard_output() {
  std::cout.flush();
  const bool whole = std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!whole) throw standard_output_error();
}

Error standard_output_error() {
  return {Code::kEnvironment, "cannot write to standard output (full disk, or a pipe that was closed)"};
}

}  // namespace echelon
