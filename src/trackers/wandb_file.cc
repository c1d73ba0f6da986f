// LevelDB's log format (blocks; pieces with checksum, length and kind), with the plain CRC-32 that W&B has in it.
#include "trackers/wandb_file.h"

#include <optional>

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
  std::uint64_t end;  // in the file
};

// The one at that place, or behind the zeros that fill up a block there; nothing: it is cut off or damaged.
std::optional<Piece> piece_at(std::string_view file, std::uint64_t at) {
  if (const std::uint64_t left = left_in_block(at); left < kPieceHead) at += left;
  if (at + kPieceHead > file.size()) return std::nullopt;
  const std::uint64_t size = from_little_endian(file.substr(at + 4, 2));
  const std::uint64_t end = at + kPieceHead + size;
  if (kPieceHead + size > left_in_block(at) || end > file.size()) return std::nullopt;
  if (crc32(file.substr(at + 6, size + 1)) != from_little_endian(file.substr(at, 4))) return std::nullopt;
  const auto kind = static_cast<std::uint8_t>(file[at + 6]);
  if (kind < kAlone || kind > kLast) return std::nullopt;
  return Piece{static_cast<PieceKind>(kind), file.substr(at + kPieceHead, size), end};
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

void each_wandb_record(std::string_view file, const WandbVisit& visit) {
  if (!file.starts_with(kWandbStart)) return;
  std::string message;
  WandbPlace place{kWandbStart.size(), kWandbStart.size()};
  bool is_begun = false;
  while (const auto piece = piece_at(file, place.end)) {
    if (is_begun != (piece->kind == kMiddle || piece->kind == kLast)) return;
    message += piece->content;
    place.end = piece->end;
    is_begun = piece->kind == kFirst || piece->kind == kMiddle;
    if (is_begun) continue;
    visit(read_wandb_record(message), place);
    message.clear();
    place.begin = place.end;
  }
}

}  // namespace hone::trackers
