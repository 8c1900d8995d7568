#include "checkpoint/memory/shard_service.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sstream>
#include <system_error>

#include "base/caught.h"
#include "base/error.h"
#include "base/process/process.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/shard_index.h"
#include "checkpoint/memory/memory_folder.h"
#include "checkpoint/memory/memory_note.h"
#include "checkpoint/write/rank_save.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

constexpr int kLook_ms = 50;
constexpr double kConnect_s = 5;   // per address
constexpr double kRequest_s = 10;  // for a client to state what it wants
constexpr double kUnread_s = 60;   // for a client to read what it was sent
constexpr double kRenewed_s = 1;   // for the ranks of this node to make the run's folder anew
constexpr int kMostClients = 64;   // at a time; further ones wait in the system's queue
constexpr std::size_t kPart = std::size_t{256} << 10;
constexpr std::array<char, 8> kMagic{'E', 'C', 'K', 'M', 'E', 'M', '0', '1'};

/// Sent as raw bytes: both ends are the same build.
struct Request {
  std::array<char, 8> magic = kMagic;
  ServiceToken token{};
  WantedFile file = WantedFile::kShard;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::array<char, 8> save_id{};
  std::int64_t step = 0;
  double patience_s = 0;
};
static_assert(std::is_trivially_copyable_v<Request>);

/// Before the file, or before the text that says why there is none.
struct Reply {
  std::array<char, 8> magic = kMagic;
  std::uint64_t bytes = 0;
  std::uint64_t refused = 0;  ///< 1: the bytes are a text
};
constexpr std::uint64_t kMaxRefusal = 4096;

/// Waits until the socket is ready. Throws after `patience_s`, or when `ends` becomes true.
void wait_for(const fs::Fd& socket, short events, double patience_s, const std::atomic<bool>* ends,
              const char* doing) {
  const double until = steady_now_s() + patience_s;
  while (true) {
    pollfd query{.fd = socket.get(), .events = events, .revents = 0};
    if (poll(&query, 1, kLook_ms) > 0) return;
    if (ends != nullptr && *ends) throw Error(Code::kCheckpoint, "given up");
    if (steady_now_s() > until)
      throw Error(Code::kCheckpoint, str("no answer for ", patience_s, " s while ", doing));
  }
}

void send_all(const fs::Fd& socket, std::span<const std::byte> bytes, const std::atomic<bool>* ends) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(socket, POLLOUT, kUnread_s, ends, "sending");
    } else if (errno != EINTR) {
      throw Error(Code::kCheckpoint, str("sending: ", fs::reason(errno)));
    }
  }
}

struct Patience {
  double seconds;
  const std::atomic<bool>* ends;
};

/// At least one byte, at most all of `to`.
std::size_t receive_some(const fs::Fd& socket, std::span<std::byte> to, const Patience& patience) {
  while (true) {
    const ssize_t got = ::recv(socket.get(), to.data(), to.size(), MSG_DONTWAIT);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) throw Error(Code::kCheckpoint, "the other side has closed the connection");
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(socket, POLLIN, patience.seconds, patience.ends, "receiving");
    } else if (errno != EINTR) {
      throw Error(Code::kCheckpoint, str("receiving: ", fs::reason(errno)));
    }
  }
}

template <class Message>
Message receive(const fs::Fd& socket, const Patience& patience) {
  Message message;
  auto rest = std::as_writable_bytes(std::span(&message, 1));
  while (!rest.empty()) rest = rest.subspan(receive_some(socket, rest, patience));
  if (message.magic != kMagic) throw Error(Code::kCheckpoint, "the other side is no memory service");
  return message;
}

template <class Message>
void send_message(const fs::Fd& socket, const Message& message, const std::atomic<bool>* ends) {
  send_all(socket, std::as_bytes(std::span(&message, 1)), ends);
}

}  // namespace

std::string card_text(const ServiceCard& card) {
  std::string text = str(card.port);
  for (const std::string& address : card.addresses) text += ' ' + address;
  return text;
}

ServiceCard parse_card(const std::string& text) {
  std::istringstream words(text);
  ServiceCard card;
  if (!(words >> card.port))
    throw Error(Code::kPeer, "a rank's address for memory checkpoints cannot be read");
  for (std::string address; words >> address;) card.addresses.push_back(address);
  return card;
}

/// What outlives the server as long as a client is served.
struct ShardServer::Shared {
  Path run_folder;
  ServiceToken token{};
  std::atomic<bool> ending{false};
  std::atomic<int> clients{0};

  void serve(const fs::Fd& socket) const noexcept;
  void answer(const fs::Fd& socket, const Request& request) const;
  [[nodiscard]] Path wait_for_file(const Request& request) const;
};

