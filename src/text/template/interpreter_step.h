#pragma once
#include "text/template/interpreter.h"

namespace echelon::data::jinja {

class Interpreter::Step {
 public:
  Step(Interpreter& interpreter, const Node& node);
  ~Step() { --interpreter_.depth_; }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

 private:
  Interpreter& interpreter_;
};

}  // namespace echelon::data::jinja
