// The device as PyTorch's dispatcher, allocators and autograd see it.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/unfold_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

#include "base/str.h"
#include "gpu/deferred/streams.h"

namespace echelon::test::deferred {
namespace {

constexpr auto kType = at::kPrivateUse1;

thread_local std::size_t current = 0;
/// The CPU computes for the device: copies in between are nobody's.
thread_local bool inside = false;

struct Inside {
  Inside() { inside = true; }
  ~Inside() { inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

c10::Stream as_stream(std::size_t number) {
  return c10::Stream(c10::Stream::UNSAFE, at::Device(kType, 0), static_cast<c10::StreamId>(number));
}
std::size_t number_of(c10::Stream stream) {
  return static_cast<std::size_t>(stream.id());
}

auto locked() {
  return std::lock_guard(Streams::instance().mutex);
}

void* block_of(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  void* memory = std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment);
  std::memset(memory, 0xFF, bytes);  // no number
  return memory;
}

class DeviceMemory final : public c10::Allocator {
 public:
  at::DataPtr allocate(std::size_t bytes) override {
    const auto lock = locked();
    void* memory = block_of(bytes);
    Streams::instance().allocated(memory, bytes, current);
    return {memory, memory, raw_deleter(), at::Device(kType, 0)};
  }
  [[nodiscard]] at::DeleterFnPtr raw_deleter() const override {
    return [](void* memory) {
      if (memory == nullptr) return;
      const auto lock = locked();
      Streams::instance().freed(memory);
      std::free(memory);
    };
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

/// As PyTorch's, it knows which copies use it.
class PinnedMemory final : public c10::Allocator {
 public:
  std::set<const void*> blocks;
  at::DataPtr allocate(std::size_t bytes) override {
    const auto lock = locked();
    void* memory = block_of(bytes);
    blocks.insert(memory);
    return {memory, memory, raw_deleter(), at::Device(at::kCPU)};
  }
  [[nodiscard]] at::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};
DeviceMemory device_memory;
PinnedMemory pinned_memory;

at::DeleterFnPtr PinnedMemory::raw_deleter() const {
  return [](void* memory) {
    if (memory == nullptr) return;
    const auto lock = locked();
    Streams::instance().run_all();
    pinned_memory.blocks.erase(memory);
    std::free(memory);
  };
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  [[nodiscard]] at::DeviceType type() const override { return kType; }
  [[nodiscard]] at::Device exchangeDevice(at::Device) const override { return {kType, 0}; }
  [[nodiscard]] at::Device getDevice() const override { return {kType, 0}; }
  void setDevice(at::Device) const override {}
  void uncheckedSetDevice(at::Device) const noexcept override {}
  [[nodiscard]] c10::Stream getStream(at::Device) const override { return as_stream(current); }
  [[nodiscard]] c10::Stream getDefaultStream(at::Device) const override { return as_stream(0); }
  [[nodiscard]] c10::Stream getStreamFromGlobalPool(at::Device, bool) const override { return new_stream(); }
  [[nodiscard]] c10::Stream getNewStream(at::Device, int) const override { return new_stream(); }
  [[nodiscard]] c10::Stream exchangeStream(c10::Stream stream) const override {
    return as_stream(std::exchange(current, number_of(stream)));
  }
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    const auto lock = locked();
    if (*event == nullptr) *event = new Streams::Event;
    *static_cast<Streams::Event*>(*event) = Streams::instance().record(number_of(stream));
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Streams::Event*>(event);
  }
  void block(void* event, const c10::Stream& stream) const override {
    const auto lock = locked();
    const auto& its = *static_cast<Streams::Event*>(event);
    if (Streams::instance().leaves_out("a stream waits")) return;
    Streams::instance().block(number_of(stream), its);
  }
  [[nodiscard]] bool queryEvent(void*) const override { return false; }
  void synchronizeEvent(void* event) const override {
    const auto lock = locked();
    const auto& its = *static_cast<Streams::Event*>(event);
    if (Streams::instance().leaves_out("the host waits")) return;
    Streams::instance().hold_host(its);
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    const auto lock = locked();
    Streams::instance().hold_host(number_of(stream));
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    const auto lock = locked();
    if (Streams::instance().leaves_out("a stream is told of memory")) return;
    Streams::instance().used_by(data.get(), number_of(stream));
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  [[nodiscard]] bool isBuilt() const override { return true; }
  [[nodiscard]] bool isAvailable() const override { return true; }
  [[nodiscard]] bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  [[nodiscard]] bool isPinnedPtr(const void* data) const override {
    const auto lock = locked();
    return pinned_memory.blocks.count(data) > 0;
  }
  [[nodiscard]] c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory; }
  [[nodiscard]] const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator generator = at::detail::getDefaultCPUGenerator();
    return generator;
  }
};

/// All bytes between a tensor's first and last element.
Access access_to(const at::Tensor& tensor, bool is_written) {
  std::int64_t last = 0;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  const std::size_t bytes =
      tensor.numel() == 0 ? 0 : static_cast<std::size_t>(last + 1) * tensor.element_size();
  return {tensor.const_data_ptr(), bytes, is_written};
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const auto lock = locked();
  Streams& streams = Streams::instance();
  const auto body = [from = on_host(from), to = on_host(to)] {
    const at::NoGradGuard no_grad;
    to.copy_(from);
  };
  if (inside) {
    body();
    return to;
  }
  std::vector<Access> accesses;
  if (!from.is_cpu()) accesses.push_back(access_to(from, false));
  if (!to.is_cpu()) accesses.push_back(access_to(to, true));
  const bool across = from.is_cpu() || to.is_cpu();
  const at::Tensor& host = from.is_cpu() ? from : to;
  const bool locked_pages = across && host.is_pinned();
  // Another type is made on the device; of the host's pages that are not locked the driver makes a copy.
  const bool late = across && non_blocking && locked_pages && from.scalar_type() == to.scalar_type();
  streams.give(current, across ? "a copy" : "a cast", accesses, body);
  if (late) return to;
  streams.run(current);
  if (across) {
    ++streams.host_waits;
    streams.hold_host(current);
  }
  return to;
}

/// Only of results that are to be written: what they held is lost.
const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  if (self.sizes() == size) return self;
  c10::StorageImpl* storage = self.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<std::size_t>(c10::multiply_integers(size)) * self.element_size();
  if (storage->nbytes() < bytes) {
    storage->set_data_ptr(device_memory.allocate(bytes));
    storage->set_nbytes(bytes);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &device_memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), format);
}
at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &device_memory,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::kFloat));
}
at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                      std::optional<std::int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}
at::Tensor view(const at::Tensor& self, at::IntArrayRef size) {
  return at::native::view(self, size);
}
at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::as_strided_tensorimpl(self, size, stride, self.storage_offset());
}
at::Tensor unfold(const at::Tensor& self, std::int64_t dimension, std::int64_t size, std::int64_t step) {
  return at::native::unfold(self, dimension, size, step);
}
/// What the CPU computes of the same bytes, on the device.
template <class F>
auto computed(const char* what, const std::vector<at::Tensor>& inputs, const F& f) {
  const auto lock = locked();
  std::vector<Access> accesses = mapped(inputs, [](const at::Tensor& input) { return reads(input); });
  Streams::instance().seen.operations.insert(what);
  compute(current_stream(), what, accesses, [] {});
  const at::NoGradGuard no_grad;
  const Inside computing;
  return f();
}
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, at::IntArrayRef stride, at::IntArrayRef padding,
                       at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                       std::int64_t groups) {
  std::vector<at::Tensor> inputs{input, weight};
  if (bias && bias->defined()) inputs.push_back(*bias);
  return computed("aten::convolution", inputs, [&] {
    const auto added = inputs.size() > 2 ? std::optional(on_host(inputs[2])) : std::nullopt;
    return at::convolution(on_host(input), on_host(weight), added, stride, padding, dilation, transposed,
                           output_padding, groups)
        .to(input.device());
  });
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& dy, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
    std::int64_t groups, std::array<bool, 3> wanted) {
  return computed("aten::convolution_backward", {dy, input, weight}, [&] {
    const std::vector<std::int64_t> bias{weight.size(0)};
    const auto [dx, dw, db] =
        at::convolution_backward(on_host(dy), on_host(input), on_host(weight), at::OptionalIntArrayRef(bias),
                                 stride, padding, dilation, transposed, output_padding, groups, wanted);
    const auto back = [&](const at::Tensor& x) { return x.defined() ? x.to(input.device()) : x; };
    return std::tuple(back(dx), back(dw), back(db));
  });
}
at::Scalar local_scalar(const at::Tensor& self) {
  const auto lock = locked();
  Streams& streams = Streams::instance();
  streams.give(current, "a value's copy", {access_to(self, false)}, [] {});
  ++streams.host_waits;
  streams.hold_host(current);
  return on_host(self).item();
}

