// LevelDB's log format (blocks; pieces with checksum, length and kind), with the plain CRC-32 that W&B has in it.
#include "trackers/wandb_file.h"

#include <algorithm>
#include <optional>
#include <span>

#include "trackers/checksum.h"
#include "trackers/protobuf.h"

namespace hone::trackers {
namespace {

constexpr std::uint64_t kLogBlock = 32768;
constexpr std::uint64_t kPieceHead = 7;  // checksum, length, kind
enum PieceKind : std::uint8_t { kAlone = 1, kFirst = 2, kMiddle = 3, kLast = 4 };
// Fields of Record, and of its Control.
constexpr std::uint64_t kRecordNumber = 1, kControl = 16, kMailboxSlot = 4;

std::uint64_t left_in_block(std::uint64_t at) { return kLogBlock - at % kLogBlock; }

std::string piece(PieceKind kind, std::string_view content) {
  const std::string tail = static_cast<char>(kind) + std::string(content);
  return little_endian(crc32(tail), 4) + little_endian(content.size(), 2) + tail;
}

PieceKind kind_of(bool is_first, bool is_last) {
  if (is_first) return is_last ? kAlone : kFirst;
  return is_last ? kLast : kMiddle;
}

struct Piece {
  PieceKind kind;
  std::string_view content;
  bool goes_on() const { return kind == kMiddle || kind == kLast; }  // the record of the piece before
};

// A file's blocks, one in memory at a time.
class Blocks {
 public:
  explicit Blocks(const InFile& file) : file_(file) {}
  // From there to the end of its block or of the file, until the next call.
  std::string_view from(std::uint64_t at) {
    if (at >= file_.size()) return "";
    if (const std::uint64_t begin = at - at % kLogBlock; block_.empty() || begin != begin_) {
      block_.resize(std::min(kLogBlock, file_.size() - begin));
      file_.read(begin, std::as_writable_bytes(std::span(block_)));
      begin_ = begin;
    }
    return std::string_view(block_).substr(at - begin_);
  }

 private:
  const InFile& file_;
  std::string block_;
  std::uint64_t begin_ = 0;
};

std::uint64_t length_of_piece(std::string_view head) { return kPieceHead + from_little_endian(head.substr(4, 2)); }

// The one that these bytes begin with; nothing: it is cut off or damaged.
std::optional<Piece> whole_piece(std::string_view bytes) {
  if (bytes.size() < kPieceHead) return std::nullopt;
  const auto kind = static_cast<std::uint8_t>(bytes[6]);
  const std::uint64_t length = length_of_piece(bytes);
  if (kind < kAlone || kind > kLast || length > bytes.size()) return std::nullopt;
  if (crc32(bytes.substr(6, length - 6)) != from_little_endian(bytes.substr(0, 4))) return std::nullopt;
  return Piece{static_cast<PieceKind>(kind), bytes.substr(kPieceHead, length - kPieceHead)};
}

// Whether the piece at that place, which is not whole, is the file's last one; `rest`: of the file, from there on. With
// a damaged length it may seem so while whole ones stand behind it.
bool is_last_piece(std::string_view rest, std::uint64_t at) {
  if (rest.size() >= kPieceHead) {
    const std::uint64_t length = length_of_piece(rest);
    if (length < rest.size() || length > left_in_block(at)) return false;
  }
  for (std::size_t i = 1; i < rest.size(); ++i)
    if (whole_piece(rest.substr(i))) return false;
  return true;
}

// Of the fields that hone writes.
WandbRecord read_wandb_record(std::string_view message) {
  WandbRecord record;
  for (Fields field(message); field.next();)
    if (field.number != kRecordNumber && field.number != kControl) record = {field.number, std::string(field.content)};
  return record;
}

}  // namespace

std::string wandb_framed(const WandbRecord& record, std::int64_t number, std::uint64_t at) {
  const std::string control = bytes_field(kControl, bytes_field(kMailboxSlot, "answer"));
  const std::string message = int_field(kRecordNumber, static_cast<std::uint64_t>(number)) +
                              (record.is_answered ? control : "") + bytes_field(record.kind, record.content);
  std::string framed;
  std::string_view rest = message;
  for (bool is_first = true; is_first || !rest.empty(); is_first = false) {
    const std::uint64_t left = left_in_block(at + framed.size());
    if (left < kPieceHead) framed.append(left, '\0');
    const std::uint64_t room = left_in_block(at + framed.size()) - kPieceHead;
    const std::string_view content = rest.substr(0, room);
    framed += piece(kind_of(is_first, content.size() == rest.size()), content);
    rest.remove_prefix(content.size());
  }
  return framed;
}

WandbEnd each_wandb_record(const InFile& file, const WandbVisit& visit) {
  using Why = WandbEnd::Why;
  Blocks blocks(file);
  if (const std::string_view start = blocks.from(0).substr(0, kWandbStart.size()); start != kWandbStart)
    return {kWandbStart.starts_with(start) ? Why::torn : Why::damaged, 0};
  std::string message;
  WandbPlace place{kWandbStart.size(), kWandbStart.size()};
  for (bool is_begun = false; is_begun || place.end < file.size();) {
    std::uint64_t at = place.end;
    if (const std::uint64_t left = left_in_block(at); left < kPieceHead) at += left;  // zeros
    const std::string_view rest = blocks.from(at);
    const auto piece = whole_piece(rest);
    if (!piece) {
      const bool is_last_block = at + rest.size() >= file.size();
      return {is_last_block && is_last_piece(rest, at) ? Why::torn : Why::damaged, place.begin};
    }
    if (is_begun != piece->goes_on()) return {Why::damaged, place.begin};
    message += piece->content;
    place.end = at + kPieceHead + piece->content.size();
    is_begun = piece->kind == kFirst || piece->kind == kMiddle;
    if (is_begun) continue;
    visit(read_wandb_record(message), place);
    message.clear();
    place.begin = place.end;
  }
  return {Why::whole, place.end};
}

}  // namespace hone::trackers
