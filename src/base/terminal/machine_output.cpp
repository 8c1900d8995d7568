#include "base/terminal/machine_output.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <streambuf>

#include "base/foreign_text.h"
#include "base/not_copied.h"
#include "base/process/process.h"

namespace echelon {
namespace {

/// The launcher gives its ranks --json=true.
bool asks_for_json(const std::vector<std::string>& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::any_of(words.begin(), end,
                     [](const std::string& word) { return word == "--json" || word == "--json=true"; });
}

}  // namespace

/// Passes everything on and records whether anything was printed.
class MachineOutput::Watch final : public std::streambuf, NotCopied {
 public:
  Watch() : below_(std::cout.rdbuf(this)) {}
  ~Watch() override { std::cout.rdbuf(below_); }
  [[nodiscard]] bool any() const { return any_; }

 protected:
  int_type overflow(int_type c) override {
    any_ = true;
    return traits_type::eq_int_type(c, traits_type::eof()) ? traits_type::not_eof(c)
                                                           : below_->sputc(traits_type::to_char_type(c));
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    any_ = any_ || count > 0;
    return below_->sputn(text, count);
  }
  int sync() override { return below_->pubsync(); }

 private:
  std::streambuf* below_;
  bool any_ = false;
};

MachineOutput::MachineOutput(bool json)
    : wanted_(json && first_of_step()), watch_(std::make_unique<Watch>()) {}

MachineOutput::MachineOutput(const std::vector<std::string>& words) : MachineOutput(asks_for_json(words)) {}

MachineOutput::~MachineOutput() = default;

void MachineOutput::report(const Error& error) {
  if (!wanted_ || watch_->any() || error.is_reported()) return;
  const nlohmann::ordered_json object{
      {"error", {{"code", static_cast<int>(error.code())}, {"message", error.what()}}}};
  std::cout << json_text(object) << std::endl;
}

}  // namespace echelon