Path ShardServer::Shared::wait_for_file(const Request& request) const {
  const std::string save_id(request.save_id.data(), request.save_id.size());
  const bool sound = is_save_id(save_id) && request.step >= 0 && request.step <= kMaxStep &&
                     request.rank >= 0 && request.rank < request.ranks && request.ranks <= kMaxRanks;
  if (!sound) throw Error(Code::kCheckpoint, "the request makes no sense");
  const Path folder = run_folder / step_folder_name(request.step, save_id);
  const Path file =
      folder / (request.file == WantedFile::kInfo ? std::string(kInfoFile)
                                                  : shard_file_name(request.rank, request.ranks));
  const Path failure = folder / failure_file_name(request.rank);
  const double began = steady_now_s();
  const double until = began + request.patience_s;
  bool begun = false;  // the save, on this node
  while (!entry_exists(file)) {
    if (entry_exists(failure)) throw Error(Code::kCheckpoint, read_input(failure, kMaxRefusal));
    const bool there = entry_exists(folder);
    // Without the run's folder, or without a step folder that was there, nothing will come.
    if (begun ? !there : steady_now_s() - began > kRenewed_s && memory_vanished(run_folder))
      throw Error(Code::kCheckpoint, str('\'', folder.string(), "' has vanished"));
    begun = there;
    if (ending || !(steady_now_s() < until))
      throw Error(Code::kCheckpoint, str("there is no '", file.string(), '\''));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return file;
}

void ShardServer::Shared::answer(const fs::Fd& socket, const Request& request) const {
  const Path path = wait_for_file(request);
  const InputFile file = open_input(path);
  std::uint64_t bytes = file.bytes;
  if (request.file == WantedFile::kIndex) {
    std::vector<std::byte> head(std::min<std::uint64_t>(bytes, kIndexHeaderBytes));
    fs::read_at(file.fd, 0, head, Code::kCheckpoint, path);
    bytes = std::min(bytes, decode_index_head(head, path.string()).index_bytes);
  }
  send_message(socket, Reply{.bytes = bytes}, &ending);
  std::vector<std::byte> part;
  for (std::uint64_t at = 0; at < bytes; at += part.size()) {
    part.resize(std::min<std::uint64_t>(kPart, bytes - at));
    fs::read_at(file.fd, at, part, Code::kCheckpoint, path);
    send_all(socket, part, &ending);
  }
}

void ShardServer::Shared::serve(const fs::Fd& socket) const noexcept {
  try {
    const auto request = receive<Request>(socket, {kRequest_s, &ending});
    if (request.token != token) return;  // of another run, or no rank at all
    try {
      answer(socket, request);
    } catch (...) {
      // After the reply this is a broken connection for the client, as it should be.
      const std::string why = caught().substr(0, kMaxRefusal);
      send_message(socket, Reply{.bytes = why.size(), .refused = 1}, &ending);
      send_all(socket, std::as_bytes(std::span(why)), &ending);
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): the client sees its connection close, and says so
  }
}

ShardServer::ShardServer(Path run_folder, const ServiceToken& token)
    : listener_(listen_anywhere("memory checkpoints", "copies on other nodes need it")),
      shared_(std::make_shared<Shared>()) {
  shared_->run_folder = std::move(run_folder);
  shared_->token = token;
  thread_ = std::thread([this] { loop(); });
}

ShardServer::~ShardServer() {
  shared_->ending = true;
  thread_.join();
  while (shared_->clients > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

ServiceCard ShardServer::card() const {
  return {.port = listener_.port, .addresses = own_addresses()};
}

void ShardServer::loop() {
  pthread_setname_np(pthread_self(), "echelon-shards");
  while (!shared_->ending) {
    pollfd query{.fd = listener_.socket.get(), .events = POLLIN, .revents = 0};
    if (shared_->clients >= kMostClients || poll(&query, 1, kLook_ms) <= 0) {
      if (shared_->clients >= kMostClients) std::this_thread::sleep_for(std::chrono::milliseconds(kLook_ms));
      continue;
    }
    const int fd = ::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) continue;
    auto socket = std::make_shared<fs::Fd>(fd);
    ++shared_->clients;
    try {
      std::thread([shared = shared_, socket] {
        lower_priority_of_this_thread();
        shared->serve(*socket);
        --shared->clients;
      }).detach();
    } catch (const std::system_error&) {  // no thread left: the client's connection closes
      --shared_->clients;
    }
  }
}

void fetch(const ServiceCard& from, const ServiceToken& token, const WantedShard& wanted,
           const FetchLimits& limits, const std::function<void(std::span<const std::byte>)>& take) {
  if (from.port == 0) throw Error(Code::kCheckpoint, "that rank serves no memory checkpoints");
  std::string why;
  const auto socket = connect_to(from.addresses, from.port, kConnect_s, why);
  if (!socket) throw Error(Code::kCheckpoint, str("cannot connect (", why, ')'));
  Request request{.token = token,
                  .file = wanted.file,
                  .rank = wanted.rank,
                  .ranks = wanted.ranks,
                  .step = wanted.step,
                  .patience_s = wanted.patience_s};
  std::copy_n(wanted.save_id.begin(), std::min(wanted.save_id.size(), request.save_id.size()),
              request.save_id.begin());
  send_message(*socket, request, limits.cancelled);
  const Patience patience{limits.silence_s, limits.cancelled};
  const auto reply = receive<Reply>(*socket, {wanted.patience_s + limits.silence_s, limits.cancelled});
  if (reply.refused != 0 && reply.bytes > kMaxRefusal) throw Error(Code::kCheckpoint, "no sensible answer");
  std::string refusal;
  std::vector<std::byte> part(kPart);
  const double began = steady_now_s();
  for (std::uint64_t at = 0; at < reply.bytes;) {
    const std::size_t wish = std::min<std::uint64_t>(part.size(), reply.bytes - at);
    const auto got = std::span(part).first(receive_some(*socket, std::span(part).first(wish), patience));
    at += got.size();
    if (reply.refused != 0) {
      refusal.append(reinterpret_cast<const char*>(got.data()), got.size());
      continue;
    }
    take(got);
    if (limits.bytes_per_s == 0) continue;
    const double due = began + static_cast<double>(at) / static_cast<double>(limits.bytes_per_s);
    std::this_thread::sleep_for(std::chrono::duration<double>(std::max(0.0, due - steady_now_s())));
  }
  if (reply.refused != 0) throw Error(Code::kCheckpoint, refusal);
}

}  // namespace echelon::checkpoint
