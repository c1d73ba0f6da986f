// The token cache's files: a header with sizes and hash, then the arrays of a TokenStore, little endian.
//
// A file is made under a temporary name, synced and renamed, so that it is whole or not there, also with two builders
// at once. On reading, sizes are checked before anything is allocated, then the hash, then that the arrays agree.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/env.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/strings.h"
#include "data/token_store.h"

namespace hone::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the arrays are written as they lie in memory");

constexpr std::uint64_t kMagic = 0x34304B4F54454E4F;  // "ONETOK04"
constexpr std::string_view kTemporary = ".tmp-";

struct Header {
  std::uint64_t magic = kMagic, total_bytes = 0, hash = 0;  // hash: of everything, with this field 0
  char key[32] = {};
  std::uint64_t ids16 = 0, ids32 = 0, docs = 0, ranges = 0, exceptions = 0, seams = 0, labels = 0, members = 0,
                label_text = 0;  // lengths of the arrays; label_text: the names, each with a zero byte behind it
  std::int64_t records = 0, empty = 0, not_text = 0, max_id = 0;
};
static_assert(sizeof(Header) % 8 == 0);

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::uint64_t padded(std::uint64_t bytes) { return (bytes + 7) / 8 * 8; }

std::string own_host() { return hex64(hash64(host_name())); }

// Removes what builders of this machine left behind when they were killed.
void reap(const Folder& folder) {
  for (const std::string& name : folder.list()) {
    if (!name.starts_with(kTemporary)) continue;
    const std::vector<std::string> parts = hone::split(name, '-');  // ".tmp", name, host, process
    const auto process = parts.size() < 4 ? std::nullopt : parse_int(parts.back());
    if (!process || parts[parts.size() - 2] != own_host()) continue;
    if (kill(static_cast<pid_t>(*process), 0) != 0 && errno == ESRCH) folder.remove(name);
  }
}

std::string temporary_name(const std::string& name) {
  return fmt::format("{}{}-{}-{}", kTemporary, name, own_host(), getpid());
}

// Reads array after array of a file whose header has been checked against its size.
class ArrayReader {
 public:
  ArrayReader(const InFile& file, Hasher& hasher) : file_(file), hasher_(hasher) {}
  template <class T>
  void read(std::vector<T>& into, std::uint64_t count) {
    into.resize(count);
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(into));
    file_.read(at_, bytes);
    hasher_.update(std::span<const std::byte>(bytes));
    at_ += padded(bytes.size());
  }

 private:
  const InFile& file_;
  Hasher& hasher_;
  std::uint64_t at_ = sizeof(Header);
};

Error damaged(const InFile& file, const std::string& fact) {
  return Error(ErrorKind::data, fmt::format("{}: damaged token cache: {}", file.path().string(), fact));
}

template <class T>
std::int64_t highest_of(const std::vector<T>& ids) {
  return ids.empty() ? -1 : std::int64_t{*std::max_element(ids.begin(), ids.end())};
}

// The header, if it can be true of a file of this size.
Header read_header(const InFile& file, const std::string& key) {
  Header header;
  if (file.size() < sizeof header) throw damaged(file, fmt::format("{} bytes are too few", file.size()));
  file.read(0, std::as_writable_bytes(std::span(&header, 1)));
  if (header.magic != kMagic) throw damaged(file, "unknown header");
  if (std::string_view(header.key, sizeof header.key) != key) throw damaged(file, "it was made from other data");
  if (header.total_bytes != file.size())
    throw damaged(file, fmt::format("got {} bytes, expected {}", file.size(), header.total_bytes));
  std::uint64_t left = file.size() - sizeof header;
  const std::pair<std::uint64_t, std::uint64_t> arrays[] = {
      {header.ids16, 2}, {header.ids32, 4},  {header.docs, 8},
      {header.docs, 8},  {header.ranges, 8}, {header.exceptions, sizeof(TokenStore::Exception)},
      {header.seams, 8},     {header.labels, sizeof(TokenStore::Label)},
      {header.members, sizeof(TokenStore::Member)}, {header.label_text, 1}};
  for (const auto& [count, width] : arrays) {
    if (count > left / width || padded(count * width) > left) throw damaged(file, "an array is longer than the file");
    left -= padded(count * width);
  }
  if (left != 0) throw damaged(file, "something follows the arrays");
  return header;
}

}  // namespace

