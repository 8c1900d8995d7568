#pragma once
#include <streambuf>
#include <string>

#include "base/error.h"
#include "base/not_copied.h"

namespace echelon {

/// While it lives, std::cout passes through terminal_text() line by line: names chosen by others cannot
/// control the terminal. One at a time, created by main().
class TerminalOutput : NotCopied {
 public:
  TerminalOutput();
  ~TerminalOutput();

 private:
  class Lines : public std::streambuf {
   public:
    explicit Lines(std::streambuf* to) : to_(to) {}
    [[nodiscard]] std::streambuf* target() const { return to_; }

   protected:
    int_type overflow(int_type c) override;
    std::streamsize xsputn(const char* text, std::streamsize size) override;
    int sync() override;

   private:
    bool pass_on(std::size_t size);
    std::streambuf* to_;
    std::string kept_;
  };

  Lines lines_;
};

/// At a command's end: flushes standard output. Throws Error(kEnvironment) if not everything was written, as
/// on a full disk or a closed pipe.
void finish_standard_output();
/// Returns the error that a failed write throws.
[[nodiscard]] Error standard_output_error();

}  // namespace echelon
