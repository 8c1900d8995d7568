#pragma once
#include <cstdlib>
#include <optional>
#include <string>

namespace echelon::test {

/// A variable of the environment as long as this object lives.
class Variable {
 public:
  using Value = std::optional<std::string>;  ///< nothing: it is not set

  Variable(const char* name, const Value& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(before_); }

  void set(const Value& value) {
    if (value) {
      ::setenv(name_, value->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  Value before_;
};

}  // namespace echelon::test
