#include "train/weights/outside_base.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/checksum/crc64.h"
#include "base/files/disk.h"
#include "base/str.h"
#include "comm/agree.h"
#include "comm/exchange.h"
#include "shapes/lora.h"
#include "train/device_reader.h"
#include "train/weights/slice_bytes.h"

namespace echelon {
namespace {

using checkpoint::BaseNote;

constexpr std::uint64_t kBytesAtOnce = std::uint64_t{8} << 20;

/// The fingerprint of elements [begin, end) of a tensor of the note.
struct Stretch {
  std::size_t tensor = 0;  ///< its place in the note
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t fingerprint = 0;
};

/// Calls `body` with each piece of what is noted, and joins the fingerprints that it returns to those of
/// whole tensors, in the order of the note. Collective.
std::vector<std::uint64_t> fingerprints(
    const BaseNote& note, const ShardedModel& model, Communicator& comm,
    const std::function<std::uint64_t(const BaseNote::Tensor&, const Unit&, const SlicePiece&)>& body) {
  std::vector<Stretch> mine;
  const auto take = [&] {
    for (const auto& unit : model.units()) {
      for (const SlicePiece& piece : unit->pieces()) {
        const BaseNote::Tensor* noted = note.find(kModelPrefix + piece.part->name);
        if (noted == nullptr) continue;
        const std::uint64_t fingerprint = body(*noted, *unit, piece);
        if (model.groups().writes_state())
          mine.push_back({static_cast<std::size_t>(noted - note.tensors.data()),
                          static_cast<std::uint64_t>(piece.begin), static_cast<std::uint64_t>(piece.end),
                          fingerprint});
      }
    }
  };
  agree_at_length(comm, "base weights", take, fs::bytes_read);
  std::vector<std::vector<Stretch>> found(note.tensors.size());
  for (const auto& theirs : gather_values(comm, mine, "fingerprints of the base")) {
    for (const Stretch& one : theirs) found.at(one.tensor).push_back(one);
  }
  std::vector<std::uint64_t> joined;
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::sort(found[i].begin(), found[i].end(),
              [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
    const std::uint64_t size = size_of(note.tensors[i].info.dtype);
    std::uint64_t whole = 0;
    for (const Stretch& one : found[i])
      whole = crc64_combine(whole, one.fingerprint, (one.end - one.begin) * size);
    joined.push_back(whole);
  }
  return joined;
}

/// Reads a piece of the base, and returns its fingerprint in the type of the note.
std::uint64_t load_piece(const families::BaseWeights& base, const BaseNote::Tensor& noted, const Unit& unit,
                         const SlicePiece& piece, at::Tensor& window) {
  const DType type = noted.info.dtype;
  const at::ScalarType scalar = scalar_type_of(type);
  const auto at_once = static_cast<std::int64_t>(kBytesAtOnce / size_of(type));
  if (!window.defined() || window.scalar_type() != scalar) window = at::empty({at_once}, scalar);
  std::uint64_t fingerprint = 0;
  for (std::int64_t at = piece.begin; at < piece.end; at += at_once) {
    const at::Tensor values = window.narrow(0, 0, std::min(at_once, piece.end - at));
    const std::span<std::byte> bytes = bytes_of(values);
    base.read(noted.info.name, static_cast<std::uint64_t>(at), type, bytes);
    fingerprint = crc64(bytes, fingerprint);
    unit.master().narrow(0, piece.at + at - piece.begin, values.numel()).copy_(values);
  }
  return fingerprint;
}

}  // namespace

BaseNote base_of(const ShardedModel& model) {
  BaseNote base;
  bool adapters = false;
  for (const auto& unit : model.units()) {
    for (const Parameter::Part* part : parts_of(unit->layout().parameters())) {
      adapters = adapters || is_adapter(part->name);
      if (part->frozen && !is_adapter(part->name))
        base.tensors.push_back({{kModelPrefix + part->name, dtype_of(unit->master()), part->shape}});
    }
  }
  if (!adapters) return {};
  std::sort(base.tensors.begin(), base.tensors.end(),
            [](const auto& a, const auto& b) { return a.info.name < b.info.name; });
  return base;
}

void take_fingerprints(BaseNote& base, const ShardedModel& model, Communicator& comm) {
  ReadWindows windows;
  std::vector<std::byte> bytes;
  const auto found = fingerprints(
      base, model, comm, [&](const BaseNote::Tensor&, const Unit& unit, const SlicePiece& piece) {
        const at::Tensor values = unit.master().narrow(0, piece.at, piece.numel());
        if (values.is_cpu()) return crc64(bytes_of(values));
        std::uint64_t fingerprint = 0;
        for (std::uint64_t at = 0; at < values.nbytes(); at += kBytesAtOnce) {
          bytes.resize(std::min(kBytesAtOnce, values.nbytes() - at));
          windows.read(values, at, bytes);
          fingerprint = crc64(bytes, fingerprint);
        }
        return fingerprint;
      });
  for (std::size_t i = 0; i < found.size(); ++i) base.tensors[i].fingerprint = found[i];
}

void load_base(const BaseNote& note, const families::BasePlaces& places, ShardedModel& model,
               Communicator& comm) {
  const at::NoGradGuard no_grad;
  std::unique_ptr<const families::BaseWeights> base;
  agree(comm, "open base", [&] { base = families::open_base(note, places, comm.rank() == 0); });
  at::Tensor window;
  const auto found = fingerprints(
      note, model, comm, [&](const BaseNote::Tensor& noted, const Unit& unit, const SlicePiece& piece) {
        return load_piece(*base, noted, unit, piece, window);
      });
  agree(comm, "check base", [&] {
    for (std::size_t i = 0; i < found.size(); ++i) base->require_same(note.tensors[i], found[i]);
  });
  model.weights_changed();
}

}  // namespace echelon
