// The recording GPU as PyTorch's dispatcher, allocators and autograd see it.
#include "book/device.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/SDPBackend.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/unfold_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "book/books.h"
#include "book/dispatch.h"
#include "book/operations.h"

namespace echelon::book {
namespace {

constexpr auto kType = at::kPrivateUse1;

class DeviceAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(std::size_t bytes) override {
    auto* address =
        reinterpret_cast<void*>(device_memory().take(static_cast<std::int64_t>(bytes)));  // NOLINT
    return {address, address, raw_deleter(), at::Device(kType, 0)};
  }
  [[nodiscard]] at::DeleterFnPtr raw_deleter() const override {
    return [](void* address) { device_memory().give(reinterpret_cast<std::uintptr_t>(address)); };
  }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) const override {}
};
DeviceAllocator device_allocator;

/// The main stream, and one beside it for copies.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  [[nodiscard]] static c10::Stream as_stream(std::uint8_t number) {
    return c10::Stream(c10::Stream::UNSAFE, at::Device(kType, 0), static_cast<c10::StreamId>(number));
  }
  [[nodiscard]] static std::uint8_t number_of(const c10::Stream& stream) {
    return static_cast<std::uint8_t>(stream.id());
  }
  [[nodiscard]] static std::uint32_t mark_of(void* event) { return *static_cast<std::uint32_t*>(event); }

  [[nodiscard]] at::DeviceType type() const override { return kType; }
  [[nodiscard]] at::Device exchangeDevice(at::Device) const override { return {kType, 0}; }
  [[nodiscard]] at::Device getDevice() const override { return {kType, 0}; }
  void setDevice(at::Device) const override {}
  void uncheckedSetDevice(at::Device) const noexcept override {}
  [[nodiscard]] c10::Stream getStream(at::Device) const override { return as_stream(books().stream()); }
  [[nodiscard]] c10::Stream getDefaultStream(at::Device) const override { return as_stream(0); }
  [[nodiscard]] c10::Stream getStreamFromGlobalPool(at::Device, bool) const override { return as_stream(1); }
  [[nodiscard]] c10::Stream getNewStream(at::Device, int) const override { return as_stream(1); }
  [[nodiscard]] c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = as_stream(books().stream());
    books().use_stream(number_of(stream));
    return before;
  }
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new std::uint32_t;
    *static_cast<std::uint32_t*>(*event) = books().mark(number_of(stream));
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<std::uint32_t*>(event);
  }
  void block(void* event, const c10::Stream& stream) const override {
    books().hold(number_of(stream), mark_of(event));
  }
  [[nodiscard]] bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void* event) const override { books().hold_host(mark_of(event)); }
  void synchronizeStream(const c10::Stream&) const override { books().sync(); }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};

struct Hooks final : at::PrivateUse1HooksInterface {
  [[nodiscard]] bool isBuilt() const override { return true; }
  [[nodiscard]] bool isAvailable() const override { return true; }
  [[nodiscard]] bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  [[nodiscard]] bool isPinnedPtr(const void*) const override { return true; }
  [[nodiscard]] c10::Allocator* getPinnedMemoryAllocator() const override {
    return c10::GetAllocator(at::kCPU);
  }
  [[nodiscard]] const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator generator = at::detail::getDefaultCPUGenerator();
    return generator;
  }
};

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &device_allocator,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), format);
}
at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &device_allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::kFloat));
}
/// Only of results that are to be written: what they held is lost.
const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  if (self.sizes() == size) return self;
  c10::StorageImpl* storage = self.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<std::size_t>(c10::multiply_integers(size)) * self.element_size();
  if (storage->nbytes() < bytes) {
    storage->set_data_ptr(device_allocator.allocate(bytes));
    storage->set_nbytes(bytes);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return self;
}
at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::as_strided_tensorimpl(self, size, stride, self.storage_offset());
}

/// As on a GPU: a mask needs the memory-efficient kernel, fp32 too.
std::int64_t choose_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor&,
                              const std::optional<at::Tensor>& mask, double, bool, std::optional<double>,
                              bool) {
  const bool masked = mask && mask->defined();
  if (!masked && q.scalar_type() != at::kFloat)
    return static_cast<std::int64_t>(at::SDPBackend::flash_attention);
  if (q.size(1) != k.size(1)) return static_cast<std::int64_t>(at::SDPBackend::math);
  return static_cast<std::int64_t>(at::SDPBackend::efficient_attention);
}

void register_views(torch::Library& library) {
  library.impl("empty.memory_format", TORCH_FN(empty));
  library.impl("empty_strided", TORCH_FN(empty_strided));
  library.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(reshape_alias));
  library.impl("resize_", TORCH_FN(resize));
  library.impl("unfold", TORCH_FN(at::native::unfold));
  library.impl("_fused_sdp_choice", TORCH_FN(choose_attention));
}

}  // namespace

CachingAllocator& device_memory() {
  static CachingAllocator only;
  return only;
}

at::Device recording_device() {
  static const bool registered = [] {
    c10::register_privateuse1_backend("recording");
    c10::SetAllocator(kType, &device_allocator);
    static const c10::impl::DeviceGuardImplRegistrar guard(kType, new Guard);
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&choose_attention);
    static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__,
                                  __LINE__);
    register_views(library);
    record_on_device(library);
    static torch::Library rest(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
    rest.fallback(torch::CppFunction::makeFromBoxedFunction<&book>());
    return true;
  }();
  return {registered ? kType : at::kCPU, 0};
}

}  // namespace echelon::book
