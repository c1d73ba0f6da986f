// Checksums of records in files that other programs read.
#pragma once

#include <cstdint>
#include <string_view>

namespace hone::trackers {

std::uint32_t crc32(std::string_view bytes);   // of IEEE 802.3, as in gzip
std::uint32_t crc32c(std::string_view bytes);  // Castagnoli's

}  // namespace hone::trackers
