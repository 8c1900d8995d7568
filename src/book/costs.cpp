#include <ATen/ATen.h>

#include <map>
#include <string_view>

#include "book/books.h"
#include "book/operations.h"

namespace echelon::book {
namespace {

using c10::IValue;
using forecast::Cost;

/// Bytes between a tensor's elements that an operation touches; a dimension of stride 0 is read once.
double bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return 0;
  double elements = 1;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.stride(d) != 0 || tensor.size(d) == 0) elements *= static_cast<double>(tensor.size(d));
  }
  return elements * static_cast<double>(tensor.element_size());
}

template <class F>
void for_each_tensor(const IValue& value, const F& f) {
  if (value.isTensor() && value.toTensor().defined()) f(value.toTensor());
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      if (tensor.defined()) f(tensor);
    }
  }
}

/// [..., m, k] times [..., k, n].
double product_flops(const at::Tensor& a, const at::Tensor& b) {
  return 2.0 * static_cast<double>(a.numel()) * static_cast<double>(b.size(-1));
}

/// FLOPs of one of the three products of a convolution: every element of the result, `y`, sums one window.
double convolution_flops(const at::Tensor& y, const at::Tensor& weight) {
  return 2.0 * static_cast<double>(y.numel()) * static_cast<double>(weight.numel() / weight.size(0));
}

using Flops = double (*)(c10::ArrayRef<IValue>, c10::ArrayRef<IValue>);

double first_two(c10::ArrayRef<IValue> in, c10::ArrayRef<IValue>) {
  return product_flops(in[0].toTensor(), in[1].toTensor());
}
double second_and_third(c10::ArrayRef<IValue> in, c10::ArrayRef<IValue>) {
  return product_flops(in[1].toTensor(), in[2].toTensor());
}
double forward_convolution(c10::ArrayRef<IValue> in, c10::ArrayRef<IValue> out) {
  return convolution_flops(out[0].toTensor(), in[1].toTensor());
}
double backward_convolution(c10::ArrayRef<IValue> in, c10::ArrayRef<IValue>) {
  const auto wanted = in[10].toBoolList();
  const double one = convolution_flops(in[0].toTensor(), in[2].toTensor());
  return (wanted.get(0) ? one : 0) + (wanted.get(1) ? one : 0);
}

const std::map<std::string_view, Flops>& products() {
  static const std::map<std::string_view, Flops> known{{"aten::mm", first_two},
                                                       {"aten::bmm", first_two},
                                                       {"aten::_scaled_mm", first_two},
                                                       {"aten::addmm", second_and_third},
                                                       {"aten::addmm_", second_and_third},
                                                       {"aten::baddbmm", second_and_third},
                                                       {"aten::baddbmm_", second_and_third},
                                                       {"aten::convolution", forward_convolution},
                                                       {"aten::convolution_backward", backward_convolution}};
  return known;
}

/// Reads of arguments and writes of results; what is changed in place is read and written.
double bytes_of(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments,
                c10::ArrayRef<IValue> results) {
  const auto& schema = op.schema();
  double bytes = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    const bool written = alias != nullptr && alias->isWrite();
    const bool only_written = written && schema.arguments()[i].kwarg_only();
    for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
      bytes += bytes_of(tensor) * (written && !only_written ? 2 : 1);
    });
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (schema.returns()[i].alias_info() != nullptr) continue;
    for_each_tensor(results[i], [&](const at::Tensor& tensor) { bytes += bytes_of(tensor); });
  }
  return bytes;
}

/// In these the first argument is only written.
bool overwrites(std::string_view name) {
  return name == "aten::copy_" || name == "aten::fill_" || name == "aten::zero_";
}

bool crosses(c10::ArrayRef<IValue> arguments) {
  bool host = false;
  bool device = false;
  for (const IValue& argument : arguments) {
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      if (tensor.dim() == 0) return;
      if (tensor.is_cpu())
        host = true;
      else
        device = true;
    });
  }
  return host && device;
}

bool all_on_host(c10::ArrayRef<IValue> arguments) {
  bool all = true;
  for (const IValue& argument : arguments)
    for_each_tensor(argument, [&](const at::Tensor& tensor) { all = all && tensor.is_cpu(); });
  return all;
}

DType computing_type(c10::ArrayRef<IValue> arguments, c10::ArrayRef<IValue> results) {
  DType type = DType::kU8;
  bool found = false;
  const auto first = [&](const at::Tensor& tensor) {
    if (!found && tensor.is_floating_point()) type = type_of(tensor);
    found = found || tensor.is_floating_point();
  };
  for (const IValue& argument : arguments) for_each_tensor(argument, first);
  for (const IValue& result : results) for_each_tensor(result, first);
  return type;
}

/// Records fused attention; false for any other operation.
bool record_as_attention(std::string_view name, c10::ArrayRef<IValue> in) {
  constexpr std::string_view kFused = "aten::_scaled_dot_product_";
  if (!name.starts_with(kFused)) return false;
  const bool backward = name.ends_with("_backward");
  const bool flash = name.find("flash") != name.npos;
  const at::Tensor& q = in[backward ? 1 : 0].toTensor();
  const auto keys = static_cast<double>(in[backward ? 2 : 1].toTensor().size(2));
  const std::size_t causal = backward ? (flash ? 7 : 11) : (flash ? 4 : 6);
  record_attention(q, in[causal].toBool() ? (keys + 1) / 2 : keys, backward);
  return true;
}

}  // namespace

void record(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments, c10::ArrayRef<IValue> results) {
  const std::string_view name = op.operator_name().name;
  constexpr std::string_view kSpace = "aten::";
  const std::string_view shown = name.substr(kSpace.size());
  if (record_as_attention(name, arguments)) return;
  const DType type = computing_type(arguments, results);
  double bytes = bytes_of(op, arguments, results);
  if (name.starts_with("aten::_copy_from")) bytes -= bytes_of(results[0].toTensor());  // the second argument
  if (overwrites(name)) bytes -= bytes_of(arguments[0].toTensor());
  if (const auto found = products().find(name); found != products().end()) {
    const Cost cost = name == "aten::_scaled_mm" ? Cost::kFp8Product : Cost::kProduct;
    books().work(shown, cost, type, found->second(arguments, results), bytes);
    return;
  }
  const bool copies = crosses(arguments);
  const bool on_host = !copies && all_on_host(arguments);
  books().work(shown, copies ? Cost::kHostCopy : Cost::kMemory, type, 0, copies ? bytes / 2 : bytes, on_host);
}

void record_attention(const at::Tensor& q, double keys, bool backward) {
  // Forward: scores and their product with the values. Backward: both again, and the gradients of queries,
  // keys and values, of which the scores are computed once more.
  constexpr double kForward = 4;
  constexpr double kBackward = 10;
  constexpr double kForwardTensors = 4;
  constexpr double kBackwardTensors = 8;
  const auto elements = static_cast<double>(q.numel());
  const double bytes = elements * static_cast<double>(q.element_size());
  books().work(backward ? "attention_backward" : "attention",
               backward ? Cost::kAttentionBackward : Cost::kAttention, type_of(q),
               (backward ? kBackward : kForward) * elements * keys,
               (backward ? kBackwardTensors : kForwardTensors) * bytes, false, q.size(-1));
}

}  // namespace echelon::book
