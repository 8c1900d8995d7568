#include "book/timing.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <memory>
#include <vector>

#include "base/steady_time.h"
#include "book/books.h"
#include "book/dispatch.h"
#include "book/operations.h"
#include "book/stopwatch.h"

namespace echelon::book {
namespace {

/// Operations are counted where they are kernels, and not again within one another.
thread_local int depth = 0;

struct Started final : at::ObserverContext {
  double before_s = 0;  ///< since the previous work
  double began_s = 0;
  bool recorded = false;               ///< is a kernel
  bool counts = false;                 ///< and not within another
  std::vector<c10::IValue> arguments;  ///< copied, because they are gone when the operation ends
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  const double now_s = steady_now_s();
  auto started = std::make_unique<Started>();
  const auto name = function.operator_name();
  started->recorded = name && is_recorded(*name);
  started->counts = started->recorded && depth == 0;
  if (started->recorded) ++depth;
  if (started->counts) {
    started->before_s = stopwatch::since_previous(now_s);
    const auto inputs = function.inputs();
    started->arguments.assign(inputs.begin(), inputs.end());
  }
  stopwatch::set_aside(steady_now_s() - now_s);
  started->began_s = steady_now_s() - stopwatch::aside_s();
  return started;
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  const double now_s = steady_now_s();
  const auto* started = static_cast<const Started*>(context);
  if (started->recorded) --depth;
  if (!started->counts) return stopwatch::set_aside(steady_now_s() - now_s);
  const auto op = c10::Dispatcher::singleton().findOp(*function.operator_name());
  if (op && started->arguments.size() == op->schema().arguments().size()) {
    Books::here() = {.seconds = now_s - stopwatch::aside_s() - started->began_s,
                     .before_s = started->before_s};
    record(*op, started->arguments, function.outputs());
    Books::here() = {};
  }
  stopwatch::ended();
}

}  // namespace

Timing::Timing()
    : observer_(at::addGlobalCallback(at::RecordFunctionCallback(&begin, &end)
                                          .needsInputs(true)
                                          .needsOutputs(true)
                                          .scopes({at::RecordScope::FUNCTION}))) {
  kernels::replace_kernels(&timed_kernels());
  stopwatch::restart();
}

Timing::~Timing() {
  kernels::replace_kernels(nullptr);
  at::removeCallback(observer_);
}

}  // namespace echelon::book
