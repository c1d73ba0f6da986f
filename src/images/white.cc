// What is transparent is laid upon white.
#include <cstring>

#include "images/formats.h"

namespace hone::images {

void lay_upon_white(const std::uint8_t* from, std::int64_t pixels, std::uint8_t* to) {
  constexpr unsigned kBits = 7;  // beyond those of a byte
  for (std::int64_t i = 0; i < pixels; ++i, from += 4, to += 3) {
    const unsigned opacity = from[3];
    if (opacity == 255) {
      std::memcpy(to, from, 3);
      continue;
    }
    const unsigned own = opacity << kBits, white = (255u << kBits) - own;
    for (int c = 0; c < 3; ++c) {
      const unsigned sum = from[c] * own + 255 * white + (0x80u << kBits);
      to[c] = static_cast<std::uint8_t>((((sum >> 8) + sum) >> 8) >> kBits);
    }
  }
}

}  // namespace hone::images
