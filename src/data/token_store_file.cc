// The token cache's files: a header with sizes and hash, then the arrays of a TokenStore, little endian.
//
// On reading, sizes are checked first, then the hash, then that the arrays agree; they stay where they are, mapped, so
// that a data set may be larger than memory and the processes of a machine have one between them. Ids come first: with
// many of them the file is begun while they come, and the rest is written behind them.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/token_store.h"

namespace hone::data {
// 192 bytes, of which a file without a teacher has the first 176.
struct TokenFileHeader {
  std::uint64_t magic = 0x34304B4F54454E4F;   // "ONETOK04", or the one with characters or with a teacher
  std::uint64_t total_bytes = 0, hash = 0;    // hash: of everything but what fills up arrays, with this field 0
  char key[32] = {};
  std::uint64_t ids16 = 0, ids32 = 0, docs = 0, ranges = 0, exceptions = 0, seams = 0, labels = 0, members = 0,
                label_text = 0;  // lengths of the arrays; label_text: the names, each with a zero byte behind it
  std::int64_t records = 0, empty = 0, not_text = 0, max_id = 0;
  std::uint64_t pictures = 0, picture_text = 0;  // lengths of the last arrays
  std::uint64_t taught = 0, taught_width = 0;    // places that a teacher has said something of, and how much of each
};

namespace {

using Header = TokenFileHeader;
constexpr std::uint64_t kWithCharacters = 0x35304B4F54454E4F;  // "ONETOK05": with an array of characters
constexpr std::uint64_t kWithTeacher = 0x36304B4F54454E4F;     // "ONETOK06": with what a teacher has said
static_assert(std::endian::native == std::endian::little, "the arrays are written as they lie in memory");
static_assert(sizeof(Header) == 192);

// Of the header, in a file that begins so.
std::uint64_t header_bytes(std::uint64_t magic) {
  return magic == kWithTeacher ? sizeof(Header) : offsetof(Header, taught);
}

constexpr std::uint64_t kPutAway = std::uint64_t{1} << 22;  // bytes of ids, or said by a teacher, once there is a file

std::span<const std::byte> bytes_of(const Header& header) {
  return std::as_bytes(std::span(&header, 1)).first(header_bytes(header.magic));
}

// Until the arrays are there.
Header blank_header(const TaughtColumns& taught) {
  Header header;
  if (taught.is_there()) header.magic = kWithTeacher;
  return header;
}

std::uint64_t padded(std::uint64_t bytes) { return (bytes + 7) / 8 * 8; }

void fill_up(OutFile& out) {
  constexpr std::byte kZeros[8] = {};
  out.write(std::span(kZeros, padded(out.size()) - out.size()));
}

// Of each array how many values there are, and the bytes of one.
std::array<std::pair<std::uint64_t, std::uint64_t>, 16> arrays_of(const Header& header) {
  return {{{header.ids16, 2},
           {header.ids32, 4},
           {header.docs, 8},
           {header.docs, 8},
           {header.ranges, 8},
           {header.exceptions, sizeof(TokenStore::Exception)},
           {header.seams, 8},
           {header.labels, sizeof(TokenStore::Label)},
           {header.members, sizeof(TokenStore::Member)},
           {header.label_text, 1},
           {header.magic == kWithCharacters ? header.docs : 0, sizeof(std::uint32_t)},
           {header.pictures, sizeof(TokenStore::Picture)},
           {header.picture_text, 1},
           {header.taught, 8},
           {header.taught, header.taught_width * sizeof(std::uint32_t)},
           {header.taught, header.taught_width * sizeof(float)}}};
}

// Of a file that is as large as its header says. Read and not looked at where it is mapped: a disk that cannot read it
// is an error then, and not the end of the process.
std::uint64_t hash_of(const InFile& file, Header header) {
  header.hash = 0;
  Hasher hasher;
  hasher.update(bytes_of(header));
  std::vector<std::byte> block(std::size_t{1} << 20);
  std::uint64_t begin = header_bytes(header.magic);
  for (const auto& [count, width] : arrays_of(header)) {
    const std::uint64_t end = begin + count * width;
    for (std::uint64_t at = begin; at < end; at += block.size()) {
      const std::span<std::byte> some = std::span(block).first(std::min<std::uint64_t>(block.size(), end - at));
      file.read(at, some);
      hasher.update(std::span<const std::byte>(some));
    }
    begin += padded(count * width);
  }
  return hasher.digest64();
}

// All of it has been looked at, which makes it look as if the process had it in memory; it stays in the system's.
void let_go(const std::byte* file, const Header& header) {
  madvise(const_cast<std::byte*>(file), header.total_bytes, MADV_DONTNEED);
}

// Array after array behind a header that is true of the file.
class ArrayReader {
 public:
  ArrayReader(const std::byte* file, const Header& header) : at_(file + header_bytes(header.magic)) {}
  template <class T>
  std::span<const T> next(std::uint64_t count) {
    const std::span<const T> values(reinterpret_cast<const T*>(at_), count);
    at_ += padded(values.size_bytes());
    return values;
  }

