#include "base/foreign_numbers.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/str.h"

namespace echelon {
namespace {

constexpr std::size_t kDeepest = 8;

}  // namespace

/// Notes numbers as they come.
class ForeignNumbers::Collector : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Collector(ForeignNumbers& to) : to_(to) {}
  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool null() override { return add(std::nan("")); }
  bool boolean(bool) override { return past(); }
  bool number_integer(number_integer_t value) override { return add(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t& spelling) override {
    return std::isfinite(value) ? add(value)
                                : fail(str("number ", printable(spelling, 40), " is out of range"));
  }
  bool string(string_t&) override { return past(); }
  bool binary(binary_t&) override { return fail("binary value"); }
  bool start_object(std::size_t) override { return open(false); }
  bool start_array(std::size_t) override { return opened_.empty() ? fail("no object") : open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    to_.path_.resize(opened_.back().path_size);
    if (!to_.path_.empty()) to_.path_ += '.';
    to_.path_ += name;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(str("not valid JSON at byte ", position));
  }

 private:
  struct Opened {
    bool list;
    std::size_t path_size;
  };
  bool fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }
  bool past() { return opened_.empty() ? fail("no object") : true; }
  bool add(double value) {
    if (opened_.empty()) return fail("no object");
    if (opened_.back().list || lists_ > 0) return true;
    to_.numbers_.push_back({to_.names_.size(), to_.path_.size(), value});
    to_.names_ += to_.path_;
    return true;
  }
  bool open(bool list) {
    if (opened_.size() >= kDeepest) return fail(str("nested deeper than ", kDeepest, " levels"));
    lists_ += list ? 1 : 0;
    opened_.push_back({list, to_.path_.size()});
    return true;
  }
  bool close() {
    lists_ -= opened_.back().list ? 1 : 0;
    opened_.pop_back();
    return true;
  }

  ForeignNumbers& to_;
  std::vector<Opened> opened_;
  int lists_ = 0;
  std::string problem_;
};

std::string ForeignNumbers::read(std::string_view text, std::size_t max_bytes) {
  numbers_.clear();
  names_.clear();
  path_.clear();
  if (text.size() > max_bytes) return str(text.size(), " bytes, expected at most ", max_bytes);
  if (text.find('\0') != std::string_view::npos) return "not valid JSON: it holds a zero byte";
  Collector collector(*this);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &collector)) return "";
  return collector.problem().empty() ? "not valid JSON" : collector.problem();
}

}  // namespace echelon