void add(std::vector<Access>& accesses, const c10::IValue& value, bool writes) {
  const auto one = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.device().type() == kType && tensor.numel() > 0)
      accesses.push_back(access_to(tensor, writes));
  };
  if (value.isTensor()) one(value.toTensor());
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) one(tensor);
  }
}

/// Every other operation: at once, by the CPU.
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto lock = locked();
  const auto& schema = op.schema();
  const std::string& overload = op.operator_name().overload_name;
  const std::string name = op.operator_name().name + (overload.empty() ? "" : "." + overload);
  std::vector<Access> accesses;
  const std::size_t first = stack->size() - schema.arguments().size();
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    add(accesses, (*stack)[first + i], alias != nullptr && alias->isWrite());
  }
  Streams& streams = Streams::instance();
  streams.seen.operations.insert(name);
  streams.give(current, name, accesses, [] {});
  streams.run(current);
  {
    const Inside computing;
    at::native::cpu_fallback(op, stack);
  }
  std::vector<Access> results;
  const std::size_t returned = stack->size() - schema.returns().size();
  for (std::size_t i = returned; i < stack->size(); ++i) add(results, (*stack)[i], true);
  streams.give(current, name, results, [] {});
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("as_strided", TORCH_FN(as_strided));
  m.impl("view", TORCH_FN(view));
  m.impl("_reshape_alias", TORCH_FN(reshape_alias));
  m.impl("resize_", TORCH_FN(resize));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("unfold", TORCH_FN(unfold));
  m.impl("convolution_overrideable", TORCH_FN(convolution));
  m.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar));
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace

