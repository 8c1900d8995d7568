#pragma once
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "bootstrap/job.h"
#include "comm/communicator.h"

/// Typed values that ranks of one build exchange: plain ones, texts, and vectors and maps of such. A struct
/// takes part with a member fields(), which ties its members.
namespace echelon {

namespace exchange {

template <class T>
concept HasFields = requires(T value) {
  value.fields();
};
template <class T>
concept Plain = std::is_trivially_copyable_v<T> && !HasFields<T>;
template <class T>
concept Map = requires {
  typename T::mapped_type;
};

class Packer {
 public:
  template <class T>
  void add(const T& value) {
    if constexpr (HasFields<T>) {
      std::apply([this](const auto&... field) { (this->add(field), ...); }, const_cast<T&>(value).fields());
    } else if constexpr (Plain<T>) {
      append(std::as_bytes(std::span(&value, 1)));
    } else if constexpr (std::is_same_v<T, std::string>) {
      add(value.size());
      append(std::as_bytes(std::span(value)));
    } else if constexpr (Map<T>) {
      add(value.size());
      for (const auto& [key, mapped] : value) {
        add(key);
        add(mapped);
      }
    } else {
      add(value.size());
      for (const auto& element : value) add(element);
    }
  }
  [[nodiscard]] const Blob& bytes() const { return bytes_; }

 private:
  void append(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  Blob bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(const Blob& bytes) : left_(bytes) {}

  template <class T>
  [[nodiscard]] T get() {
    T value{};
    if constexpr (HasFields<T>) {
      std::apply(
          [this](auto&... field) { ((field = this->get<std::remove_reference_t<decltype(field)>>()), ...); },
          value.fields());
    } else if constexpr (Plain<T>) {
      std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    } else if constexpr (std::is_same_v<T, std::string>) {
      const auto bytes = take(get<std::size_t>());
      value.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } else if constexpr (Map<T>) {
      for (auto size = get<std::size_t>(); size > 0; --size) {
        auto key = get<typename T::key_type>();
        value[key] = get<typename T::mapped_type>();
      }
    } else {
      for (auto size = get<std::size_t>(); size > 0; --size) value.push_back(get<typename T::value_type>());
    }
    return value;
  }
  [[nodiscard]] bool done() const { return left_.empty(); }

  [[noreturn]] static void refuse() {
    throw Error(Code::kPeer, "a rank runs a different build: start the same binary on all ranks");
  }

 private:
  std::span<const std::byte> take(std::size_t bytes) {
    if (bytes > left_.size()) refuse();
    const auto taken = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return taken;
  }
  std::span<const std::byte> left_;
};

}  // namespace exchange

/// The bytes of a value, as unpacked() reads them.
template <class T>
[[nodiscard]] Blob packed(const T& value) {
  exchange::Packer packer;
  packer.add(value);
  return packer.bytes();
}
/// Throws Error(kPeer) for bytes of another type.
template <class T>
[[nodiscard]] T unpacked(const Blob& bytes) {
  exchange::Unpacker unpacker(bytes);
  T value = unpacker.get<T>();
  if (!unpacker.done()) exchange::Unpacker::refuse();
  return value;
}

template <class T>
[[nodiscard]] std::vector<T> unpacked_all(const std::vector<Blob>& all) {
  std::vector<T> values;
  for (const Blob& bytes : all) values.push_back(unpacked<T>(bytes));
  return values;
}

/// Returns the value of every rank, by rank. Collective. The overload for a job serves ranks that have no
/// communicator yet.
template <class T>
[[nodiscard]] std::vector<T> gather_values(Communicator& comm, const T& mine, std::string_view label) {
  return unpacked_all<T>(comm.gather_blobs(packed(mine), label));
}

template <class T>
[[nodiscard]] std::vector<T> gather_values(Job& job, const T& mine, std::string_view label) {
  return unpacked_all<T>(job.exchange(label, packed(mine)));
}

/// Rank 0's value on every rank; what other ranks pass does not count. Collective.
template <class T>
[[nodiscard]] T broadcast_value(Communicator& comm, const T& mine, std::string_view label) {
  return unpacked<T>(comm.gather_blobs(comm.rank() == 0 ? packed(mine) : Blob(), label).front());
}

}  // namespace echelon
