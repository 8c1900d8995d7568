#include "book/operations.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <unordered_map>

#include "base/error.h"
#include "base/str.h"

namespace echelon::book {
namespace {

using c10::IValue;

/// A call of the operation's meta kernel, which finds the shapes.
class MetaCall {
 public:
  explicit MetaCall(c10::ArrayRef<IValue> arguments) {
    for (const IValue& argument : arguments) stack_.push_back(twin(argument));
  }

  std::vector<IValue> run(const c10::OperatorHandle& op) {
    op.callBoxed(stack_);
    return mapped(stack_, [this](const IValue& result) { return original(result); });
  }

 private:
  IValue twin(const IValue& value) {
    if (value.isTensor()) return twin_of(value.toTensor());
    if (value.isDevice()) {
      if (!device_) device_ = value.toDevice();
      return c10::Device(c10::kMeta);
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> twins;
      for (const at::Tensor& tensor : value.toTensorVector()) twins.push_back(twin_of(tensor));
      return twins;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> twins;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        twins.push_back(tensor ? std::optional(twin_of(*tensor)) : std::nullopt);
      return twins;
    }
    return value;
  }
  at::Tensor twin_of(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    if (!device_ || device_->is_cpu()) device_ = tensor.device();
    at::Tensor twin = at::empty_strided(tensor.sizes(), tensor.strides(),
                                        tensor.options().device(at::kMeta).pinned_memory(false));
    // A number among tensors does not decide the type of the result.
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
      twin.unsafeGetTensorImpl()->set_wrapped_number(true);
    originals_.emplace(twin.unsafeGetTensorImpl(), tensor);
    return twin;
  }
  IValue original(const IValue& value) const {
    if (!value.isTensor() || !value.toTensor().defined()) return value;
    const at::Tensor& result = value.toTensor();
    const auto found = originals_.find(result.unsafeGetTensorImpl());
    if (found == originals_.end())
      return at::empty_strided(result.sizes(), result.strides(),
                               result.options().device(device_.value_or(at::Device(at::kCPU))));
    if (found->second.sizes() != result.sizes()) found->second.resize_(result.sizes());
    return found->second;
  }

  torch::jit::Stack stack_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> originals_;
  std::optional<at::Device> device_;
};

/// An operation in place on CPU tensors of different types computes in the wider one, on copies in it.
std::vector<at::Tensor> casts_of(c10::ArrayRef<IValue> arguments) {
  std::vector<at::Tensor> casts;
  if (arguments.size() < 2 || !arguments[0].isTensor() || !arguments[1].isTensor()) return casts;
  const at::Tensor& self = arguments[0].toTensor();
  const at::Tensor& other = arguments[1].toTensor();
  if (!self.is_cpu() || !other.defined() || other.dim() == 0) return casts;
  const at::ScalarType common = at::result_type(self, other);
  if (other.scalar_type() != common) casts.push_back(at::empty(other.sizes(), common));
  if (self.scalar_type() != common) {  // read, and written
    casts.push_back(at::empty(self.sizes(), common));
    casts.push_back(at::empty(self.sizes(), common));
  }
  return casts;
}

/// Makes the result of an elementwise operation that has no meta kernel and writes to its last argument.
std::vector<IValue> broadcast_into_last(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments) {
  const bool has_out = op.operator_name().overload_name.ends_with("out");
  if (!has_out || arguments.empty() || !arguments.back().isTensor()) {
    throw Error(Code::kEnvironment, "PyTorch does not say which shape the result of ",
                op.operator_name().name,
                " has without computing it; src/book/by_hand.cpp lists those that are known");
  }
  std::vector<std::int64_t> shape;
  for (const IValue& argument : arguments.slice(0, arguments.size() - 1)) {
    if (argument.isTensor()) shape = at::infer_size(shape, argument.toTensor().sizes());
  }
  const at::Tensor& out = arguments.back().toTensor();
  if (out.sizes() != shape) out.resize_(shape);
  return {out};
}

std::vector<IValue> results_of(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments) {
  std::vector<IValue> results;
  if (by_hand(op, arguments, results)) return results;
  // In place: the result is the first argument.
  const std::string& name = op.operator_name().name;
  if (name.back() == '_' && op.schema().returns().size() == 1) {
    if (name != "aten::copy_") (void)casts_of(arguments);
    return {arguments[0]};
  }
  try {
    return MetaCall(arguments).run(op);
  } catch (const c10::NotImplementedError&) {
    return broadcast_into_last(op, arguments);
  }
}

}  // namespace

void book(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const std::size_t count = op.schema().arguments().size();
  const std::vector<IValue> arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  std::vector<IValue> results;
  if (!op.schema().returns().empty()) results = results_of(op, arguments);
  record(op, arguments, results);
  torch::jit::drop(*stack, count);
  for (IValue& result : results) stack->push_back(std::move(result));
}

}  // namespace echelon::book
