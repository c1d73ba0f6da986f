// Both checksums are of one kind: a table of bytes for each polynomial, bits in reversed order.
#include "trackers/checksum.h"

#include <array>

namespace hone::trackers {
namespace {

using CrcTable = std::array<std::uint32_t, 256>;

constexpr CrcTable crc_table(std::uint32_t polynomial) {
  CrcTable table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    table[byte] = crc;
  }
  return table;
}

std::uint32_t crc_by(const CrcTable& table, std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

}  // namespace

std::uint32_t crc32(std::string_view bytes) {
  static constexpr CrcTable kTable = crc_table(0xEDB88320u);
  return crc_by(kTable, bytes);
}

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr CrcTable kTable = crc_table(0x82F63B78u);
  return crc_by(kTable, bytes);
}

}  // namespace hone::trackers