at::Device device() {
  static const bool registered = [] {
    c10::register_privateuse1_backend("deferred");
    c10::SetAllocator(kType, &device_memory);
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    return true;
  }();
  return {registered ? kType : at::kCPU, 0};
}

void compute(c10::Stream stream, const std::string& what, const std::vector<Access>& accesses,
             const std::function<void()>& body) {
  const auto lock = locked();
  Streams::instance().give(number_of(stream), what, accesses, body);
  Streams::instance().run(number_of(stream));
}

c10::Stream current_stream() {
  return as_stream(current);
}

c10::Stream new_stream() {
  const auto lock = locked();
  return as_stream(Streams::instance().add());
}

Access reads(const at::Tensor& tensor) {
  return access_to(tensor, false);
}

Access writes(const at::Tensor& tensor) {
  return access_to(tensor, true);
}

at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(const_cast<void*>(tensor.const_data_ptr()), tensor.sizes(),
                       tensor.strides(),  // NOLINT
                       at::TensorOptions(tensor.scalar_type()));
}

void restart(const std::string& left_out) {
  const auto lock = locked();
  Streams::instance().restart(left_out);
}

int host_waits() {
  const auto lock = locked();
  return Streams::instance().host_waits;
}

Seen seen() {
  const auto lock = locked();
  Streams::instance().run_all();
  return Streams::instance().seen;
}

}  // namespace echelon::test::deferred
