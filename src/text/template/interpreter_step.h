#pragma once
#include "base/not_copied.h"
#include "text/template/interpreter.h"

namespace echelon::data::jinja {

class Interpreter::Step : NotCopied {
 public:
  Step(Interpreter& interpreter, const Node& node);
  ~Step() { --interpreter_.depth_; }

 private:
  Interpreter& interpreter_;
};

}  // namespace echelon::data::jinja
