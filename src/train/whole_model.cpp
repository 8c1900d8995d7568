#include "train/whole_model.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "base/str.h"

namespace echelon {
namespace {

at::Tensor read_part(const checkpoint::Reader& reader, const Parameter::Part& part) {
  const std::string name = "model/" + part.name;
  const checkpoint::TensorInfo* found = reader.find(name);
  const auto refuse = [&](const std::string& what) {
    throw Error(Code::kCheckpoint, str("checkpoint '", reader.folder().string(), "': tensor '", name, "' ",
                                       what, "; its recipe.yaml is not the one it was made with"));
  };
  if (found == nullptr) {
    refuse("is missing");
  } else if (found->shape != part.shape || (found->dtype != DType::kF32 && found->dtype != DType::kBF16)) {
    refuse("has another shape or type than the model's");
  }
  const bool bf16 = found->dtype == DType::kBF16;
  const at::Tensor values = at::empty(part.shape, bf16 ? at::kBFloat16 : at::kFloat);
  const auto count = static_cast<std::size_t>(values.numel());
  reader.read(name, 0, count,
              {static_cast<std::byte*>(values.mutable_data_ptr()), count * size_of(found->dtype)});
  return values.to(at::kFloat);
}

void load_parameter(const checkpoint::Reader& reader, Parameter& parameter) {
  std::vector<at::Tensor> parts;
  for (const Parameter::Part& part : parameter.parts()) parts.push_back(read_part(reader, part));
  parameter.value = parts.size() == 1 ? parts[0] : at::cat(parts);
}

}  // namespace

void load_whole(const checkpoint::Reader& reader, Model& model) {
  for (Parameter* parameter : model.parameters()) load_parameter(reader, *parameter);
}

}  // namespace echelon
