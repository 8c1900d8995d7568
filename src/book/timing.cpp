#include "book/timing.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <memory>
#include <vector>

#include "base/steady_time.h"
#include "book/books.h"
#include "book/dispatch.h"
#include "book/operations.h"

namespace echelon::book {
namespace {

/// Operations are counted where they are kernels, and not again within one another.
thread_local int depth = 0;

struct Started final : at::ObserverContext {
  double began_s = 0;
  bool counts = false;
  std::vector<c10::IValue> arguments;  ///< copied, because they are gone when the operation ends
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  auto started = std::make_unique<Started>();
  const auto name = function.operator_name();
  started->counts = name && is_recorded(*name) && depth == 0;
  if (name && is_recorded(*name)) ++depth;
  if (started->counts) {
    const auto inputs = function.inputs();
    started->arguments.assign(inputs.begin(), inputs.end());
  }
  started->began_s = steady_now_s();
  return started;
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  const double now_s = steady_now_s();
  const auto* started = static_cast<const Started*>(context);
  const auto name = function.operator_name();
  if (!name || !is_recorded(*name)) return;
  --depth;
  if (!started->counts) return;
  const auto op = c10::Dispatcher::singleton().findOp(*name);
  if (!op || started->arguments.size() != op->schema().arguments().size()) return;
  const Books::Measured measured(now_s - started->began_s);
  record(*op, started->arguments, function.outputs());
}

}  // namespace

Timing::Timing()
    : observer_(at::addGlobalCallback(at::RecordFunctionCallback(&begin, &end)
                                          .needsInputs(true)
                                          .needsOutputs(true)
                                          .scopes({at::RecordScope::FUNCTION}))) {
  kernels::replace_kernels(timed_kernels());
}

Timing::~Timing() {
  kernels::replace_kernels({});
  at::removeCallback(observer_);
}

}  // namespace echelon::book
