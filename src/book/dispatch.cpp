#include "book/dispatch.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/str.h"
#include "book/device.h"
#include "book/kernel_tables.h"
#include "book/operations.h"

namespace echelon::book {
namespace {

constexpr std::string_view kSpace = "aten::";

/// Operations that stay what they are: they make tensors and views.
bool is_kept(const std::string& name) {
  static const std::set<std::string> kept{
      "aten::view",   "aten::as_strided", "aten::_reshape_alias",       "aten::alias",
      "aten::detach", "aten::empty",      "aten::empty_strided",        "aten::resize_",
      "aten::set_",   "aten::unfold",     "aten::_efficientzerotensor", "aten::_fused_sdp_choice"};
  return kept.count(name) > 0;
}

/// Made of other operations, but recorded whole.
constexpr const char* kWhole[] = {"copy_", "convolution", "convolution_backward"};
/// Recorded whole on a device, where copies are operations of their own.
constexpr const char* kWholeOnDevice[] = {"_copy_from",
                                          "_copy_from_and_resize",
                                          "convolution",
                                          "convolution_backward",
                                          "_scaled_dot_product_efficient_attention",
                                          "_scaled_dot_product_efficient_attention_backward"};

/// The dispatcher warns for each library that replaces kernels; here that is the purpose.
class Quiet final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

const std::vector<c10::OperatorName>& recorded() {
  static const std::vector<c10::OperatorName> names = [] {
    std::vector<c10::OperatorName> found =
        c10::Dispatcher::singleton().getAllOpNamesForDispatchKey(c10::DispatchKey::CPU);
    std::erase_if(found, [](const c10::OperatorName& name) {
      return !name.name.starts_with(kSpace) || is_kept(name.name);
    });
    return found;
  }();
  return names;
}

/// Every operation for which the CPU has a kernel.
void record_kernels(torch::Library& library) {
  Quiet quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  for (const c10::OperatorName& name : recorded()) {
    const std::string overload = name.overload_name.empty() ? "" : "." + name.overload_name;
    library.impl((name.name.substr(kSpace.size()) + overload).c_str(),
                 torch::CppFunction::makeFromBoxedFunction<&book>());
  }
}

template <std::size_t N>
void record_whole(torch::Library& library, const char* const (&names)[N]) {
  for (const char* name : names) library.impl(name, torch::CppFunction::makeFromBoxedFunction<&book>());
}

std::unique_ptr<torch::Library>& replaced() {
  static std::unique_ptr<torch::Library> only;
  return only;
}

}  // namespace

bool is_recorded(const c10::OperatorName& name) {
  static const std::unordered_set<c10::OperatorName> names = [] {
    std::unordered_set<c10::OperatorName> all(recorded().begin(), recorded().end());
    for (const char* whole : kWhole) all.insert({str(kSpace, whole), ""});
    return all;
  }();
  return names.count(name) > 0;
}

void record_on_device(torch::Library& library) {
  record_kernels(library);
  record_whole(library, kWholeOnDevice);
}

Recording::Recording() : threads_(at::get_num_threads()) {
  replaced() = std::make_unique<torch::Library>(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__,
                                                __LINE__);
  record_kernels(*replaced());
  record_whole(*replaced(), kWhole);
  kernels::replace_kernels(&recording_kernels());
  // Kernels record, so all of them run in this thread.
  at::set_num_threads(1);
}

Recording::~Recording() {
  kernels::replace_kernels(nullptr);
  replaced().reset();
  at::set_num_threads(threads_);
}

}  // namespace echelon::book