void TokenStore::save(const std::string& folder_path, const std::string& name, const std::string& key) const {
  std::string label_text;
  for (const std::string& label : label_names_) (label_text += label) += '\0';
  Header header{.ids16 = ids16_.size(),
                .ids32 = ids32_.size(),
                .docs = lines_.size(),
                .ranges = ranges_.size(),
                .exceptions = exceptions_.size(),
                .seams = seams_.size(),
                .labels = labels_.size(),
                .members = members_.size(),
                .label_text = label_text.size(),
                .records = counts_.records,
                .empty = counts_.empty,
                .not_text = counts_.not_text,
                .max_id = counts_.max_id};
  HONE_ASSERT(key.size() == sizeof header.key);
  std::memcpy(header.key, key.data(), sizeof header.key);
  const std::span<const std::byte> arrays[] = {bytes_of(ids16_), bytes_of(ids32_),  bytes_of(ends_),
                                               bytes_of(lines_), bytes_of(ranges_), bytes_of(exceptions_),
                                               bytes_of(seams_),
                                               bytes_of(labels_), bytes_of(members_),
                                               std::as_bytes(std::span(label_text))};
  header.total_bytes = sizeof header;
  for (const auto& array : arrays) header.total_bytes += padded(array.size());
  Hasher hasher;
  hasher.update(std::as_bytes(std::span(&header, 1)));
  for (const auto& array : arrays) hasher.update(array);
  header.hash = hasher.digest64();

  const Folder folder = Env::process().make_folders(folder_path, ErrorKind::data);
  reap(folder);
  const std::string temporary = temporary_name(name);
  folder.remove(temporary);  // of an earlier process with our number
  try {
    OutFile file = folder.create(temporary);
    file.write(std::as_bytes(std::span(&header, 1)));
    constexpr std::byte kZeros[8] = {};
    for (const auto& array : arrays) {
      file.write(array);
      file.write(std::span(kZeros, padded(array.size()) - array.size()));
    }
    file.sync();
    file.close();
    folder.replace(temporary, name);  // there may be a damaged one, or the same content from another builder
  } catch (const Error&) {
    folder.remove(temporary);
    throw;
  }
}

std::shared_ptr<const TokenStore> TokenStore::load(const std::string& folder, const std::string& name,
                                                   const std::string& key) {
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  if (std::error_code error; !std::filesystem::exists(path, error)) return nullptr;
  const InFile file(path, ErrorKind::data);
  Header header = read_header(file, key);
  const std::uint64_t hash = std::exchange(header.hash, 0);
  Hasher hasher;
  hasher.update(std::as_bytes(std::span(&header, 1)));
  auto store = std::make_shared<TokenStore>();
  ArrayReader reader(file, hasher);
  reader.read(store->ids16_, header.ids16);
  reader.read(store->ids32_, header.ids32);
  reader.read(store->ends_, header.docs);
  reader.read(store->lines_, header.docs);
  reader.read(store->ranges_, header.ranges);
  reader.read(store->exceptions_, header.exceptions);
  reader.read(store->seams_, header.seams);
  reader.read(store->labels_, header.labels);
  reader.read(store->members_, header.members);
  std::vector<char> label_text;
  reader.read(label_text, header.label_text);
  if (hasher.digest64() != hash) throw damaged(file, "its hash differs");
  for (auto begin = label_text.begin(), end = begin; begin != label_text.end(); begin = end + 1) {
    end = std::find(begin, label_text.end(), '\0');
    if (end == label_text.end()) throw damaged(file, "a label without an end");
    store->label_names_.emplace_back(begin, end);
  }
  store->counts_ = {header.records, header.empty, header.not_text, header.max_id};
  during("checking " + path.string(), [&] { store->check(); });
  return store;
}

// The hash finds damage; this keeps a forged file from leading outside the arrays.
void TokenStore::check() const {
  const auto ascending = [](const std::vector<std::uint64_t>& values, std::uint64_t last) {
    for (std::size_t i = 1; i < values.size(); ++i)
      if (values[i] <= values[i - 1]) return false;
    return values.empty() || values.back() <= last;
  };
  const std::uint64_t tokens = narrow_ids() ? ids16_.size() : ids32_.size();
  bool fits = size() == tokens && ids16_.size() + ids32_.size() == tokens && ranges_.size() % 2 == 0 &&
              (ends_.empty() || ends_.front() > 0) && ascending(ends_, tokens) && ascending(ranges_, tokens);
  const std::int64_t highest = narrow_ids() ? highest_of(ids16_) : highest_of(ids32_);
  fits = fits && highest == counts_.max_id && highest <= std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = 0; fits && i < exceptions_.size(); ++i)
    fits = exceptions_[i].position < tokens && exceptions_[i].label >= 0 &&
           (i == 0 || exceptions_[i - 1].position < exceptions_[i].position);
  fits = fits && ascending(seams_, tokens) && (labels_.empty() || std::ssize(labels_) == docs());
  for (std::size_t i = 0; fits && i < labels_.size(); ++i) {
    const auto doc = static_cast<std::int64_t>(i);
    fits = labels_[i].name < label_names_.size() && labels_[i].second <= end(doc) - begin(doc);
  }
  fits = fits && (members_.empty() || (std::ssize(members_) == docs() && members_[0].group == 0));
  for (std::size_t i = 0; fits && i < members_.size(); ++i)
    fits = members_[i].role <= Role::rejected && (i == 0 || members_[i].group - members_[i - 1].group <= 1);
  if (!fits) throw Error(ErrorKind::data, "damaged token cache: its arrays contradict each other");
}

}  // namespace hone::data
