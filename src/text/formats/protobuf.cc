// Varints, fixed numbers and byte strings; groups are refused.
#include "text/formats/protobuf.h"

#include <cstring>

namespace hone::text {

bool ProtoReader::number(std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes_[0]);
    bytes_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

std::optional<ProtoField> ProtoReader::next() {
  if (bytes_.empty() || failed_) return std::nullopt;
  ProtoField field;
  std::uint64_t tag = 0;
  failed_ = true;
  if (!number(tag) || tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) return std::nullopt;
  field.number = static_cast<std::uint32_t>(tag >> 3);
  switch (tag & 7) {
    case 0:
      if (!number(field.value)) return std::nullopt;
      break;
    case 1:
    case 5: {
      const std::size_t size = (tag & 7) == 1 ? 8 : 4;
      if (bytes_.size() < size) return std::nullopt;
      std::memcpy(&field.value, bytes_.data(), size);
      bytes_.remove_prefix(size);
      break;
    }
    case 2: {
      std::uint64_t size = 0;
      if (!number(size) || size > bytes_.size()) return std::nullopt;
      field.bytes = bytes_.substr(0, size);
      bytes_.remove_prefix(size);
      break;
    }
    default:
      return std::nullopt;
  }
  failed_ = false;
  return field;
}

}  // namespace hone::text
