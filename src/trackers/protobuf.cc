// Keys, varints and fixed numbers of protobuf's wire format.
#include "trackers/protobuf.h"

#include <bit>

namespace hone::trackers {
namespace {

enum Wire : std::uint64_t { kVarint = 0, kEight = 1, kBytes = 2, kFour = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(std::uint64_t number, Wire wire) { return varint(number << 3 | wire); }

}  // namespace

std::string little_endian(std::uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> 8 * i);
  return bytes;
}

std::uint64_t from_little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::string int_field(std::uint64_t number, std::uint64_t value) { return key(number, kVarint) + varint(value); }

std::string bytes_field(std::uint64_t number, std::string_view content) {
  return key(number, kBytes) + varint(content.size()) + std::string(content);
}

std::string real_field(std::uint64_t number, double value) {
  return key(number, kEight) + little_endian(std::bit_cast<std::uint64_t>(value), 8);
}

std::string real_field(std::uint64_t number, float value) {
  return key(number, kFour) + little_endian(std::bit_cast<std::uint32_t>(value), 4);
}

bool Fields::next() {
  std::uint64_t key = 0;
  if (!take_varint(key)) return false;
  number = key >> 3;
  switch (key & 7) {
    case kVarint:
      return take_varint(value);
    case kEight:
      return take_fixed(8);
    case kFour:
      return take_fixed(4);
    case kBytes:
      return take_varint(value) && take(value);
    default:
      return false;
  }
}

bool Fields::take(std::uint64_t size) {
  if (size > left_.size()) return false;
  content = left_.substr(0, size);
  left_.remove_prefix(size);
  return true;
}

bool Fields::take_fixed(std::uint64_t size) {
  if (!take(size)) return false;
  value = from_little_endian(content);
  return true;
}

bool Fields::take_varint(std::uint64_t& result) {
  result = 0;
  for (int shift = 0; shift < 64 && take(1); shift += 7) {
    const auto byte = static_cast<unsigned char>(content[0]);
    result |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace hone::trackers