 private:
  const std::byte* at_;
};

Error damaged(const InFile& file, const std::string& fact) {
  return Error(ErrorKind::data, fmt::format("{}: damaged token cache: {}", file.path().string(), fact));
}

std::int64_t highest_of(const auto& ids) {
  return ids.empty() ? -1 : std::int64_t{*std::max_element(ids.begin(), ids.end())};
}

// The header, if it can be true of a file of this size.
Header read_header(const InFile& file, const std::string& key) {
  Header header;
  const auto read = [&](std::uint64_t bytes) {
    if (file.size() < bytes) throw damaged(file, fmt::format("{} bytes are too few", file.size()));
    file.read(0, std::as_writable_bytes(std::span(&header, 1)).first(bytes));
  };
  read(header_bytes(header.magic));
  if (header.magic != Header().magic && header.magic != kWithCharacters && header.magic != kWithTeacher)
    throw damaged(file, "unknown header");
  read(header_bytes(header.magic));
  if (std::string_view(header.key, sizeof header.key) != key) throw damaged(file, "it was made from other data");
  if (header.total_bytes != file.size())
    throw damaged(file, fmt::format("got {} bytes, expected {}", file.size(), header.total_bytes));
  if (header.taught_width > file.size() / sizeof(float)) throw damaged(file, "an array is longer than the file");
  std::uint64_t left = file.size() - header_bytes(header.magic);
  for (const auto& [count, width] : arrays_of(header)) {
    const bool fits = width == 0 ? count == 0 : count <= left / width && padded(count * width) <= left;
    if (!fits) throw damaged(file, "an array is longer than the file");
    left -= padded(count * width);
  }
  if (left != 0) throw damaged(file, "something follows the arrays");
  return header;
}

}  // namespace

// ------------------------------------------------------------------------------------------------ while it is filled

void TokenStore::put_away_when_many() {
  if (place_.folder.empty()) return;
  const std::uint64_t bytes = ids16_.all().size_bytes() + ids32_.all().size_bytes();
  if (bytes < (file_ ? std::min(kPutAway, place_.most_bytes) : place_.most_bytes)) return;
  try {
    if (!file_) begin_file();
    put_away();
  } catch (const Error& error) {
    give_up(error);
  }
}

// The file has it behind the ids, of which nobody knows yet how many there will be: until then it is in others.
void TokenStore::teach_last(const DocTeacher& said) {
  taught_.add(said, begin(docs() - 1));
  if (place_.folder.empty()) return;
  if (taught_.bytes_in_memory() < (taught_.is_put_away() ? std::min(kPutAway, place_.most_bytes) : place_.most_bytes))
    return;
  try {
    if (!file_) begin_file();
    taught_.put_away(*file_);
  } catch (const Error& error) {
    give_up(error);
  }
}

void TokenStore::begin_file() {
  file_ = std::make_unique<NewTokenFile>(place_.folder, place_.name);
  file_->out().write(bytes_of(blank_header(taught_)));
}

void TokenStore::put_away() {
  const std::uint64_t count = ids16_.size() + ids32_.size();
  file_->out().write(std::as_bytes(ids16_.all()));
  file_->out().write(std::as_bytes(ids32_.all()));
  put_away_ += count;
  ids16_.clear(), ids32_.clear();
}

// The first large id comes, rarely so late: those in the file are written anew.
void TokenStore::widen_file() {
  try {
    std::unique_ptr<NewTokenFile> wide = file_->second("second");
    wide->out().write(bytes_of(blank_header(taught_)));
    const InFile narrow = file_->open();
    std::vector<std::uint16_t> ids(kPutAway);
    for (std::uint64_t at = 0; at < put_away_; at += ids.size()) {
      ids.resize(std::min<std::uint64_t>(ids.size(), put_away_ - at));
      narrow.read(bytes_of(blank_header(taught_)).size() + at * sizeof ids[0], std::as_writable_bytes(std::span(ids)));
      const std::vector<std::uint32_t> widened(ids.begin(), ids.end());
      wide->out().write(std::as_bytes(std::span(widened)));
    }
    file_ = std::move(wide);
  } catch (const Error& error) {
    give_up(error);
  }
}

// Into memory, what was put away.
void TokenStore::take_back() {
  const auto read = [&](auto& column) {
    std::vector<std::decay_t<decltype(column[0])>> ids(put_away_);
    file_->open().read(bytes_of(blank_header(taught_)).size(), std::as_writable_bytes(std::span(ids)));
    ids.insert(ids.end(), column.begin(), column.end());
    column.assign(std::move(ids));
  };
  if (put_away_ > 0) narrow_ids() ? read(ids16_) : read(ids32_);
  put_away_ = 0;
  taught_.take_back();
  file_.reset();
}

void TokenStore::give_up(const Error& why) {
  log::warning("the token cache is not kept: {}", why.what());
  take_back();
  place_.folder.clear();
}

void TokenStore::finish() {
  if (!file_) return;
  try {
    complete_file();
  } catch (const Error& error) {
    give_up(error);
  }
}

// ------------------------------------------------------------------------------------------------ the file

TokenFileHeader TokenStore::header() const {
  Header header{.ids16 = narrow_ids() ? put_away_ + ids16_.size() : 0,
                .ids32 = narrow_ids() ? 0 : put_away_ + ids32_.size(),
                .docs = lines_.size(),
                .ranges = ranges_.size(),
                .exceptions = exceptions_.size(),
                .seams = seams_.size(),
                .labels = labels_.size(),
                .members = members_.size(),
                .records = counts_.records,
                .empty = counts_.empty,
                .not_text = counts_.not_text,
                .max_id = counts_.max_id,
                .pictures = pictures_.size(),
                .picture_text = picture_text_.size(),
                .taught = taught_.places(),
                .taught_width = taught_.width()};
  if (counts_characters()) header.magic = kWithCharacters;
  if (taught_.is_there()) header.magic = kWithTeacher;
  for (const std::string& label : label_names_) header.label_text += label.size() + 1;
  HONE_ASSERT(place_.key.size() == sizeof header.key);
  std::memcpy(header.key, place_.key.data(), sizeof header.key);
  return header;
}

// Behind the ids that are in the file already the others, then all else; at last the header. From then on the arrays
// lie there.
void TokenStore::complete_file() {
  OutFile& out = file_->out();
  Header header = this->header();
  std::string label_text;
  for (const std::string& label : label_names_) (label_text += label) += '\0';
  out.write(std::as_bytes(ids16_.all()));
  out.write(std::as_bytes(ids32_.all()));
  fill_up(out);
  const auto write = [&](std::span<const std::byte> array) { out.write(array), fill_up(out); };
  write(std::as_bytes(ends_.all())), write(std::as_bytes(lines_.all())), write(std::as_bytes(ranges_.all()));
  write(std::as_bytes(exceptions_.all())), write(std::as_bytes(seams_.all()));
  write(std::as_bytes(labels_.all())), write(std::as_bytes(members_.all()));
  write(std::as_bytes(std::span(label_text))), write(std::as_bytes(characters_.all()));
  write(std::as_bytes(pictures_.all())), write(std::as_bytes(picture_text_.all()));
  taught_.each_array([&](const NewTokenFile* away, std::span<const std::byte> rest) {
    if (away) away->copy_into(out);
    write(rest);
  });
  header.total_bytes = out.size();
  const InFile file = file_->open();
  header.hash = hash_of(file, header);
  out.go_on_at(0);
  out.write(bytes_of(header));
  lie_in(file.map(), header);
  let_go(bytes_.get(), header);
}

// Returns the text of the labels' names.
std::string_view TokenStore::lie_in(std::shared_ptr<const std::byte> bytes, const TokenFileHeader& header) {
  ArrayReader reader(bytes.get(), header);
  ids16_.lie_at(reader.next<std::uint16_t>(header.ids16));
  ids32_.lie_at(reader.next<std::uint32_t>(header.ids32));
  ends_.lie_at(reader.next<std::uint64_t>(header.docs));
  lines_.lie_at(reader.next<std::int64_t>(header.docs));
  ranges_.lie_at(reader.next<std::uint64_t>(header.ranges));
  exceptions_.lie_at(reader.next<Exception>(header.exceptions));
  seams_.lie_at(reader.next<std::uint64_t>(header.seams));
  labels_.lie_at(reader.next<Label>(header.labels));
  members_.lie_at(reader.next<Member>(header.members));
  const std::span<const char> label_text = reader.next<char>(header.label_text);
  characters_.lie_at(reader.next<std::uint32_t>(header.magic == kWithCharacters ? header.docs : 0));
  pictures_.lie_at(reader.next<Picture>(header.pictures));
  picture_text_.lie_at(reader.next<char>(header.picture_text));
  const auto places = reader.next<std::uint64_t>(header.taught);
  const auto ids = reader.next<std::uint32_t>(header.taught * header.taught_width);
  const auto log_probs = reader.next<float>(header.taught * header.taught_width);
  if (header.magic == kWithTeacher) taught_.lie_at(header.taught_width, places, ids, log_probs);
  put_away_ = 0;
  bytes_ = std::move(bytes);
  return {label_text.data(), label_text.size()};
}

std::shared_ptr<const TokenStore> TokenStore::load(const std::string& folder, const std::string& name,
                                                   const std::string& key) {
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  if (std::error_code error; !std::filesystem::exists(path, error)) return nullptr;
  const InFile file(path, ErrorKind::data);
  const Header header = read_header(file, key);
  if (hash_of(file, header) != header.hash) throw damaged(file, "its hash differs");
  auto store = std::make_shared<TokenStore>();
  const std::string_view label_text = store->lie_in(file.map(), header);
  for (std::size_t begin = 0, end = 0; begin < label_text.size(); begin = end + 1) {
    end = label_text.find('\0', begin);
    if (end == std::string_view::npos) throw damaged(file, "a label without an end");
    store->label_names_.emplace_back(label_text.substr(begin, end - begin));
  }
  store->counts_ = {header.records, header.empty, header.not_text, header.max_id};
  during("checking " + path.string(), [&] { store->check(); });
  let_go(store->bytes_.get(), header);
  return store;
}

void TokenStore::save() {
  if (place_.folder.empty()) return;
  try {
    if (!file_) begin_file();
    if (!bytes_) complete_file();
    file_->keep();
  } catch (const Error&) {
    take_back();
    throw;
  }
  file_.reset();
}

// The hash finds damage; this keeps a forged file from leading outside the arrays.
void TokenStore::check() const {
  const auto ascending = [](const Column<std::uint64_t>& values, std::uint64_t last) {
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
    fits = (labels_[i].name < label_names_.size() || is_tagged()) && labels_[i].second <= end(doc) - begin(doc);
  }
  fits = fits && (members_.empty() || (std::ssize(members_) == docs() && members_[0].group == 0));
  for (std::size_t i = 0; fits && i < members_.size(); ++i)
    fits = members_[i].role <= Role::target && (i == 0 || members_[i].group - members_[i - 1].group <= 1);
  for (std::size_t i = 0; fits && i < pictures_.size(); ++i) {
    const Picture before = i == 0 ? Picture() : pictures_[i - 1], &one = pictures_[i];
    fits = one.begin >= before.begin + before.tokens && one.tokens <= tokens && one.begin <= tokens - one.tokens &&
           one.end >= before.end && one.end <= picture_text_.size() && one.kind <= Picture::kTile &&
           (one.kind != Picture::kTile || (i > 0 && one.end == before.end));
  }
  fits = fits && taught_.fits(tokens);
  if (!fits) throw Error(ErrorKind::data, "damaged token cache: its arrays contradict each other");
}

}  // namespace hone::data
